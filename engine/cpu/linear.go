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

// addLinear adds a matrix to the stage being built. If the matrix reads what
// that stage computes, it starts a new stage.
func (c *compiler) addLinear(n graph.Node, op graph.Linear) {
	if len(c.row) > 0 || len(c.experts) > 0 || c.gated != nil {
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

// panelRun is a run of panels of a matrix.
type panelRun struct {
	l        *linear
	from, to int
}

// panelRuns divides the panels of matrices into n tasks whose sizes differ by
// at most one panel, so that every worker has the same share.
func panelRuns(list []linear, n int) [][]panelRun {
	total := 0
	for i := range list {
		total += list[i].m.panels()
	}
	tasks := make([][]panelRun, min(n, total))
	for task := range tasks {
		from, to := shareOf(total, task, len(tasks))
		for i := range list {
			m := list[i].m.panels()
			if lo, hi := max(from, 0), min(to, m); lo < hi {
				tasks[task] = append(tasks[task], panelRun{&list[i], lo, hi})
			}
			from, to = from-m, to-m
		}
	}
	return tasks
}

// taskBytes is the number of bytes of weights that makes a task long enough.
const taskBytes = 256 << 10

// tasks returns the number of tasks of a stage that reads bytes of weights.
// There are about four per worker, or more tasks of taskBytes each, because a
// worker that is done waits for the last task of the others.
func (p *pool) tasks(bytes int) int { return max(4*p.workers, bytes/taskBytes) }

// linearStage multiplies the matrices of a stage.
func (c *compiler) linearStage(list []linear) stage {
	p := c.p
	bytes := 0
	for i := range list {
		bytes += list[i].m.bytes()
	}
	tasks := panelRuns(list, p.backend.pool.tasks(bytes))
	set := p.plan.Values[list[0].out].Rows
	s := newStage(
		func() int {
			if p.rows(set) == 0 {
				return 0
			}
			return len(tasks)
		},
		func(worker, task int) {
			runs, rows := tasks[task], p.rows(set)
			for i, r := range runs {
				p.multiply(r.l, p.all(r.l.out, rows), r.l.m.w.Rows(), rows, r.from, r.to, worker)
				switch {
				case i+1 < len(runs):
					kernel.Prefetch(runs[i+1].l.m.start(0))
				case task+1 < len(tasks) && tasks[task+1][0].from == 0:
					kernel.Prefetch(tasks[task+1][0].l.m.start(0))
				}
			}
		})
	s.reads = func(worker, workers int) []byte {
		from, to := shareOf(len(tasks), worker, workers)
		if from == to {
			return nil
		}
		return tasks[from][0].l.m.head(tasks[from][0].from)
	}
	return s
}

// multiply computes the panels in [from, to) of a matrix for all rows, including the
// bias. Results are ldy floats apart.
func (p *program) multiply(l *linear, y []float32, ldy, rows, from, to, worker int) {
	w := l.m.w
	var x []float32
	if !l.m.quantised() {
		x = p.all(l.in, rows)
	}
	p.multiplyRows(l.m, 0, y, ldy, p.acts[l.in], x, w.Cols(), rows, from, to, worker)
	if l.bias == nil {
		return
	}
	lo, hi := from*kernel.PanelRows, min(to*kernel.PanelRows, w.Rows())
	for r := range rows {
		part := y[r*ldy+lo : r*ldy+hi]
		kernel.Add(part, part, l.bias[lo:hi])
	}
}

// multiplyRows computes the panels in [from, to) of matrix i of m for several rows.
// Depending on the type it reads a, or x with rows ldx floats apart. Results
// are ldy floats apart.
func (p *program) multiplyRows(m *mat, i int, y []float32, ldy int, a *kernel.Acts, x []float32, ldx, rows, from, to, worker int) {
	switch {
	case m.quantised():
		kernel.MatMulAhead(y, ldy, &m.packed[i], a, 0, rows, from, to, 2*to-from)
	case m.packed != nil:
		kernel.MatMulF32(y, ldy, &m.packed[i], x, ldx, 0, rows, from, to)
	default:
		p.multiplyRaw(&m.raw[i], y, ldy, x, ldx, rows, from, to, worker)
	}
}

// multiplyRaw decodes each row of the matrix once for all rows of x.
func (p *program) multiplyRaw(m *raw, y []float32, ldy int, x []float32, ldx, rows, from, to, worker int) {
	cols, n := m.w.Cols(), m.w.Rows()
	buf := p.rowBufs[worker][:cols]
	for r := from * kernel.PanelRows; r < min(to*kernel.PanelRows, n); r++ {
		if r%kernel.PanelRows == 0 {
			p.backend.pool.fail(m.finite(r / kernel.PanelRows))
		}
		m.row(buf, r)
		for i := range rows {
			y[i*ldy+r] = kernel.Dot(x[i*ldx:i*ldx+cols], buf)
		}
	}
}

// vector multiplies matrix i of m by one vector: row act of the value's
// quantised form, or x.
func (p *program) vector(m *mat, i int, y []float32, in graph.Value, act int, x []float32, from, to, worker int) {
	switch {
	case m.quantised():
		kernel.MatVec(y, &m.packed[i], p.acts[in], act, from, to)
	case m.packed != nil:
		kernel.MatVecF32(y, &m.packed[i], x, from, to)
	default:
		p.multiplyRaw(&m.raw[i], y, len(y), x, len(x), 1, from, to, worker)
	}
}

// gatherRows is the number of rows that are gathered for one of many matrices.
// It is large enough to reuse a matrix in cache, and small enough for the rows
// to stay there.
const gatherRows = 32

// gather is a worker's memory for rows that are not contiguous.
type gather struct {
	acts *kernel.Acts
	x, y []float32
}

// gather reserves room in every worker's memory for rows of cols columns,
// quantised or not, and for n results.
func (c *compiler) gather(m *mat, n int) {
	cols := m.w.Cols()
	if m.quantised() {
		c.gatherActs = max(c.gatherActs, cols)
	} else {
		c.gatherX = max(c.gatherX, cols)
	}
	c.gatherY = max(c.gatherY, n)
}

// newGathers allocates the gather memory of every worker.
func (c *compiler) newGathers() []gather {
	out := make([]gather, c.p.backend.pool.workers)
	for i := range out {
		g := &out[i]
		g.acts = kernel.NewActs(gatherRows, c.gatherActs)
		g.x, g.y = make([]float32, gatherRows*c.gatherX), make([]float32, gatherRows*c.gatherY)
		c.actBytes += int64(g.acts.Bytes() + 4*(len(g.x)+len(g.y)))
	}
	return out
}

// headLinear multiplies each head by its own matrix. Its tasks are heads times runs
// of rows.
func (c *compiler) headLinear(n graph.Node, op graph.HeadLinear) stage {
	p, m := c.p, c.p.weights.mats[op.W]
	heads, in, out := op.W.Mats(), op.W.Cols(), op.W.Rows()
	set := p.plan.Values[n.Out].Rows
	c.gather(m, 0)
	blocks := func() int { return (p.rows(set) + gatherRows - 1) / gatherRows }
	return newStage(
		func() int { return heads * blocks() },
		func(worker, task int) {
			h, first := task/blocks(), task%blocks()*gatherRows
			rows := min(gatherRows, p.rows(set)-first)
			g := &p.gathers[worker]
			if m.quantised() {
				g.acts.Reshape(gatherRows, in)
				for r := range rows {
					g.acts.Copy(r, p.acts[n.In[0]], (first+r)*heads+h)
				}
			}
			x, y := p.all(n.In[0], p.rows(set)), p.all(n.Out, p.rows(set))
			p.multiplyRows(m, h, y[first*heads*out+h*out:], heads*out, g.acts, x[first*heads*in+h*in:], heads*in, rows, 0, m.panels(), worker)
		})
}
