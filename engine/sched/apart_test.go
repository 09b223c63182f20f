package sched_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"godwit/engine/kv"
	"godwit/engine/sched"
)

// A job whose Next takes long delays no other job. Its first token comes after
// all tokens of another job. If it is cancelled, or the scheduler is closed, it
// ends when its call of Next returns.
func TestApart(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 512, seqs: 3, context: 256, rows: 16})
	const n = 50
	slow, quick := text(1, 20), text(2, 30)
	begun, release := make(chan struct{}), make(chan struct{})
	first := true
	wait := func() {
		if first {
			first = false
			close(begun)
			<-release
		}
	}
	done, err := begin(t.Context(), s, sched.Job{Prompt: slow, Slot: -1, Apart: true}, 10, wait)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	ended(t, "quick", run(t, s, sched.Job{Prompt: quick, Slot: -1}, n), quick, n, 0)
	if slots, err := s.Slots(t.Context()); err != nil || !slots[0].Busy && !slots[1].Busy {
		t.Errorf("%+v, %v", slots, err)
	}
	close(release)
	ended(t, "slow", <-done, slow, 10, 0)

	for _, what := range []string{"cancelled", "closed"} {
		ctx, cancel := context.WithCancel(t.Context())
		begun, release, first = make(chan struct{}), make(chan struct{}), true
		done, err := begin(ctx, s, sched.Job{Prompt: slow, Slot: -1, Apart: true}, 10, wait)
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		if what == "closed" {
			go s.Close()
			for err = nil; !errors.Is(err, sched.ErrClosed); {
				_, err = s.Slots(t.Context())
			}
		} else {
			cancel()
		}
		select {
		case r := <-done:
			t.Errorf("%s: %v before Next has returned", what, r.err)
		case <-time.After(20 * time.Millisecond):
		}
		close(release)
		if r := <-done; !errors.Is(r.err, context.Canceled) && !errors.Is(r.err, sched.ErrClosed) {
			t.Errorf("%s: %v", what, r.err)
		}
		cancel()
	}
}

// A job in the queue whose context ends gets its error while the job in the
// only slot is still choosing a token.
func TestApartQueue(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 256, seqs: 1, context: 256, rows: 16})
	begun, release := make(chan struct{}), make(chan struct{})
	first := true
	slow, err := begin(t.Context(), s, sched.Job{Prompt: text(1, 20), Slot: -1, Apart: true}, 2, func() {
		if first {
			first = false
			close(begun)
			<-release
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	queued, err := begin(ctx, s, sched.Job{Prompt: text(2, 20), Slot: -1}, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if r := <-queued; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the one in the queue: %v", r.err)
	}
	close(release)
	ended(t, "slow", <-slow, text(1, 20), 2, 0)
}

// When the cells run out, a newer job makes room for an older one, even if the
// older one has to wait for the token that the newer one is choosing.
func TestApartYields(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 4 * kv.PageCells, seqs: 2, context: 4 * kv.PageCells, rows: 64, seed: 4})
	const last = 3*kv.PageCells - 20 + 1 // the first token of the older job that does not fit in three pages
	older, newer := sched.Job{Prompt: text(1, 20), Slot: -1}, sched.Job{Prompt: text(2, 20), Slot: -1, Apart: true}
	full, release := make(chan struct{}), make(chan struct{})
	n := 0
	first := generates(&older, last+20, func() {
		if n++; n == last {
			close(full)
		}
	})
	second := generates(&newer, 60, func() { <-release })
	if err := s.Submit(t.Context(), older, newer); err != nil {
		t.Fatal(err)
	}
	<-full
	for range 5 { // meanwhile the loop looks for a cell
		if slots, err := s.Slots(t.Context()); err != nil || !slots[0].Busy || !slots[1].Busy {
			t.Errorf("%+v, %v", slots, err)
		}
	}
	close(release)
	r := <-second
	if len(first) == 0 {
		t.Error("the newer one ends first")
	}
	ended(t, "newer", r, newer.Prompt, 60, 0)
	ended(t, "older", <-first, older.Prompt, last+20, 0)
}
