package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"godwit/engine/backend"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/llm"
)

// states is the recurrent memory: one slot per sequence for each state of the
// plan.
type states struct {
	at   []int // offset of each state in a slot
	slot int   // floats per slot
	data []float32
	size int64
}

func newStates(list []graph.State, slots int) (*states, error) {
	s := &states{}
	for _, st := range list {
		s.at = append(s.at, s.slot)
		s.slot += st.Size
	}
	if err := fits("recurrent state", s.slot, slots); err != nil {
		return nil, err
	}
	s.data = make([]float32, s.slot*slots)
	s.size = int64(4 * len(s.data))
	return s, nil
}

// fits rejects arrays that are larger than the machine's memory, because
// allocating them would end the process. If the size of memory is unknown, the
// limit is larger than any model needs.
func fits(what string, width, rows int) error {
	total, _ := systemMemory()
	if total == 0 {
		total = 64 << 30
	}
	if width > 0 && int64(rows) > total/4/int64(width) {
		return fmt.Errorf("%w: %s of %d rows with %d floats need more than a quarter of this machine's memory", backend.ErrMemory, what, rows, width)
	}
	return nil
}

// live returns values lo to hi-1 of state i of a span's sequence.
func (p *program) live(i int, s llm.Span, lo, hi int) []float32 {
	off := int(s.State)*p.states.slot + p.states.at[i]
	return p.states.data[off+lo : off+hi : off+hi]
}

// start zeroes part of a state at the beginning of a sequence.
func (p *program) start(s llm.Span, part []float32) {
	if p.b.Pos[s.First] == 0 {
		clear(part)
	}
}

// CopyState copies a recurrent state slot.
func (p *program) CopyState(dst, src int32) error {
	n := p.states.slot
	copy(p.states.data[int(dst)*n:int(dst+1)*n], p.states.data[int(src)*n:int(src+1)*n])
	return nil
}

// ReadState copies the states of one layer out, as little-endian float32.
func (p *program) ReadState(dst []byte, layer int, slot int32) error {
	return p.eachState(layer, slot, func(v *float32, i int) {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(*v))
	})
}

// WriteState is the inverse of ReadState.
func (p *program) WriteState(layer int, slot int32, src []byte) error {
	return p.eachState(layer, slot, func(v *float32, i int) {
		*v = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	})
}

func (p *program) eachState(layer int, slot int32, f func(v *float32, i int)) error {
	n := 0
	for i, st := range p.plan.States {
		if st.Layer != layer {
			continue
		}
		off := int(slot)*p.states.slot + p.states.at[i]
		for j := range st.Size {
			f(&p.states.data[off+j], n)
			n++
		}
	}
	if n == 0 {
		return fmt.Errorf("cpu: layer %d has no recurrent state", layer)
	}
	return nil
}

// convChunk is the number of columns of a task of a short convolution.
const convChunk = 256

// shortConv convolves each span. Its tasks are spans times runs of columns.
func (c *compiler) shortConv(n graph.Node, op graph.ShortConv) stage {
	p := c.p
	k, width := op.W.Cols(), p.plan.Values[n.Out].Width
	bias := p.weights.floats(op.Bias)
	taps := make([]float32, k*width) // [tap][column]
	for i, v := range p.weights.floats(op.W) {
		taps[i%k*width+i/k] = v
	}
	bufs := make([][]float32, p.backend.pool.workers)
	for i := range bufs {
		bufs[i] = make([]float32, convChunk)
	}
	chunks := (width + convChunk - 1) / convChunk
	return newStage(
		func() int { return len(p.b.Spans) * chunks },
		func(worker, task int) {
			s, lo := p.b.Spans[task/chunks], task%chunks*convChunk
			hi := min(lo+convChunk, width)
			// at returns part of row r of the span; negative rows are in the
			// state.
			at := func(r int) []float32 {
				if r < 0 {
					return p.live(op.State, s, (k-1+r)*width+lo, (k-1+r)*width+hi)
				}
				return p.row(n.In[0], s.First+r)[lo:hi]
			}
			for i := range k - 1 {
				p.start(s, at(i-k+1))
			}
			for r := range s.Rows {
				y, tmp := p.row(n.Out, s.First+r)[lo:hi], bufs[worker][:hi-lo]
				kernel.Mul(y, at(r), taps[(k-1)*width+lo:(k-1)*width+hi])
				for i := range k - 1 {
					kernel.Mul(tmp, at(r-k+1+i), taps[i*width+lo:i*width+hi])
					kernel.Add(y, y, tmp)
				}
				if bias != nil {
					kernel.Add(y, y, bias[lo:hi])
				}
				act(op.F, y, y)
			}
			for i := range k - 1 {
				copy(at(i-k+1), at(s.Rows+i-k+1))
			}
		})
}

