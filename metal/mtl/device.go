//go:build darwin && cgo

package mtl

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/progrium/darwinkit/macos/metal"
	"github.com/progrium/darwinkit/objc"
)

// Device is a GPU.
type Device struct {
	id    ID
	about metal.DeviceObject
}

// Devices lists the GPUs. The system's default GPU is first.
func Devices() ([]*Device, error) {
	if err := load(); err != nil {
		return nil, err
	}
	defer Pool()()
	var list []*Device
	if id := ID(call(functions.create)); id != 0 {
		list = append(list, device(id))
	}
	all := ID(call(functions.all))
	if all == 0 {
		return list, nil
	}
	defer all.Release()
	for i := range send(all, sel.count) {
		if id := ID(send(all, sel.objectAtIndex, i)); len(list) == 0 || id != list[0].id {
			list = append(list, device(id.Retain()))
		}
	}
	return list, nil
}

func device(id ID) *Device {
	p := uintptr(id)
	return &Device{id, metal.DeviceObject{Object: objc.ObjectFrom(*(*unsafe.Pointer)(unsafe.Pointer(&p)))}}
}

// Name returns the system's name of the GPU.
func (d *Device) Name() string { return d.about.Name() }

// WorkingSet returns how much memory programs should use at most, in bytes.
func (d *Device) WorkingSet() int64 { return int64(d.about.RecommendedMaxWorkingSetSize()) }

// MaxBuffer returns the size of the largest buffer, in bytes.
func (d *Device) MaxBuffer() int64 { return int64(d.about.MaxBufferLength()) }

// Allocated returns how much GPU memory this program uses, in bytes.
func (d *Device) Allocated() int64 { return int64(d.about.CurrentAllocatedSize()) }

// Unified reports whether the GPU shares the processor's memory.
func (d *Device) Unified() bool { return truth(send(d.id, sel.hasUnifiedMemory)) }

// MatrixUnits reports whether SIMD groups can multiply 8 by 8 matrices, which
// Apple's GPUs can from the M1 on.
func (d *Device) MatrixUnits() bool {
	return responds(d.id, sel.supportsFamily) && truth(send(d.id, sel.supportsFamily, uintptr(metal.GPUFamilyApple7)))
}

// Release releases the GPU.
func (d *Device) Release() { d.id.Release() }

// Queue makes a command queue.
func (d *Device) Queue() (ID, error) {
	q := ID(send(d.id, sel.newCommandQueue))
	if q == 0 {
		return 0, errors.New("no command queue")
	}
	return q, nil
}

// Both processors can access shared buffers. Barriers between the launches order
// the accesses.
const shared = uintptr(metal.ResourceStorageModeShared | metal.ResourceHazardTrackingModeUntracked)

// Buffer allocates memory. It returns 0 if there is not enough memory.
func (d *Device) Buffer(size int64) ID { return ID(send(d.id, sel.newBuffer, uintptr(size), shared)) }

// BufferOver makes a buffer of whole pages of the caller's memory. The memory must
// outlive the buffer.
func (d *Device) BufferOver(p unsafe.Pointer, size int64) ID {
	return ID(send(d.id, sel.newBufferNoCopy, uintptr(p), uintptr(size), shared, 0))
}

// Contents returns a buffer's memory.
func Contents(buffer ID, size int64) []byte {
	p := send(buffer, sel.contents)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), size)
}

// Pipeline compiles a kernel. The compiler must keep the order and the rounding of
// operations in the source.
func (d *Device) Pipeline(name, source string) (ID, error) {
	defer Pool()()
	options := ID(send(ID(send(class("MTLCompileOptions"), sel.alloc)), sel.initialise))
	defer options.Release()
	send(options, sel.setFastMath, 0)
	var e ID
	lib := ID(send(d.id, sel.newLibrary, uintptr(text(source)), uintptr(options), uintptr(unsafe.Pointer(&e))))
	if lib == 0 {
		return 0, fmt.Errorf("compile: %w", failure(e))
	}
	defer lib.Release()
	fn := ID(send(lib, sel.newFunction, uintptr(text(name))))
	if fn == 0 {
		return 0, fmt.Errorf("the library has no function %s", name)
	}
	defer fn.Release()
	e = 0
	p := ID(send(d.id, sel.newPipeline, uintptr(fn), uintptr(unsafe.Pointer(&e))))
	if p == 0 {
		return 0, fmt.Errorf("pipeline: %w", failure(e))
	}
	return p, nil
}

// Widths returns the number of threads in a SIMD group, and the maximum number
// in a threadgroup.
func Widths(pipeline ID) (simd, most int) {
	return int(send(pipeline, sel.executionWidth)), int(send(pipeline, sel.maxThreads))
}

// Residency is a set of buffers that stay accessible to the GPU. It is nil
// before macOS 15, which introduced such sets.
type Residency struct{ id ID }

// Residency makes a set for a queue.
func (d *Device) Residency(queue ID) (*Residency, error) {
	if !responds(d.id, sel.newResidencySet) || !responds(queue, sel.addResidencySet) {
		return nil, nil
	}
	defer Pool()()
	descriptor := ID(send(ID(send(class("MTLResidencySetDescriptor"), sel.alloc)), sel.initialise))
	defer descriptor.Release()
	var e ID
	set := ID(send(d.id, sel.newResidencySet, uintptr(descriptor), uintptr(unsafe.Pointer(&e))))
	if set == 0 {
		return nil, fmt.Errorf("residency set: %w", failure(e))
	}
	send(queue, sel.addResidencySet, uintptr(set))
	return &Residency{set}, nil
}

// Add and Remove take effect with Commit.
func (r *Residency) Add(buffer ID)    { send(r.id, sel.addAllocation, uintptr(buffer)) }
func (r *Residency) Remove(buffer ID) { send(r.id, sel.removeAllocation, uintptr(buffer)) }

// Commit makes the added buffers resident.
func (r *Residency) Commit() {
	send(r.id, sel.commit)
	send(r.id, sel.requestSet)
}

// Release releases the set.
func (r *Residency) Release() { r.id.Release() }
