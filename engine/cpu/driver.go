// Package cpu is the CPU backend. It builds on every platform, and the other
// backends are compared with it. The arithmetic is in cpu/kernel. Cache pages and
// attention are in cpu/attn.
//
// The glossary in package kv defines the terms used here.
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
	// Heads, if set, is called with the query heads and keys of every row, for
	// every layer with a cache, as attention reads them. q is [heads][head
	// size] and k is [KV heads][head size]. k is nil if the layer reads another
	// layer's cache. Calls never overlap. The slices are valid until Heads
	// returns.
	Heads func(layer, pos int, q, k []float32)
}

// Name is the name of this backend.
const Name = "cpu"

// Name returns Name.
func (Driver) Name() string { return Name }

// Devices returns one device.
func (Driver) Devices() ([]backend.Info, error) {
	return []backend.Info{info(Cores())}, nil
}

// Open starts the worker pool.
func (d Driver) Open(device int, o backend.Options) (backend.Backend, error) {
	if device != 0 {
		return nil, fmt.Errorf("cpu: no device %d", device)
	}
	n := o.Threads
	if n <= 0 {
		n = Cores()
	}
	return &Backend{pool: newPool(n), options: o, observer: d.Heads, shared: make(map[*graph.Weight]*shared)}, nil
}

// Backend is the opened CPU. Programs of one Backend run one at a time.
type Backend struct {
	pool     *pool
	options  backend.Options
	observer func(layer, pos int, q, k []float32)
	shared   map[*graph.Weight]*shared
}

// Info describes the processor.
func (b *Backend) Info() backend.Info { return info(b.pool.workers) }

// Close stops the workers.
func (b *Backend) Close() error {
	b.pool.close()
	return nil
}

func info(threads int) backend.Info {
	total, free := systemMemory()
	return backend.Info{
		Backend: Name, Device: runtime.GOARCH, Detail: kernel.Active().String(),
		Memory: total, Free: free, Threads: threads,
	}
}
