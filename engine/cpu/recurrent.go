package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/llm"
)

// states is the recurrent memory: for each state of the plan, one slot a sequence.
type states struct {
	at   []int // offset of each state in a slot
	slot int   // floats of a slot
	data []float32
	size int64
}

func newStates(list []graph.State, slots int) *states {
	s := &states{}
	for _, st := range list {
		s.at = append(s.at, s.slot)
		s.slot += st.Size
	}
	s.data = make([]float32, s.slot*slots)
	s.size = int64(4 * len(s.data))
	return s
}

// live is state i of a span's sequence, zeroed where the sequence begins.
func (p *program) live(i int, s llm.Span, lo, hi int) []float32 {
	off := int(s.State)*p.states.slot + p.states.at[i]
	st := p.states.data[off+lo : off+hi]
	if p.b.Pos[s.First] == 0 {
		clear(st)
	}
	return st
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

// shortConv convolves each span; tasks are spans times runs of columns.
func (c *compiler) shortConv(n graph.Node, op graph.ShortConv) stage {
	p := c.p
	w, bias := p.weights.floats(op.W), p.weights.floats(op.Bias)
	k, width := op.W.Cols(), p.plan.Values[n.Out].Width
	const chunk = 256
	chunks := (width + chunk - 1) / chunk
	return newStage(
		func() int { return len(p.b.Spans) * chunks },
		func(_, task int) {
			s := p.b.Spans[task/chunks]
			lo := task % chunks * chunk
			hi := min(lo+chunk, width)
			past := p.live(op.State, s, lo*(k-1), hi*(k-1)) // [column][k-1]
			for r := range s.Rows {
				x, y := p.row(n.In[0], s.First+r), p.row(n.Out, s.First+r)
				for col := lo; col < hi; col++ {
					f := w[col*k : (col+1)*k]
					old := past[(col-lo)*(k-1) : (col-lo+1)*(k-1)]
					sum := f[k-1] * x[col]
					for i, v := range old {
						sum += f[i] * v
					}
					if bias != nil {
						sum += bias[col]
					}
					y[col] = sum
					if k > 1 {
						copy(old, old[1:])
						old[k-2] = x[col]
					}
				}
				act(op.F, y[lo:hi], y[lo:hi])
			}
		})
}

// deltaNet runs the gated delta rule; tasks are spans times value heads.
func (c *compiler) deltaNet(n graph.Node, op graph.DeltaNet) stage {
	p := c.p
	dk, dv := op.KeyDim, op.ValueDim
	bufs := make([][]float32, p.backend.pool.workers)
	for i := range bufs {
		bufs[i] = make([]float32, dv)
	}
	return newStage(
		func() int { return len(p.b.Spans) * op.ValueHeads },
		func(worker, task int) {
			s, h := p.b.Spans[task/op.ValueHeads], task%op.ValueHeads
			key := h % op.KeyHeads
			if op.Grouped {
				key = h / (op.ValueHeads / op.KeyHeads)
			}
			state := p.live(op.State, s, h*dk*dv, (h+1)*dk*dv) // [key][value]
			d := bufs[worker]
			for r := range s.Rows {
				row := s.First + r
				q := p.row(n.In[0], row)[key*dk : (key+1)*dk]
				k := p.row(n.In[1], row)[key*dk : (key+1)*dk]
				v := p.row(n.In[2], row)[h*dv : (h+1)*dv]
				decay := float32(math.Exp(float64(p.row(n.In[3], row)[h])))
				beta := p.row(n.In[4], row)[h]
				out := p.row(n.Out, row)[h*dv : (h+1)*dv]
				deltaStep(state, d, out, q, k, v, decay, beta, op.Scale)
			}
		})
}

// deltaStep decays the state S [key][value], writes beta·(v - kᵀS) along k,
// and reads it with q.
func deltaStep(state, d, out, q, k, v []float32, decay, beta, scale float32) {
	dv := len(v)
	clear(d)
	for i, ki := range k {
		s := state[i*dv : (i+1)*dv]
		kernel.Scale(s, s, decay)
		kernel.Axpy(d, s, ki)
	}
	for j := range d {
		d[j] = beta * (v[j] - d[j])
	}
	clear(out)
	for i, ki := range k {
		s := state[i*dv : (i+1)*dv]
		kernel.Axpy(s, d, ki)
		kernel.Axpy(out, s, q[i]*scale)
	}
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
