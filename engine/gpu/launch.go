package gpu

import (
	"fmt"

	"godwit/engine/graph"
	"godwit/engine/llm"
	"godwit/shaders"
)

// shape holds everything that determines the sizes of the grids and differs
// between batches.
type shape struct {
	rows, outputs, spans int
	decode               bool // whether every span has one row
	measures             bool // whether conversations calibrate their keys on some of the rows
	top                  int  // number of largest logits to find per row; 0 means all logits
}

// of returns the number of rows of a value.
func (s *shape) of(set graph.RowSet) int {
	if set == graph.OutputRows {
		return s.outputs
	}
	return s.rows
}

// launch is one run of a kernel. Only the grid, and the fields of params that
// size sets, differ between batches.
type launch struct {
	pipe    Pipeline
	barrier bool // whether a barrier precedes this launch
	args    []Bind
	params  []byte
	size    func(*shape) (grid [3]uint32) // returns the grid; the kernel is not launched if the grid contains a 0

	// host runs on the host before this launch, in batches that calibrate. It
	// is nil if there is no such work. All earlier launches have finished when
	// it runs.
	host func(*llm.Batch) error
}

// extent is a range of bytes of a buffer.
type extent struct {
	buffer   Buffer
	from, to int64
}

func (a extent) overlaps(b extent) bool {
	return a.buffer == b.buffer && a.from < b.to && b.from < a.to
}

// place is an argument of a kernel. It is a range of a buffer, and holds a
// value, a weight or an array of the batch.
type place struct {
	bind Bind
	size int64
}

// hazards decides where barriers are needed. A barrier must separate two
// launches if one writes memory that the other reads or writes, according to
// the directions in the kernel table. Counters need no barrier, because only
// the host reads them.
type hazards struct{ reads, writes []extent }

// next adds a launch and reports whether a barrier must come before it.
func (h *hazards) next(k *shaders.Kernel, args []place) bool {
	var reads, writes []extent
	clash := false
	for i, a := range args {
		e := extent{a.bind.Buffer, a.bind.Offset, a.bind.Offset + a.size}
		dir := k.Args[i].Dir
		if dir == shaders.Sum {
			continue
		}
		if dir != shaders.Out {
			reads = append(reads, e)
			clash = clash || anyOverlaps(h.writes, e)
		}
		if dir != shaders.In {
			writes = append(writes, e)
			clash = clash || anyOverlaps(h.writes, e) || anyOverlaps(h.reads, e)
		}
	}
	if clash {
		h.reads, h.writes = h.reads[:0], h.writes[:0]
	}
	h.reads, h.writes = append(h.reads, reads...), append(h.writes, writes...)
	return clash
}

func anyOverlaps(list []extent, e extent) bool {
	for _, x := range list {
		if x.overlaps(e) {
			return true
		}
	}
	return false
}

// add appends a launch. params points to the parameter struct.
func (c *compiler) add(kernel string, consts shaders.Constants, params []byte, args []place, size func(*shape) [3]uint32) error {
	pipe, err := c.p.b.pipeline(kernel, consts)
	if err != nil {
		return err
	}
	k := pipe.Kernel()
	if len(args) != len(k.Args) {
		return fmt.Errorf("gpu: %d arguments for kernel %s of %d", len(args), kernel, len(k.Args))
	}
	l := launch{pipe: pipe, params: params, size: size, barrier: c.hazards.next(k, args)}
	for _, a := range args {
		l.args = append(l.args, a.bind)
	}
	c.p.launches = append(c.p.launches, l)
	return nil
}

// threads returns the grid of a kernel with one thread per element.
func threads(n, group int) [3]uint32 {
	return [3]uint32{uint32((n + group - 1) / group), 1, 1}
}
