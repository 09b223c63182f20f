//go:build darwin && cgo

package mtl

import (
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/progrium/darwinkit/macos/metal"
)

// Commands is a command buffer with one encoder. It must be made, filled and
// committed inside one autorelease pool on one thread.
type Commands struct {
	buffer, encoder ID
	*Words
}

// Words is memory for the arguments of messages, so that sending one does not
// allocate. It is on the heap, where it does not move.
type Words struct {
	call        [12]uintptr
	grid, group size
}

// send sends a message to the encoder. It takes pointers in the same way as
// call.
//
//go:uintptrescapes
func (w *Words) send(to ID, selector, a, b, c uintptr) {
	w.call[0], w.call[1], w.call[2], w.call[3], w.call[4] = uintptr(to), selector, a, b, c
	purego.SyscallN(functions.send, w.call[:5]...)
}

// Begin makes an empty command buffer. Its launches may run at the same time.
func Begin(queue ID, w *Words) Commands {
	c := Commands{buffer: ID(send(queue, sel.commandBuffer)).Retain(), Words: w}
	c.encoder = ID(send(c.buffer, sel.computeEncoder, uintptr(metal.DispatchTypeConcurrent)))
	return c
}

// Pipeline sets the kernel of the next launch.
func (c Commands) Pipeline(p ID) { c.send(c.encoder, sel.setPipeline, uintptr(p), 0, 0) }

// Buffer binds an argument.
func (c Commands) Buffer(i int, buffer ID, offset int64) {
	c.send(c.encoder, sel.setBuffer, uintptr(buffer), uintptr(offset), uintptr(i))
}

// Bytes binds parameters by copying them.
func (c Commands) Bytes(i int, params []byte) {
	c.send(c.encoder, sel.setBytes, uintptr(unsafe.Pointer(unsafe.SliceData(params))), uintptr(len(params)), uintptr(i))
}

// Launch runs the kernel on a grid of threadgroups of n threads.
func (c Commands) Launch(grid [3]uint32, n int) {
	c.grid, c.group = size{uintptr(grid[0]), uintptr(grid[1]), uintptr(grid[2])}, size{uintptr(n), 1, 1}
	c.dispatch(c.encoder)
}

// size has the layout of an MTLSize.
type size [3]uintptr

// Barrier orders the launches before and after it, for all buffers.
func (c Commands) Barrier() {
	c.send(c.encoder, sel.barrier, uintptr(metal.BarrierScopeBuffers), 0, 0)
}

// Commit starts the commands.
func (c Commands) Commit() {
	send(c.encoder, sel.endEncoding)
	send(c.buffer, sel.commit)
}

// Wait waits for the end of committed commands, releases them and returns their
// error.
func (c Commands) Wait() error {
	defer c.buffer.Release()
	send(c.buffer, sel.wait)
	if metal.CommandBufferStatus(send(c.buffer, sel.status)) == metal.CommandBufferStatusCompleted {
		return nil
	}
	defer Pool()()
	return failure(ID(send(c.buffer, sel.failure)))
}

// OutOfMemory reports whether commands failed because their buffers did not fit.
func (e *Error) OutOfMemory() bool { return e.Code == int(metal.CommandBufferErrorOutOfMemory) }
