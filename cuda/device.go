//go:build linux || windows

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"godwit/engine/backend"
	"godwit/engine/fault"
	"godwit/engine/gpu"
	"godwit/shaders"
)

// device is an opened card with one context and one stream, on which launches run
// in order.
type device struct {
	*api
	kind    string
	card    *card
	stream  uintptr
	modules []uintptr
	err     error // first error; later launches do nothing
	words   launchWords
}

// launchWords is the memory that a launch passes to the driver. It holds the
// arguments, their addresses, and the words of the calls themselves. Without
// it, each launch would allocate memory. After the device is opened, any
// goroutine may read context, which does not change until Close.
type launchWords struct {
	buffers [maxArgs]uint64
	list    [maxArgs + 1]unsafe.Pointer
	call    [11]uintptr
	context [1]uintptr
}

// maxArgs is the maximum number of buffers of a kernel.
const maxArgs = 16

// open makes a context for a card.
func (a *api) open(kind string, i int) (gpu.Device, error) {
	n, err := a.cards()
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= n {
		return nil, fmt.Errorf("there are %d devices", n)
	}
	c, err := a.card(i)
	if err != nil {
		return nil, err
	}
	if a.flavor == nvidia && c.capability < minCapability {
		return nil, fmt.Errorf("%w: %s has compute capability %d.%d, but %d.%d or newer is required", backend.ErrUnsupported,
			c.name, c.capability/10, c.capability%10, minCapability/10, minCapability%10)
	}
	d := &device{api: a, kind: kind, card: c}
	for i := range d.words.buffers {
		d.words.list[i] = unsafe.Pointer(&d.words.buffers[i])
	}
	if err := a.call("context", a.retain, uintptr(unsafe.Pointer(&d.words.context[0])), uintptr(c.handle)); err != nil {
		return nil, err
	}
	leave, err := d.enter()
	if err == nil {
		err = a.call("stream", a.streamCreate, uintptr(unsafe.Pointer(&d.stream)), nonBlocking)
		leave()
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// nonBlocking makes a stream independent of the default stream.
const nonBlocking = 1

// enter makes the context current on this thread until leave is called, because the
// device's owner may move between threads.
func (d *device) enter() (leave func(), err error) {
	runtime.LockOSThread()
	if err := d.call("context", d.current, d.words.context[:]...); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return runtime.UnlockOSThread, nil
}

// Info describes the card and its free memory. It may be called by any goroutine,
// even while others launch kernels.
func (d *device) Info() backend.Info {
	i := d.info(d.kind, d.card)
	if free, _, err := d.memory(); err == nil {
		i.Free = free
	}
	return i
}

// MMA returns 1 if the card can run kernels that use the dialect's mma.
func (d *device) MMA() int {
	if d.flavor == nvidia && d.card.capability >= mmaCapability {
		return 1
	}
	return 0
}

// memory returns the free and the total memory.
func (d *device) memory() (free, total int64, err error) {
	leave, err := d.enter()
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	err = d.call("free memory", d.memInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return free, total, err
}

// buffer is a piece of a card's memory.
type buffer struct {
	d    *device
	at   uint64
	size int64
}

// Alloc makes a buffer and copies data into it, or clears it if data is nil.
func (d *device) Alloc(size int64, data []byte, label string) (gpu.Buffer, error) {
	if data != nil && int64(len(data)) != size || size <= 0 {
		return nil, fmt.Errorf("%s: %s: %d bytes of data for a buffer of %d", d.kind, label, len(data), size)
	}
	b, err := d.allocate(size, data, label)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.kind, err)
	}
	return b, nil
}

// stageBytes is the number of bytes of a weight that are copied to a card in
// one piece.
const stageBytes = 8 << 20

// stage copies data to a card through the process's own memory. The driver must not
// read a mapped file, because its code would end the process if the file were
// truncated.
func (d *device) stage(at uint64, data []byte) error {
	buf := make([]byte, min(len(data), stageBytes))
	for len(data) > 0 {
		n := 0
		err := fault.Guard(func() error {
			n = copy(buf, data)
			return nil
		})
		if err == nil {
			err = d.call("copy to the device", d.toDevice, uintptr(at), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(n), d.stream)
		}
		if err == nil { // buf is reused for the next piece
			err = d.call("wait", d.streamWait, d.stream)
		}
		if err != nil {
			return err
		}
		at, data = at+uint64(n), data[n:]
	}
	return nil
}

func (d *device) allocate(size int64, data []byte, label string) (*buffer, error) {
	free, total, err := d.memory()
	if err != nil {
		return nil, err
	}
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	b := &buffer{d: d, size: size}
	if err := d.call("allocate", d.alloc, uintptr(unsafe.Pointer(&b.at)), uintptr(size)); err != nil {
		if says(err, outOfMemory) {
			return nil, fmt.Errorf("%w: %s wants %d bytes, %d of %d free", backend.ErrMemory, label, size, free, total)
		}
		return nil, err
	}
	if data == nil {
		err = d.call("clear", d.set, uintptr(b.at), 0, uintptr(size), d.stream)
		if err == nil {
			err = d.call("wait", d.streamWait, d.stream)
		}
	} else {
		err = d.stage(b.at, data)
	}
	if err != nil {
		return nil, errors.Join(err, d.call("free", d.free, uintptr(b.at)))
	}
	return b, nil
}

// Size is the number of bytes.
func (b *buffer) Size() int64 { return b.size }

// Close frees the memory.
func (b *buffer) Close() error {
	if b.at == 0 {
		return nil
	}
	leave, err := b.d.enter()
	if err != nil {
		return err
	}
	defer leave()
	at := b.at
	b.at = 0
	return b.d.call("free", b.d.free, uintptr(at))
}

// Upload copies to a buffer. When it returns, the host's memory can be reused.
func (d *device) Upload(dst gpu.Buffer, offset int64, src []byte) error {
	b, err := d.within(dst, offset, len(src))
	if err != nil || len(src) == 0 {
		return err
	}
	leave, err := d.enter()
	if err != nil {
		return err
	}
	defer leave()
	err = d.call("copy to the device", d.toDevice, uintptr(b.at)+uintptr(offset), uintptr(unsafe.Pointer(&src[0])), uintptr(len(src)), d.stream)
	return d.stick(err)
}

// Download waits for all launches and copies from a buffer.
func (d *device) Download(dst []byte, src gpu.Buffer, offset int64) error {
	b, err := d.within(src, offset, len(dst))
	if err != nil {
		return err
	}
	if d.err != nil || len(dst) == 0 {
		return d.Wait()
	}
	leave, err := d.enter()
	if err != nil {
		return err
	}
	defer leave()
	err = d.call("copy from the device", d.toHost, uintptr(unsafe.Pointer(&dst[0])), uintptr(b.at)+uintptr(offset), uintptr(len(dst)), d.stream)
	if err == nil {
		err = d.call("wait", d.streamWait, d.stream)
	}
	return d.stick(err)
}

// within checks a range of a buffer.
func (d *device) within(x gpu.Buffer, offset int64, n int) (*buffer, error) {
	b := x.(*buffer)
	if b.at == 0 || offset < 0 || offset > b.size-int64(n) {
		return nil, fmt.Errorf("%s: %d bytes at %d of a buffer of %d", d.kind, n, offset, b.size)
	}
	return b, nil
}

// stick records the first error and returns it.
func (d *device) stick(err error) error {
	d.note(err)
	return d.err
}

// note records the first error, which the next Submit or Wait returns.
func (d *device) note(err error) {
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("%s: %w", d.kind, err)
	}
}

