//go:build linux || windows

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"godwit/engine/gpu"
)

// relaxed allows other threads to call the driver while launches are captured.
const relaxed = 2

// captured is a group of launches that start together.
type captured struct {
	d    *device
	exec uintptr
}

// Begin starts to collect launches.
func (d *device) Begin() error {
	leave, err := d.enter()
	if err != nil {
		return err
	}
	defer leave()
	return d.stick(d.call("begin capture", d.beginCapture, d.stream, relaxed))
}

// End returns the collected launches as a graph.
func (d *device) End() (gpu.Graph, error) {
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var list uintptr
	err = d.call("end capture", d.endCapture, d.stream, uintptr(unsafe.Pointer(&list)))
	g := &captured{d: d}
	if err == nil && d.err == nil {
		err = d.call("instantiate graph", d.instantiate, uintptr(unsafe.Pointer(&g.exec)), list, 0)
	}
	if list != 0 {
		err = errors.Join(err, d.call("end graph", d.graphDestroy, list))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", d.kind, err)
	}
	if err = errors.Join(d.err, err); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Replay starts a graph.
func (d *device) Replay(x gpu.Graph) {
	if d.err != nil {
		return
	}
	leave, err := d.enter()
	if err != nil {
		d.note(err)
		return
	}
	defer leave()
	d.note(d.call("start graph", d.graphLaunch, x.(*captured).exec, d.stream))
}

// Close frees the graph.
func (g *captured) Close() error {
	if g.exec == 0 {
		return nil
	}
	leave, err := g.d.enter()
	if err != nil {
		return err
	}
	defer leave()
	exec := g.exec
	g.exec = 0
	return g.d.call("end graph", g.d.execDestroy, exec)
}
