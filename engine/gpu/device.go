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
// Launches between two barriers may run concurrently or in any order. Launches
// after a barrier see the writes before it. Launch and Barrier only record.
// Submit starts what was recorded, and Wait waits for everything submitted.
// After the first error, Submit and Wait always return that error.
type Device interface {
	Info() backend.Info
	// Alloc returns a buffer of size bytes. If data is given, the buffer is a
	// copy of it or refers to it. The caller must not change or free data while
	// the buffer is in use, and kernels only read it. Without data, the buffer
	// is zeroed. An error wraps backend.ErrMemory.
	Alloc(size int64, data []byte, label string) (Buffer, error)
	// Upload copies src into a buffer at an offset. Submitted work must no
	// longer use that range. Launches that are recorded later see the new
	// bytes.
	Upload(dst Buffer, offset int64, src []byte) error
	// Download waits like Wait, then copies from a buffer.
	Download(dst []byte, src Buffer, offset int64) error
	// Pipeline compiles a kernel for constants. It is slow, so the caller keeps
	// the result.
	Pipeline(k *shaders.Kernel, c shaders.Constants) (Pipeline, error)
	// Launch records a run of grid threadgroups, whose size the kernel defines.
	// args holds the buffers of Kernel.Args in order, and params is the
	// parameter struct. Both are copied before Launch returns.
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

// Bind is a buffer argument, which begins at an offset in the buffer. The
// offset is a multiple of 4, or of 16 if the kernel reads the argument as
// weights or cache.
type Bind struct {
	Buffer Buffer
	Offset int64
}

// Recorder is a Device that can store launches and replay them as one unit,
// with the same kernels, grids, arguments and parameters.
type Recorder interface {
	Device
	// Begin stores the following launches instead of starting them.
	Begin() error
	// End returns the stored launches. None of them has run.
	End() (Graph, error)
	// Replay records a run of all launches of a graph.
	Replay(Graph)
}

// Graph is a stored list of launches that start as one unit.
type Graph interface{ Close() error }

// Multiplier is a Device that may have instructions for small matrix products.
// MMA returns the value of the kernels' constant MMA for this device. Other
// devices use 0.
type Multiplier interface {
	Device
	MMA() int
}