// deltaNet runs the gated delta rule. Its tasks are spans times value heads. If
// there are fewer heads than workers, they are also divided by columns.
func (c *compiler) deltaNet(n graph.Node, op graph.DeltaNet) stage {
	p := c.p
	dk, dv, workers := op.KeyDim, op.ValueDim, p.backend.pool.workers
	parts := max(1, min(dv/32, (workers+op.ValueHeads-1)/op.ValueHeads))
	width := (dv + parts - 1) / parts
	bufs := make([][]float32, workers)
	for i := range bufs {
		bufs[i] = make([]float32, width)
	}
	return newStage(
		func() int { return len(p.b.Spans) * op.ValueHeads * parts },
		func(worker, task int) {
			lo := min(task%parts*width, dv)
			hi := min(lo+width, dv)
			h := task / parts % op.ValueHeads
			s := p.b.Spans[task/parts/op.ValueHeads]
			key := h % op.KeyHeads
			if op.Grouped {
				key = h / (op.ValueHeads / op.KeyHeads)
			}
			// Rows of the state, one per key, are dv apart.
			state := p.live(op.State, s, h*dk*dv+lo, (h+1)*dk*dv-dv+hi)
			for i := range dk {
				p.start(s, state[i*dv:i*dv+hi-lo])
			}
			d := bufs[worker][:hi-lo]
			for r := s.First; r < s.First+s.Rows; r++ {
				q, k := p.row(n.In[0], r)[key*dk:(key+1)*dk], p.row(n.In[1], r)[key*dk:(key+1)*dk]
				v, out := p.row(n.In[2], r)[h*dv+lo:h*dv+hi], p.row(n.Out, r)[h*dv+lo:h*dv+hi]
				decay := float32(math.Exp(float64(p.row(n.In[3], r)[h])))
				if op.Plain {
					copy(d, v)
				} else { // out already contains the decayed state's output for this key
					kernel.RowSum(d, state, dv, k)
					kernel.Scale(d, d, -decay)
					kernel.Add(d, d, v)
				}
				kernel.Scale(d, d, p.row(n.In[4], r)[h])
				kernel.RowStep(out, state, dv, d, q, k, decay)
				kernel.Scale(out, out, op.Scale)
			}
		})
}

// pool reduces each span to one output row.
func (c *compiler) pool(n graph.Node, op graph.Pool) stage {
	p := c.p
	return newStage(
		func() int { return len(p.b.Spans) },
		func(_, task int) {
			s, y := p.b.Spans[task], p.row(n.Out, task)
			switch op.Kind {
			case graph.PoolFirst:
				copy(y, p.row(n.In[0], s.First))
			case graph.PoolLast:
				copy(y, p.row(n.In[0], s.First+s.Rows-1))
			case graph.PoolMean:
				clear(y)
				for r := range s.Rows {
					kernel.Add(y, y, p.row(n.In[0], s.First+r))
				}
				kernel.Scale(y, y, 1/float32(s.Rows))
			}
		})
}
