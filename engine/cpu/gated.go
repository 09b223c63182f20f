package cpu

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// gated is the Glu of the two matrices of a stage, done where they are
// multiplied: a task has the same rows of both, and what it computes it finds in
// its own cache. Elsewhere half of it would come from another worker's.
type gated struct {
	graph.Glu
	gate, up *linear
	out      graph.Value
	quantise bool
}

// addGated makes a Glu part of the matrix stage being built; false if that
// stage is another.
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
	return true
}

// gatedStage multiplies both matrices and computes the Glu, two panels, which
// are a block of activations, after two panels.
func (c *compiler) gatedStage(g *gated) stage {
	p := c.p
	panels := g.gate.m.panels()
	pairs := (panels + 1) / 2
	tasks := min(4*p.backend.pool.workers, pairs)
	set := p.plan.Values[g.out].Rows
	run := func(task int) (from, to int) {
		from, to = part(pairs, task, tasks)
		return 2 * from, min(2*to, panels)
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
			p.multiply(g.gate, p.rows(set), from, to, worker)
			kernel.Prefetch(g.up.m.head(from))
			p.multiply(g.up, p.rows(set), from, to, worker)
			if task+1 < tasks {
				kernel.Prefetch(g.gate.m.head(to))
			}
			p.glu(g, from, to)
		})
	s.reads = func(worker, workers int) []byte {
		from, to := part(tasks, worker, workers)
		if from == to {
			return nil
		}
		from, _ = run(from)
		return g.gate.m.head(from)
	}
	return s
}

// glu computes the Glu of what panels from to to-1 gave.
func (p *program) glu(g *gated, from, to int) {
	for row := range p.rows(p.plan.Values[g.out].Rows) {
		y := p.row(g.out, row)
		lo, hi := from*kernel.PanelRows, min(to*kernel.PanelRows, len(y))
		y = y[lo:hi]
		glu(g.Glu, y, p.row(g.gate.out, row)[lo:hi], p.row(g.up.out, row)[lo:hi])
		if g.quantise {
			p.quantisePart(g.out, row, lo, y)
		}
	}
}

// quantisePart makes the quantised form of values of a row, from one on.
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