// Launch starts a kernel on the stream.
func (d *device) Launch(p gpu.Pipeline, grid [3]uint32, args []gpu.Bind, params []byte) {
	if d.err != nil {
		return
	}
	leave, err := d.enter()
	if err != nil {
		d.note(err)
		return
	}
	defer leave()
	w, k := &d.words, p.(*pipeline)
	for i, a := range args {
		w.buffers[i] = a.Buffer.(*buffer).at + uint64(a.Offset)
	}
	at := &w.list[len(args)]
	usual := *at
	if len(params) > 0 {
		*at = unsafe.Pointer(unsafe.SliceData(params))
	}
	// The argument list is a field of the device. The device is on the heap and
	// in use, so the list does not move.
	w.call = [...]uintptr{
		k.function, uintptr(grid[0]), uintptr(grid[1]), uintptr(grid[2]), uintptr(k.kernel.Group), 1, 1,
		0, d.stream, uintptr(unsafe.Pointer(&w.list[0])), 0,
	}
	err = d.call(k.what, d.launch, w.call[:]...)
	runtime.KeepAlive(params)
	*at = usual
	d.note(err)
}

// Barrier does nothing, because launches in a stream run one after another.
func (d *device) Barrier() {}

// Submit returns the first error. The launches have already been started.
func (d *device) Submit() error { return d.err }

// Wait waits for all launches.
func (d *device) Wait() error {
	if d.err != nil {
		return d.err
	}
	leave, err := d.enter()
	if err != nil {
		return err
	}
	defer leave()
	return d.stick(d.call("wait", d.streamWait, d.stream))
}

// Close frees what the device holds. Buffers belong to their owners.
func (d *device) Close() error {
	if d.words.context[0] == 0 {
		return nil
	}
	leave, err := d.enter()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range d.modules {
		errs = append(errs, d.call("unload", d.unload, m))
	}
	if d.stream != 0 {
		errs = append(errs, d.call("end stream", d.streamDestroy, d.stream))
	}
	leave()
	d.modules, d.stream, d.words.context[0] = nil, 0, 0
	return errors.Join(append(errs, d.call("end context", d.release, uintptr(d.card.handle)))...)
}

// pipeline is a kernel of a module.
type pipeline struct {
	kernel   *shaders.Kernel
	function uintptr
	what     string // names a launch in errors
}

// Kernel returns the kernel that was compiled.
func (p *pipeline) Kernel() *shaders.Kernel { return p.kernel }
