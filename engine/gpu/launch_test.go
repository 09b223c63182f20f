package gpu

import (
	"fmt"
	"testing"

	"godwit/engine/backend"
	"godwit/shaders"
)

// memory is a buffer of the idle device.
type memory struct{ size int64 }

func (m *memory) Size() int64  { return m.size }
func (m *memory) Close() error { return nil }

// There is a barrier between two launches exactly if one writes memory that the
// other reads or writes.
func TestHazards(t *testing.T) {
	a, b := &memory{1000}, &memory{1000}
	at := func(m *memory, from, to int64) place { return place{Bind{m, from}, to - from} }
	k := &shaders.Kernel{Args: []shaders.Arg{{Name: "x", Dir: shaders.In}, {Name: "y", Dir: shaders.Out}, {Name: "z", Dir: shaders.InOut}}}
	sums := &shaders.Kernel{Args: []shaders.Arg{{Name: "x", Dir: shaders.In}, {Name: "sum", Dir: shaders.Sum}}}
	none := place{Bind{&memory{}, 0}, 0}
	for i, c := range []struct {
		first, second [3]place
		want          bool
	}{
		{[3]place{at(a, 0, 100), at(b, 0, 100), none}, [3]place{at(a, 0, 100), at(b, 100, 200), none}, false},   // both only read the same range
		{[3]place{at(a, 0, 100), at(b, 0, 100), none}, [3]place{at(b, 96, 200), at(a, 200, 300), none}, true},   // reads a written range
		{[3]place{at(a, 0, 100), at(b, 0, 100), none}, [3]place{at(b, 100, 200), at(a, 200, 300), none}, false}, // reads next to a written range
		{[3]place{at(a, 0, 100), at(b, 0, 100), none}, [3]place{at(b, 500, 600), at(a, 99, 300), none}, true},   // writes a range that was read
		{[3]place{at(a, 0, 100), at(b, 0, 100), none}, [3]place{at(a, 500, 600), at(b, 0, 4), none}, true},      // writes a written range
		{[3]place{at(a, 0, 100), none, at(b, 0, 100)}, [3]place{at(a, 0, 100), none, at(b, 50, 60)}, true},      // updates an updated range
		{[3]place{none, none, at(b, 0, 100)}, [3]place{at(b, 50, 60), none, none}, true},                        // reads an updated range
		{[3]place{at(b, 50, 60), none, none}, [3]place{none, none, at(b, 0, 100)}, true},                        // updates a range that was read
	} {
		var h hazards
		if h.next(k, c.first[:]) {
			t.Errorf("case %d: a barrier before the first launch", i)
		}
		if got := h.next(k, c.second[:]); got != c.want {
			t.Errorf("case %d: barrier %v, want %v", i, got, c.want)
		}
	}
	var h hazards
	for range 2 {
		if h.next(sums, []place{at(a, 0, 100), at(b, 0, 100)}) {
			t.Error("a barrier between launches that add to the same sums")
		}
	}
}

// idle is a device that does nothing, for measuring what a step costs the host.
type idle struct{ launches, barriers int }

func (d *idle) Info() backend.Info { return backend.Info{Backend: "idle", Device: "nothing"} }
func (d *idle) Alloc(size int64, _ []byte, _ string) (Buffer, error) {
	return &memory{size}, nil
}
func (d *idle) Upload(Buffer, int64, []byte) error   { return nil }
func (d *idle) Download([]byte, Buffer, int64) error { return nil }
func (d *idle) Pipeline(k *shaders.Kernel, _ shaders.Constants) (Pipeline, error) {
	return idlePipeline{k}, nil
}
func (d *idle) Launch(Pipeline, [3]uint32, []Bind, []byte) { d.launches++ }
func (d *idle) Barrier()                                   { d.barriers++ }
func (d *idle) Submit() error                              { return nil }
func (d *idle) Wait() error                                { return nil }
func (d *idle) Close() error                               { return nil }

type idlePipeline struct{ k *shaders.Kernel }

func (p idlePipeline) Kernel() *shaders.Kernel { return p.k }

// Idle returns a device that does nothing except count its calls.
func Idle() (Device, func() string) {
	d := &idle{}
	return d, func() string { return fmt.Sprintf("%d launches, %d barriers", d.launches, d.barriers) }
}
