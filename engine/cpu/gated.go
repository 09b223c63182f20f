package cpu

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// gated is the Glu of the two matrices of a stage, computed in the same task as
// the products. A task has the same rows of both matrices and finds its results
// in its own cache. In a separate stage half of them would come from another
// worker's cache.
type gated struct {
	graph.Glu
	gate, up *linear
	out      graph.Value
	quantise bool
	private  bool // gate and up have no other reader and are kept in the worker's memory
	inPlace  bool // the result is only read in quantised form and is kept in the worker's memory too
}

// addGated merges a Glu into the matrix stage being built. It returns false if
// that stage does not compute the inputs of the Glu.
func (c *compiler) addGated(n graph.Node, op graph.Glu) bool {
	if len(c.linear) != 2 || c.gated != nil {
		return false
	}
	g := &gated{Glu: op, gate: &c.linear[0], up: &c.linear[1], out: n.Out}
	if g.gate.out != n.In[0] {
		g.gate, g.up = g.up, g.gate
	}
	if g.gate.out != n.In[0] || g.up.out != n.In[1] {
		return false
	}
	c.gated = g
	if c.quantise[n.Out] > 0 {
		g.quantise, c.inside[n.Out] = true, true
	}
	if g.private = c.readers[g.gate.out].all == 1 && c.readers[g.up.out].all == 1; g.private {
		c.unstored[g.gate.out], c.unstored[g.up.out] = true, true
		g.inPlace = g.quantise && c.readers[n.Out].floats == 0
		c.unstored[n.Out] = g.inPlace
	}
	return true
}

// gatedStage multiplies both matrices. After every two panels, which are one
// block of activations, it computes their Glu.
func (c *compiler) gatedStage(g *gated) stage {
	p := c.p
	panels := g.gate.m.panels()
	pairs := (panels + 1) / 2
	tasks := min(p.backend.pool.tasks(g.gate.m.bytes()+g.up.m.bytes()), pairs)
	set := p.plan.Values[g.out].Rows
	run := func(task int) (from, to int) {
		from, to = shareOf(pairs, task, tasks)
		return 2 * from, min(2*to, panels)
	}
	widest := 2 * ceil(pairs, tasks) * kernel.PanelRows
	if g.private {
		c.glu = max(c.glu, 2*(panels*kernel.PanelRows+p.sizes.Rows*widest))
	}
	s := newStage(
		func() int {
			if p.rows(set) == 0 {
				return 0
			}
			return tasks
		},
		func(worker, task int) {
			from, to := run(task)
			rows := p.rows(set)
			if g.quantise && p.shares(rows) {
				for row := range rows {
					lo, hi := from*kernel.PanelRows, min(to*kernel.PanelRows, p.plan.Values[g.out].Width)
					p.prefetchOutput(g.out, row, lo, hi-lo)
				}
			}
			gate, up, ld := p.gateAndUp(g, rows, from, to, worker)
			p.multiply(g.gate, gate, ld, rows, from, to, worker)
			kernel.Prefetch(g.up.m.start(from))
			p.multiply(g.up, up, ld, rows, from, to, worker)
			if task+1 < tasks {
				kernel.Prefetch(g.gate.m.start(to))
			}
			p.glu(g, gate, up, ld, from, to)
		})
	s.reads = func(worker, workers int) []byte {
		from, to := shareOf(tasks, worker, workers)
		if from == to {
			return nil
		}
		from, _ = run(from)
		return g.gate.m.head(from)
	}
	return s
}

// gateAndUp returns the memory for the results of the panels in [from, to) of both
// matrices. Rows are ld apart. In the worker's memory a row contains only these
// panels, and unused space for the earlier panels comes before the first row.
func (p *program) gateAndUp(g *gated, rows, from, to, worker int) (gate, up []float32, ld int) {
	if !g.private {
		return p.all(g.gate.out, rows), p.all(g.up.out, rows), p.plan.Values[g.out].Width
	}
	ld = (to - from) * kernel.PanelRows
	n := from*kernel.PanelRows + rows*ld
	mem := p.glus[worker]
	return mem[:n], mem[n : 2*n], ld
}

// glu computes the Glu of the results of the panels in [from, to).
func (p *program) glu(g *gated, gate, up []float32, ld, from, to int) {
	v := p.plan.Values[g.out]
	lo, hi := from*kernel.PanelRows, min(to*kernel.PanelRows, v.Width)
	for row := range p.rows(v.Rows) {
		a, b := gate[row*ld+lo:row*ld+hi], up[row*ld+lo:row*ld+hi]
		y := a
		if !g.inPlace {
			y = p.row(g.out, row)[lo:hi]
		}
		glu(g.Glu, y, a, b)
		if g.quantise {
			p.quantisePart(g.out, row, lo, y)
		}
	}
}

// quantisePart quantises x, the values of a row that start at index from.
func (p *program) quantisePart(v graph.Value, row, from int, x []float32) {
	a := p.acts[v]
	cols := a.Cols()
	row = row*(p.plan.Values[v].Width/cols) + from/cols
	for from %= cols; len(x) > 0; from, row = 0, row+1 {
		n := min(len(x), cols-from)
		a.QuantizePart(row, from, x[:n])
		x = x[n:]
	}
}
