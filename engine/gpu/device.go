// Package gpu is the GPU backend: it turns a plan into kernel launches over
// Device, which metal, cuda and the emulator implement.
//
// The glossary in package kv defines the terms used here.
package gpu

import (
	"godwit/engine/backend"
	"godwit/shaders"
)

// Device runs kernels in the order of a queue. It is used from one goroutine.
//
// Launches between two barriers may run concurrently or in any order; launches
// after a barrier see the writes before it. Launch and Barrier only record:
// Submit starts what was recorded, Wait waits for everything submitted. The
// first error sticks; Submit and Wait return it.
type Device interface {
	Info() backend.Info
	// Alloc returns a buffer of size bytes. With data the buffer holds it, by
	// copy or by reference: the caller neither changes nor frees data while the
	// buffer lives, and kernels only read it. Without data the buffer is
	// zeroed. An error wraps backend.ErrMemory.
	Alloc(size int64, data []byte, label string) (Buffer, error)
	// Upload copies src into a buffer at an offset. No submitted work may still
	// use that range; launches recorded later see the new bytes.
	Upload(dst Buffer, offset int64, src []byte) error
	// Download waits like Wait, then copies from a buffer.
	Download(dst []byte, src Buffer, offset int64) error
	// Pipeline compiles a kernel for constants. It is slow; the caller keeps
	// the result.
	Pipeline(k *shaders.Kernel, c shaders.Constants) (Pipeline, error)
	// Launch records a run of grid threadgroups of the kernel's own size. args
	// are the buffers of Kernel.Args in order, params the parameter struct;
	// both are copied before Launch returns.
	Launch(p Pipeline, grid [3]uint32, args []Bind, params []byte)
	Barrier()
	Submit() error
	Wait() error
	Close() error
}

// Buffer is memory of a device.
type Buffer interface {
	Size() int64
	Close() error
}

// Pipeline is a compiled kernel. It lives as long as its device.
type Pipeline interface {
	Kernel() *shaders.Kernel
}

// Bind is a buffer argument: the buffer from an offset on, a multiple of 4
// (16 where a kernel reads the argument as weights or cache).
type Bind struct {
	Buffer Buffer
	Offset int64
}

// Recorder is a Device that can store launches and start them again as one: the
// same kernels with the same grids, arguments and parameters.
type Recorder interface {
	Device
	// Begin stores the following launches instead of starting them.
	Begin() error
	// End returns the stored launches. None of them has run.
	End() (Graph, error)
	// Replay records a run of all launches of a graph.
	Replay(Graph)
}

// Graph is launches that start as one.
type Graph interface{ Close() error }

// Multiplier is a Device that may have instructions for small matrix products.
// MMA is the value of that constant of kernels; it is 0 for other devices.
type Multiplier interface {
	Device
	MMA() int
}
