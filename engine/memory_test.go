package engine_test

import (
	"errors"
	"sync"
	"testing"

	"godwit/engine"
	"godwit/engine/testmodel"
)

// books records the reservations of a group of processes.
type books struct {
	alone sync.Mutex
	mu    sync.Mutex
	held  map[string]int64
}

// page is one process's view of the books.
type page struct {
	*books
	name string
}

func (p page) Others() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := int64(0)
	for name, n := range p.held {
		if name != p.name {
			sum += n
		}
	}
	return sum
}

func (p page) Publish(own int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[p.name] = own
}

func (p page) Alone(f func(others int64)) {
	p.alone.Lock()
	defer p.alone.Unlock()
	f(p.Others())
}

// Memory that another process has reserved but not touched does not count as free,
// and a load that needs it is rejected.
func TestMemoryLedger(t *testing.T) {
	path := testmodel.Golden(t, "models", "tiny", "llama-hd64.gguf")
	b := &books{held: map[string]int64{}}
	first := engine.Options{Context: 1 << 16, Parallel: 1, Threads: 1, Memory: &engine.Memory{Ledger: page{b, "first"}}}
	second := first
	second.Memory = &engine.Memory{Ledger: page{b, "second"}}
	free := second.Free("")
	if free == 0 {
		t.Skip("the system does not say what memory is free")
	}
	e, err := engine.Open(t.Context(), path, first)
	if err != nil {
		t.Fatal(err)
	}
	cache := e.KV().Bytes()
	if n := b.held["first"]; n < cache/2 || n > 2*cache {
		t.Errorf("%d bytes are published of a cache of %d", n, cache)
	}
	b.held["third"] = free // all that is left
	var lack *engine.MemoryError
	if other, err := engine.Open(t.Context(), path, second); !errors.As(err, &lack) {
		t.Errorf("a second process loads what is reserved already: %v", err)
		if err == nil {
			other.Close()
		}
	}
	if n := b.held["second"]; n != 0 {
		t.Errorf("%d bytes stay published after a load that was refused", n)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if n := b.held["first"]; n != 0 {
		t.Errorf("%d bytes stay published after the end", n)
	}
}
