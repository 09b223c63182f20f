package cpu

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// linear is one matrix of a matrix stage.
type linear struct {
	in, out graph.Value
	m       *mat
	bias    []float32
}

// addLinear adds a matrix to the stage being built, unless it reads what that
// stage computes.
func (c *compiler) addLinear(n graph.Node, op graph.Linear) {
	if len(c.row) > 0 {
		c.flush()
	}
	set := c.p.plan.Values[n.Out].Rows
	for _, l := range c.linear {
		if l.out == n.In[0] || c.p.plan.Values[l.out].Rows != set {
			c.flush()
			break
		}
	}
	c.linear = append(c.linear, linear{n.In[0], n.Out, c.p.weights.mats[op.W], c.p.weights.floats(op.Bias)})
}

// chunkPanels is how many panels a task takes, given all panels of a stage:
// small enough for the workers to finish together.
func (p *program) chunkPanels(panels int) int {
	return max(1, panels/(8*p.backend.pool.workers))
}

// linearStage multiplies the matrices of a stage, cut into runs of panels.
func (c *compiler) linearStage(list []linear) stage {
	p := c.p
	type run struct {
		l        *linear
		from, to int
	}
	total := 0
	for i := range list {
		total += list[i].m.panels()
	}
	chunk := p.chunkPanels(total)
	var runs []run
	for i := range list {
		for at := 0; at < list[i].m.panels(); at += chunk {
			runs = append(runs, run{&list[i], at, min(at+chunk, list[i].m.panels())})
		}
	}
	set := p.plan.Values[list[0].out].Rows
	return newStage(
		func() int {
			if p.rows(set) == 0 {
				return 0
			}
			return len(runs)
		},
		func(worker, task int) {
			r := runs[task]
			p.multiply(r.l, p.rows(set), r.from, r.to, worker)
		})
}

// multiply computes panels from to to-1 of a matrix for all rows, bias included.
func (p *program) multiply(l *linear, rows, from, to, worker int) {
	w := l.m.w
	y := p.all(l.out, rows)
	switch {
	case l.m.quantised():
		kernel.MatMul(y, w.Rows(), &l.m.packed[0], p.acts[l.in], 0, rows, from, to)
	case l.m.packed != nil:
		kernel.MatMulF32(y, w.Rows(), &l.m.packed[0], p.all(l.in, rows), w.Cols(), 0, rows, from, to)
	default:
		p.multiplyRaw(&l.m.raw[0], y, p.all(l.in, rows), rows, from, to, worker)
	}
	if l.bias == nil {
		return
	}
	lo, hi := from*kernel.PanelRows, min(to*kernel.PanelRows, w.Rows())
	for r := range rows {
		part := y[r*w.Rows()+lo : r*w.Rows()+hi]
		kernel.Add(part, part, l.bias[lo:hi])
	}
}

// multiplyRaw decodes each row of the matrix once for all rows of x.
func (p *program) multiplyRaw(m *raw, y, x []float32, rows, from, to, worker int) {
	cols, n := m.w.Cols(), m.w.Rows()
	buf := p.rowBufs[worker][:cols]
	for r := from * kernel.PanelRows; r < min(to*kernel.PanelRows, n); r++ {
		m.row(buf, r)
		for i := range rows {
			y[i*n+r] = kernel.Dot(x[i*cols:(i+1)*cols], buf)
		}
	}
}

// headLinear multiplies each head by its own matrix.
func (c *compiler) headLinear(n graph.Node, op graph.HeadLinear) stage {
	p, m := c.p, c.p.weights.mats[op.W]
	heads, in, out := op.W.Mats(), op.W.Cols(), op.W.Rows()
	set := p.plan.Values[n.Out].Rows
	return newStage(
		func() int { return p.rows(set) * heads },
		func(worker, task int) {
			row, h := task/heads, task%heads
			p.vector(m, h, p.row(n.Out, row)[h*out:(h+1)*out], n.In[0], task, p.row(n.In[0], row)[h*in:(h+1)*in], 0, m.panels(), worker)
		})
}

// vector multiplies matrix i of m with one vector: vector act of the value's
// quantised form, or x.
func (p *program) vector(m *mat, i int, y []float32, in graph.Value, act int, x []float32, from, to, worker int) {
	switch {
	case m.quantised():
		kernel.MatVec(y, &m.packed[i], p.acts[in], act, from, to)
	case m.packed != nil:
		kernel.MatVecF32(y, &m.packed[i], x, from, to)
	default:
		p.multiplyRaw(&m.raw[i], y, x, 1, from, to, worker)
	}
}
