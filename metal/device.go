//go:build darwin && cgo

package metal

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"godwit/engine/backend"
	"godwit/engine/gpu"
	"godwit/metal/mtl"
	"godwit/shaders"
)

// device is an opened GPU with one queue and the command buffer that is being
// filled. From the first launch to Submit, its owner stays on one thread, because
// the autorelease pool belongs to that thread.
type device struct {
	gpu       *mtl.Device
	queue     mtl.ID
	resident  *mtl.Residency
	stale     bool // the residency set has changed
	used      int64
	pipelines []mtl.ID

	open    bool
	pool    mtl.AutoreleasePool
	words   *mtl.Words
	now     mtl.Commands
	waiting []mtl.Commands
	err     error // first error; later launches do nothing
}

// Info describes the GPU.
func (d *device) Info() backend.Info { return describe(d.gpu) }

// MMA returns 2 if SIMD groups can multiply matrices.
func (d *device) MMA() int {
	if d.gpu.MatrixUnits() {
		return 2
	}
	return 0
}

// buffer is memory that the GPU can access.
type buffer struct {
	d      *device
	id     mtl.ID
	offset int64  // offset of the caller's memory within its first page
	size   int64  // requested size
	whole  int64  // allocated size
	data   []byte // the caller's memory, which must stay reachable
}

// noCopy is the size in bytes from which the caller's memory is used in place.
const noCopy = 1 << 16

// Alloc makes a buffer. Large data is used in place.
func (d *device) Alloc(size int64, data []byte, label string) (gpu.Buffer, error) {
	if data != nil && int64(len(data)) != size || size <= 0 {
		return nil, fmt.Errorf("metal: %s: %d bytes of data for a buffer of %d", label, len(data), size)
	}
	b := &buffer{d: d, size: size, whole: size}
	over := data != nil && size >= noCopy
	if over {
		page := int64(os.Getpagesize())
		b.data, b.offset = data, int64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))%page
		b.whole = (b.offset + size + page - 1) / page * page
	}
	if most := d.gpu.MaxBuffer(); b.whole > most {
		return nil, fmt.Errorf("%w: metal: %s wants %d bytes, a buffer has at most %d", backend.ErrMemory, label, b.whole, most)
	}
	if limit := d.gpu.WorkingSet(); d.used+b.whole > limit {
		return nil, fmt.Errorf("%w: metal: %s wants %d bytes, %d of %d free; sudo sysctl iogpu.wired_limit_mb=N lets the GPU have more",
			backend.ErrMemory, label, b.whole, limit-d.used, limit)
	}
	if over {
		b.id = d.gpu.BufferOver(unsafe.Add(unsafe.Pointer(unsafe.SliceData(data)), -b.offset), b.whole)
	} else {
		b.id = d.gpu.Buffer(size)
	}
	if b.id == 0 {
		return nil, fmt.Errorf("%w: metal: %s wants %d bytes, %d of %d free", backend.ErrMemory, label, b.whole, d.gpu.WorkingSet()-d.used, d.gpu.WorkingSet())
	}
	if !over {
		clear(mtl.Contents(b.id, size))
		copy(mtl.Contents(b.id, size), data)
	}
	d.used += b.whole
	if d.resident != nil {
		d.resident.Add(b.id)
		d.stale = true
	}
	return b, nil
}

// Size is the number of bytes.
func (b *buffer) Size() int64 { return b.size }

// Close frees the memory after the launches that use it.
func (b *buffer) Close() error {
	if b.id == 0 {
		return nil
	}
	err := b.d.drain()
	if b.d.resident != nil {
		b.d.resident.Remove(b.id)
		b.d.stale = true
	}
	b.d.used -= b.whole
	b.id.Release()
	b.id, b.data = 0, nil
	return err
}

// within returns a buffer and a range of its memory, or an error if the range is
// outside the buffer.
func within(x gpu.Buffer, offset int64, n int) (*buffer, []byte, error) {
	b := x.(*buffer)
	if b.id == 0 || offset < 0 || offset > b.size-int64(n) {
		return nil, nil, fmt.Errorf("metal: %d bytes at %d of a buffer of %d", n, offset, b.size)
	}
	return b, mtl.Contents(b.id, b.offset+b.size)[b.offset+offset:][:n], nil
}

