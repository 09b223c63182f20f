// Package cpu is the CPU backend: it always builds, has no build tag in its
// own files, and is what the other backends are compared with. The arithmetic
// lives in cpu/kernel, the cache pages and attention in cpu/attn.
package cpu

import (
	"fmt"
	"runtime"

	"godwit/engine/backend"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// Driver opens the CPU.
type Driver struct {
	// Heads, if set, is told the query heads and the keys of every row of every
	// layer with a cache, as attention reads them: q is [heads][head size], k
	// [KV heads][head size] and nil where the layer reads another's cache. One
	// call at a time; the slices are its own until it returns.
	Heads func(layer, pos int, q, k []float32)
}

// Name is "cpu".
func (Driver) Name() string { return "cpu" }

// Devices lists the one device.
func (Driver) Devices() ([]backend.Info, error) {
	return []backend.Info{info(Cores())}, nil
}

// Open starts the worker pool.
func (d Driver) Open(device int, o backend.Options) (backend.Backend, error) {
	if device != 0 {
		return nil, fmt.Errorf("cpu: there is no device %d", device)
	}
	n := o.Threads
	if n <= 0 {
		n = Cores()
	}
	return &Backend{pool: newPool(n), options: o, heads: d.Heads, shared: make(map[*graph.Weight]*shared)}, nil
}

// Backend is the opened CPU. Programs of one Backend run one at a time.
type Backend struct {
	pool    *pool
	options backend.Options
	heads   func(layer, pos int, q, k []float32)
	shared  map[*graph.Weight]*shared
}

// Info describes the processor.
func (b *Backend) Info() backend.Info { return info(b.pool.workers) }

// Close ends the workers.
func (b *Backend) Close() error {
	b.pool.close()
	return nil
}

func info(threads int) backend.Info {
	total, free := systemMemory()
	return backend.Info{
		Backend: "cpu", Device: runtime.GOARCH, Detail: kernel.Active().String(),
		Memory: total, Free: free, Threads: threads,
	}
}
