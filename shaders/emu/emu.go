//go:build linux || darwin

// Package emu runs the kernels on the CPU, as a gpu.Device, so that every commit
// can be tested without a GPU. It compiles the sources with $CXX or c++ at first
// use and caches the results in the user's cache folder.
//
// Each thread of a kernel is a fiber. If threads wait at different collectives,
// or some wait while others have ended, the error contains the source lines.
// Shared memory starts as NaN, has guard zones around each array, and ends at
// 32 KiB. Options.Order sets the order of lanes, threadgroups and unordered
// launches. If a kernel's result depends on it, a barrier is missing.
package emu

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"godwit/engine/backend"
	"godwit/engine/fault"
	"godwit/engine/gpu"
	"godwit/shaders"
)

// Built reports whether this build has the emulator.
const Built = true

// Options configures Open. The zero value works.
type Options struct {
	Order    int    // 0 is ascending, 1 is descending, others are shuffled
	Threads  int    // number of CPU threads; 0 uses all
	Compiler string // C++ compiler; by default $CXX or c++
	Cache    string // folder for compiled kernels; by default godwit/emu in the user's cache folder
	Memory   int64  // maximum bytes of all buffers; 0 selects 64 GiB
	MMA      int    // value that gpu.Multiplier returns
}

// device is the emulated GPU.
type device struct {
	o       Options
	c       *compiler
	workers []*worker
	queue   []launch // launches recorded since the last Submit
	order   []int    // scratch memory of Submit
	used    int64
	err     error
}

// Open returns an emulator, or an error if there is no compiler.
func Open(o Options) (gpu.Device, error) {
	if o.Threads <= 0 {
		o.Threads = runtime.NumCPU()
	}
	if o.Memory <= 0 {
		o.Memory = 64 << 30
	}
	if o.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("emu: no cache folder: %w", err)
		}
		o.Cache = filepath.Join(dir, "godwit", "emu")
	}
	c, err := newCompiler(o.Compiler, o.Cache)
	if err != nil {
		return nil, err
	}
	return &device{o: o, c: c}, nil
}

// Info describes the emulator.
func (d *device) Info() backend.Info {
	return backend.Info{
		Backend: "emu", Device: "GPU emulator", Detail: d.c.version,
		Memory: d.o.Memory, Free: d.o.Memory - d.used, Threads: d.o.Threads,
	}
}

// MMA returns the value in the options.
func (d *device) MMA() int { return d.o.MMA }

// zone is the number of guard bytes before and after a buffer, which kernels must
// not write.
const zone = 256

const red = 0xa5

// buffer is memory with guard zones on both sides, or the caller's memory.
type buffer struct {
	d     *device
	label string
	all   []byte // memory including the guard zones; nil for the caller's memory
	data  []byte
}

// Alloc makes a buffer.
func (d *device) Alloc(size int64, data []byte, label string) (gpu.Buffer, error) {
	switch {
	case data != nil && int64(len(data)) != size:
		return nil, fmt.Errorf("emu: %s: %d bytes of data for a buffer of %d", label, len(data), size)
	case data != nil:
		// Kernels are native code and must not read a mapped file. If the file were
		// truncated, the process would end.
		own := make([]byte, size)
		err := fault.Guard(func() error {
			copy(own, data)
			return nil
		})
		return &buffer{d: d, label: label, data: own}, err
	case size < 0 || size > d.o.Memory-d.used:
		return nil, fmt.Errorf("%w: emu: %s wants %d bytes, %d of %d free", backend.ErrMemory, label, size, d.o.Memory-d.used, d.o.Memory)
	}
	d.used += size
	b := &buffer{d: d, label: label, all: make([]byte, size+3*zone)}
	first := zone + int(-uintptr(unsafe.Pointer(unsafe.SliceData(b.all)))%zone)
	b.data = b.all[first : first+int(size) : first+int(size)]
	for i := range zone {
		b.all[first-1-i], b.all[first+int(size)+i] = red, red
	}
	return b, nil
}

// Size is the number of bytes.
func (b *buffer) Size() int64 { return int64(len(b.data)) }

// Close frees the memory.
func (b *buffer) Close() error {
	if b.all != nil {
		b.d.used -= int64(len(b.data))
	}
	b.all, b.data = nil, nil
	return nil
}