// Upload copies to a buffer.
func (d *device) Upload(dst gpu.Buffer, offset int64, src []byte) error {
	b, memory, err := within(dst, offset, len(src))
	if err != nil {
		return err
	}
	if b.data != nil {
		return fmt.Errorf("metal: upload of %d bytes to memory that is only read", len(src))
	}
	copy(memory, src)
	return nil
}

// Download waits for all launches and copies from a buffer.
func (d *device) Download(dst []byte, src gpu.Buffer, offset int64) error {
	_, memory, err := within(src, offset, len(dst))
	if err = errors.Join(err, d.Wait()); err != nil {
		return err
	}
	copy(dst, memory)
	return nil
}

// pipeline is a compiled kernel.
type pipeline struct {
	kernel *shaders.Kernel
	id     mtl.ID
}

// Kernel returns the kernel that was compiled.
func (p *pipeline) Kernel() *shaders.Kernel { return p.kernel }

// simdWidth is the SIMD group size that the kernels assume.
const simdWidth = 32

// Pipeline compiles a kernel from its source.
func (d *device) Pipeline(k *shaders.Kernel, c shaders.Constants) (gpu.Pipeline, error) {
	text, err := k.Source(c)
	if err != nil {
		return nil, err
	}
	id, err := d.gpu.Pipeline(k.Name, text)
	if err != nil {
		return nil, fmt.Errorf("metal: %s: %w", k.Name, err)
	}
	d.pipelines = append(d.pipelines, id)
	if simd, most := mtl.Widths(id); simd != simdWidth || most < k.Group {
		return nil, fmt.Errorf("%w: metal: %s has SIMD groups of %d and at most %d threads; %d and %d are required",
			backend.ErrUnsupported, d.gpu.Name(), simd, most, simdWidth, k.Group)
	}
	return &pipeline{k, id}, nil
}

// begin opens a command buffer.
func (d *device) begin() {
	if d.open {
		return
	}
	d.pool = mtl.OpenPool()
	if d.stale {
		d.resident.Commit()
		d.stale = false
	}
	d.now, d.open = mtl.Begin(d.queue, d.words), true
}

// Launch records a run of a kernel.
func (d *device) Launch(p gpu.Pipeline, grid [3]uint32, args []gpu.Bind, params []byte) {
	if d.err != nil {
		return
	}
	d.begin()
	k := p.(*pipeline)
	d.now.Pipeline(k.id)
	for i, a := range args {
		b := a.Buffer.(*buffer)
		d.now.Buffer(i, b.id, b.offset+a.Offset)
	}
	if len(params) > 0 {
		d.now.Bytes(len(args), params)
	}
	d.now.Launch(grid, k.kernel.Group)
}

// Barrier orders the launches before and after it.
func (d *device) Barrier() {
	if d.open {
		d.now.Barrier()
	}
}

// Submit starts the recorded launches.
func (d *device) Submit() error {
	if d.open {
		d.now.Commit()
		d.waiting = append(d.waiting, d.now)
		d.pool.Close()
		d.open = false
	}
	return d.err
}

// Wait waits for all submitted launches.
func (d *device) Wait() error { return d.drain() }

// drain waits for each command buffer and checks how it ended, because buffers
// have undefined contents after a failure.
func (d *device) drain() error {
	for _, c := range d.waiting {
		err := c.Wait()
		if err == nil || d.err != nil {
			continue
		}
		var e *mtl.Error
		if errors.As(err, &e) && e.OutOfMemory() {
			err = fmt.Errorf("%w: %w; %d bytes in use of %d; sudo sysctl iogpu.wired_limit_mb=N lets the GPU have more",
				backend.ErrMemory, err, d.used, d.gpu.WorkingSet())
		}
		d.err = fmt.Errorf("metal: %w", err)
	}
	d.waiting = d.waiting[:0]
	return d.err
}

// Close releases the GPU. Buffers belong to their owners.
func (d *device) Close() error {
	err := d.Submit()
	err = errors.Join(err, d.drain())
	for _, p := range d.pipelines {
		p.Release()
	}
	if d.resident != nil {
		d.resident.Release()
	}
	d.queue.Release()
	d.gpu.Release()
	d.pipelines, d.resident, d.queue = nil, nil, 0
	return err
}
