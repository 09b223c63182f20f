package cpu

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// scanChunk is the number of columns of a task of a selective scan.
const scanChunk = 128

// scan runs Mamba's selective scan. Its tasks are spans times runs of columns.
func (c *compiler) scan(n graph.Node, op graph.Scan) stage {
	p := c.p
	keys, width := op.A.Cols(), op.A.Rows()
	rates := make([]float32, keys*width) // [key][column]
	for i, v := range p.weights.floats(op.A) {
		rates[i%keys*width+i/keys] = v
	}
	bufs := make([][]float32, p.backend.pool.workers)
	for i := range bufs {
		bufs[i] = make([]float32, 2*scanChunk)
	}
	chunks := ceil(width, scanChunk)
	return newStage(
		func() int { return len(p.b.Spans) * chunks },
		func(worker, task int) {
			s, lo := p.b.Spans[task/chunks], task%chunks*scanChunk
			hi := min(lo+scanChunk, width)
			at := func(i int) []float32 { return p.live(op.State, s, i*width+lo, i*width+hi) }
			for i := range keys {
				p.start(s, at(i))
			}
			decay, add := bufs[worker][:hi-lo], bufs[worker][scanChunk:][:hi-lo]
			for r := s.First; r < s.First+s.Rows; r++ {
				dt, out := p.row(n.In[1], r)[lo:hi], p.row(n.Out, r)[lo:hi]
				b, q := p.row(n.In[2], r), p.row(n.In[3], r)
				kernel.Mul(add, dt, p.row(n.In[0], r)[lo:hi])
				clear(out)
				for i := range keys {
					h := at(i)
					kernel.Mul(decay, dt, rates[i*width+lo:i*width+hi])
					kernel.Exp(decay, decay)
					kernel.Mul(h, h, decay)
					kernel.Axpy(h, add, b[i])
					kernel.Axpy(out, h, q[i])
				}
			}
		})
}

// recur runs a linear recurrence. Its tasks are spans times heads. If there are fewer heads than
// workers, they are also divided by columns.
func (c *compiler) recur(n graph.Node, op graph.Recur) stage {
	p := c.p
	workers := p.backend.pool.workers
	dk, dv := p.plan.Values[n.In[0]].Width/op.Heads, p.plan.Values[n.Out].Width/op.Heads
	parts := max(1, min(dv/32, ceil(workers, op.Heads)))
	width := ceil(dv, parts)
	bufs := make([][]float32, workers)
	for i := range bufs {
		bufs[i] = make([]float32, width+dk)
	}
	return newStage(
		func() int { return len(p.b.Spans) * op.Heads * parts },
		func(worker, task int) {
			lo := min(task%parts*width, dv)
			hi := min(lo+width, dv)
			h, s := task/parts%op.Heads, p.b.Spans[task/parts/op.Heads]
			// Rows of the state, one per key, are dv apart.
			state := p.live(op.State, s, h*dk*dv+lo, (h+1)*dk*dv-dv+hi)
			for i := range dk {
				p.start(s, state[i*dv:i*dv+hi-lo])
			}
			read, decay := bufs[worker][:hi-lo], bufs[worker][width:]
			for r := s.First; r < s.First+s.Rows; r++ {
				key := func(i int) []float32 { return p.row(n.In[i], r)[h*dk : (h+1)*dk] }
				v, out := p.row(n.In[2], r)[h*dv+lo:h*dv+hi], p.row(n.Out, r)[h*dv+lo:h*dv+hi]
				q, k := key(0), key(1)
				if op.Before {
					kernel.RowSum(out, state, dv, q)
				}
				kernel.Exp(decay, key(3))
				corrected := n.In[4] != graph.None
				if corrected && !op.Late {
					kernel.RowSum(read, state, dv, key(4))
				}
				for i, f := range decay {
					row := state[i*dv : i*dv+hi-lo]
					kernel.Scale(row, row, f)
				}
				if corrected && op.Late {
					kernel.RowSum(read, state, dv, key(4))
				}
				for i, f := range k {
					row := state[i*dv : i*dv+hi-lo]
					kernel.Axpy(row, v, f)
					if corrected {
						kernel.Axpy(row, read, p.row(n.In[5], r)[h*dk+i])
					}
				}
				if !op.Before {
					kernel.RowSum(out, state, dv, q)
				}
				kernel.Scale(out, out, op.Scale)
			}
		})
}