// check reports whether guard bytes were written.
func (b *buffer) check() error {
	if b.all == nil {
		return nil
	}
	first := int(uintptr(unsafe.Pointer(unsafe.SliceData(b.data))) - uintptr(unsafe.Pointer(unsafe.SliceData(b.all))))
	if len(b.data) == 0 {
		first = zone
	}
	for i := range zone {
		if b.all[first-1-i] != red {
			return fmt.Errorf("a write %d bytes before the start of %s", i+1, b.label)
		}
		if b.all[first+len(b.data)+i] != red {
			return fmt.Errorf("a write %d bytes past the end of %s", i, b.label)
		}
	}
	return nil
}

// Upload copies into a buffer.
func (d *device) Upload(dst gpu.Buffer, offset int64, src []byte) error {
	b := dst.(*buffer)
	if b.all == nil || offset < 0 || offset+int64(len(src)) > b.Size() {
		return fmt.Errorf("emu: upload of %d bytes at %d of %s, which has %d", len(src), offset, b.label, b.Size())
	}
	copy(b.data[offset:], src)
	return nil
}

// Download copies from a buffer.
func (d *device) Download(dst []byte, src gpu.Buffer, offset int64) error {
	if err := d.Wait(); err != nil {
		return err
	}
	b := src.(*buffer)
	if offset < 0 || offset+int64(len(dst)) > b.Size() {
		return fmt.Errorf("emu: download of %d bytes at %d of %s, which has %d", len(dst), offset, b.label, b.Size())
	}
	copy(dst, b.data[offset:])
	return nil
}

// Wait returns the first error. Submit has already run everything.
func (d *device) Wait() error { return d.err }

// Close closes the device. Its kernels' libraries stay loaded, and its workers are
// kept for the next device.
func (d *device) Close() error {
	pool.Lock()
	defer pool.Unlock()
	pool.free = append(pool.free, d.workers...)
	d.queue, d.workers = nil, nil
	return nil
}

// pipeline is a compiled kernel.
type pipeline struct {
	k   *shaders.Kernel
	run uintptr
}

// Kernel returns the source kernel.
func (p *pipeline) Kernel() *shaders.Kernel { return p.k }

// Pipeline compiles a kernel, or loads it from the cache folder.
func (d *device) Pipeline(k *shaders.Kernel, c shaders.Constants) (gpu.Pipeline, error) {
	text, err := k.Source(c)
	if err != nil {
		return nil, err
	}
	return d.pipeline(k, text)
}

// pipeline compiles a kernel's text, which tests may change.
func (d *device) pipeline(k *shaders.Kernel, text string) (*pipeline, error) {
	lib, err := d.c.load(k.Name, text)
	if err != nil {
		return nil, err
	}
	run, err := purego.Dlsym(lib, "gd_run")
	if err != nil {
		return nil, fmt.Errorf("emu: %s: %w", k.Name, err)
	}
	if len(d.workers) == 0 {
		if err := d.newWorkers(lib); err != nil {
			return nil, err
		}
	}
	return &pipeline{k: k, run: run}, nil
}

// worker holds the memory of one CPU thread.
type worker struct {
	memory uintptr // points to a gd::Worker
	run    runArgs
	fault  [512]byte
}

// runArgs has the layout of gd::Run.
type runArgs struct {
	args           unsafe.Pointer
	grid           [3]uint32
	threads, order uint32
	_              uint32
	first, count   uint64
	fault          unsafe.Pointer
}

// newWorkers reuses workers of closed devices and makes more if necessary.
func (d *device) newWorkers(lib uintptr) error {
	fn, err := purego.Dlsym(lib, "gd_new")
	if err != nil {
		return fmt.Errorf("emu: %w", err)
	}
	pool.Lock()
	defer pool.Unlock()
	for len(d.workers) < d.o.Threads {
		if n := len(pool.free); n > 0 {
			d.workers = append(d.workers, pool.free[n-1])
			pool.free = pool.free[:n-1]
			continue
		}
		memory, _, _ := purego.SyscallN(fn)
		if memory == 0 {
			return errors.New("emu: no memory for a worker's stacks")
		}
		d.workers = append(d.workers, &worker{memory: memory})
	}
	return nil
}

// pool holds the workers of closed devices.
var pool struct {
	sync.Mutex
	free []*worker
}
