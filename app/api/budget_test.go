package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// Claims are served in order, however large they are. A cancelled claim lets the
// next ones pass.
func TestBudget(t *testing.T) {
	b := &budget{size: 10}
	if !b.try(6) || b.try(5) {
		t.Fatal("6 and 5 of 10 bytes")
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	large, small := make(chan error, 1), make(chan error, 1)
	go func() { large <- b.acquire(ctx, 10) }()
	wait(t, "the large one", func() bool { _, n := b.state(); return n == 1 })
	go func() { small <- b.acquire(t.Context(), 4) }()
	wait(t, "the small one", func() bool { _, n := b.state(); return n == 2 })
	if b.try(1) {
		t.Error("a byte was given past those who wait")
	}
	cancel(gone)
	if err := <-large; !errors.Is(err, gone) {
		t.Errorf("who gave up: %v", err)
	}
	if err := <-small; err != nil {
		t.Error(err)
	}
	b.give(6)
	b.give(4)
	if used, waiting := b.state(); used != 0 || waiting != 0 {
		t.Errorf("%d bytes are taken, %d wait", used, waiting)
	}
}

// Many concurrent claims never exceed the budget, and all bytes are returned.
func TestBudgetUnderLoad(t *testing.T) {
	const size = 100
	b := &budget{size: size}
	var held atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(3) == 0 {
					go cancel()
				}
				if n := 1 + r.Int64N(size); b.acquire(ctx, n) == nil {
					if sum := held.Add(n); sum > size {
						t.Errorf("%d of %d bytes are held", sum, size)
					}
					held.Add(-n)
					b.give(n)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if used, waiting := b.state(); used != 0 || waiting != 0 {
		t.Errorf("%d bytes are taken, %d wait", used, waiting)
	}
}
