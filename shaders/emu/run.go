//go:build linux || darwin

package emu

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"

	"godwit/engine/gpu"
	"godwit/shaders"
)

// launch is a recorded launch, or a barrier if p is nil.
type launch struct {
	p      *pipeline
	grid   [3]uint32
	args   []unsafe.Pointer // buffers, followed by the parameter struct
	out    []*buffer        // buffers that the kernel may write
	params []byte
}

// Launch checks a launch against the table and records it.
func (d *device) Launch(p gpu.Pipeline, grid [3]uint32, args []gpu.Bind, params []byte) {
	k := p.Kernel()
	l := d.next()
	l.p, l.grid = p.(*pipeline), grid
	if err := d.bind(l, k, args, params); err != nil {
		d.queue = d.queue[:len(d.queue)-1]
		d.fail(fmt.Errorf("emu: %s: %w", k.Name, err))
	}
}

// next returns the next element of the queue, reusing the memory of an earlier
// launch.
func (d *device) next() *launch {
	if len(d.queue) < cap(d.queue) {
		d.queue = d.queue[:len(d.queue)+1]
	} else {
		d.queue = append(d.queue, launch{})
	}
	l := &d.queue[len(d.queue)-1]
	l.p, l.args, l.out, l.params = nil, l.args[:0], l.out[:0], l.params[:0]
	return l
}

func (d *device) bind(l *launch, k *shaders.Kernel, args []gpu.Bind, params []byte) error {
	if size := reflect.TypeOf(k.Params).Size(); len(args) != len(k.Args) || uintptr(len(params)) != size {
		return fmt.Errorf("%d buffers and %d bytes of parameters; want %d and %d", len(args), len(params), len(k.Args), size)
	}
	for i, a := range args {
		b, ok := a.Buffer.(*buffer)
		if !ok || b.d != d {
			return fmt.Errorf("argument %s is not a buffer of this device", k.Args[i].Name)
		}
		if a.Offset < 0 || a.Offset > b.Size() || a.Offset%4 != 0 {
			return fmt.Errorf("argument %s at %d of %s, which has %d bytes", k.Args[i].Name, a.Offset, b.label, b.Size())
		}
		if k.Args[i].Dir != shaders.In {
			if b.all == nil {
				return fmt.Errorf("argument %s writes to %s, which holds the caller's data", k.Args[i].Name, b.label)
			}
			l.out = append(l.out, b)
		}
		l.args = append(l.args, unsafe.Add(unsafe.Pointer(unsafe.SliceData(b.data)), a.Offset))
	}
	l.params = append(l.params, params...)
	l.args = append(l.args, unsafe.Pointer(unsafe.SliceData(l.params)))
	return nil
}

// Barrier separates later launches from earlier ones.
func (d *device) Barrier() { d.next() }

func (d *device) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Submit runs the recorded launches. Launches between two barriers run in an order
// that depends on Options.Order.
func (d *device) Submit() error {
	for first := 0; first < len(d.queue) && d.err == nil; {
		end := first
		for end < len(d.queue) && d.queue[end].p != nil {
			end++
		}
		d.order = d.order[:0]
		for i := first; i < end; i++ {
			d.order = append(d.order, i)
		}
		d.shuffle(d.order)
		for _, i := range d.order {
			if err := d.run(&d.queue[i]); err != nil {
				d.fail(fmt.Errorf("emu: %s: %w", d.queue[i].p.k.Name, err))
				break
			}
		}
		first = end + 1
	}
	d.queue = d.queue[:0]
	return d.err
}

// shuffle sorts launches into the order in which they will run.
func (d *device) shuffle(list []int) {
	swap := func(i, j int) { list[i], list[j] = list[j], list[i] }
	switch d.o.Order {
	case 0:
	case 1:
		for i := range len(list) / 2 {
			swap(i, len(list)-1-i)
		}
	default:
		rand.New(rand.NewPCG(uint64(d.o.Order), uint64(len(list)))).Shuffle(len(list), swap)
	}
}

// stretch is the number of threads that a worker takes at a time.
const stretch = 4096

// run runs one launch.
func (d *device) run(l *launch) error {
	groups := uint64(l.grid[0]) * uint64(l.grid[1]) * uint64(l.grid[2])
	each := max(1, stretch/uint64(l.p.k.Group))
	n := int(min(uint64(len(d.workers)), (groups+each-1)/each))
	var next atomic.Uint64
	var wg sync.WaitGroup
	for _, w := range d.workers[:max(n-1, 0)] {
		wg.Go(func() { w.work(l, d.o.Order, &next, each, groups) })
	}
	if n > 0 {
		d.workers[n-1].work(l, d.o.Order, &next, each, groups)
	}
	wg.Wait()
	for _, w := range d.workers[:n] {
		if i := bytes.IndexByte(w.fault[:], 0); i > 0 {
			return errors.New(string(w.fault[:i]))
		}
	}
	for _, b := range l.out {
		if err := b.check(); err != nil {
			return err
		}
	}
	return nil
}

// work runs ranges of a launch until none is left.
func (w *worker) work(l *launch, order int, next *atomic.Uint64, each, groups uint64) {
	w.fault[0] = 0
	w.run = runArgs{
		args: unsafe.Pointer(unsafe.SliceData(l.args)), grid: l.grid,
		threads: uint32(l.p.k.Group), order: uint32(order), fault: unsafe.Pointer(&w.fault),
	}
	for w.fault[0] == 0 {
		end := next.Add(each)
		w.run.first = end - each
		if w.run.first >= groups {
			break
		}
		w.run.count = min(each, groups-w.run.first)
		purego.SyscallN(l.p.run, w.memory, uintptr(unsafe.Pointer(&w.run)))
	}
	runtime.KeepAlive(l)
}
