package cpu

import (
	"context"
	"errors"

	"godwit/engine/backend"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
)

// compiler turns a plan into stages. Consecutive row-wise nodes become one stage
// whose tasks are rows. Consecutive matrices with inputs from earlier stages become
// one stage whose tasks are panels.
type compiler struct {
	p        *program
	quantise map[graph.Value]int  // columns of a vector, by value, for values that a quantised matrix reads
	inside   map[graph.Value]bool // values of quantise that are quantised where they are computed
	readers  []readers            // number of readers of each value
	unstored map[graph.Value]bool // values that are never stored as floats
	stages   []stage
	row      []rowOp // the row stage being built
	step     []int   // stage of each node
	acts     []actUse
	actBytes int64
	rowSet   graph.RowSet
	linear   []linear              // the matrix stage being built
	gated    *gated                // Glu of that stage's results; nil for none
	ropes    map[graph.Value]*rope // RoPE that attention applies

	experts     []expert // the expert stage being built
	expertRoute graph.Value
	routes      map[graph.Value]*routed

	glu                          int // memory for a Glu, in values per worker
	gatherActs, gatherX, gatherY int // columns and results that workers gather
}

// readers counts the nodes that read a value, and how many of these nodes read
// floats. A quantised matrix reads only the quantised form.
type readers struct{ all, floats int }

func (c *compiler) countReaders() []readers {
	p := c.p
	out := make([]readers, len(p.plan.Values))
	for _, n := range p.plan.Nodes {
		l, ok := n.Op.(graph.Linear)
		floats := !ok || !p.weights.mats[l.W].quantised()
		for _, v := range n.In {
			if v == graph.None {
				continue
			}
			if out[v].all++; floats {
				out[v].floats++
			}
		}
	}
	last := &out[p.plan.Output]
	last.all, last.floats = last.all+1, last.floats+1
	return out
}

// rowOp computes one row.
type rowOp func(row int)

// Compile prepares a plan.
func (b *Backend) Compile(ctx context.Context, plan *graph.Plan, l *layout.Layout, s backend.Sizes) (backend.Program, error) {
	p := &program{
		backend: b, plan: plan, layout: l, sizes: s,
		acts: make([]*kernel.Acts, len(plan.Values)),
		span: make([]int32, s.Rows), input: plan.InputWidth(),
	}
	var err error
	if p.weights, err = b.prepare(ctx, plan, s); err != nil {
		return nil, err
	}
	if p.cache, err = newCache(l, s, b.options.FloatAttn); err != nil {
		return nil, errors.Join(err, p.weights.release())
	}
	p.skips = make([]attnCount, len(l.Layers)*b.pool.workers)
	for range b.pool.workers {
		p.rowBufs = append(p.rowBufs, make([]float32, p.weights.widestRaw()))
	}
	if p.states, err = newStates(plan.States, s.Slots); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	c := &compiler{p: p, quantise: p.weights.quantised(plan), inside: make(map[graph.Value]bool), unstored: make(map[graph.Value]bool)}
	c.readers = c.countReaders()
	c.ropes = c.findRopes()
	c.rowOp(graph.BatchRows, p.fillRopes)
	for _, n := range plan.Nodes {
		if err := c.node(n); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	if err := c.planMemory(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.gathers = c.newGathers()
	c.flush()
	for range b.pool.workers {
		p.glus = append(p.glus, make([]float32, c.glu))
		c.actBytes += int64(4 * c.glu)
	}
	p.stages = b.pool.ready(c.stages)
	warmNext(p.stages)
	p.used = backend.Memory{
		Weights: p.weights.size, Cache: p.cache.size, State: p.states.size,
		Scratch: int64(4*len(p.scratch)) + c.actBytes,
	}
	return p, nil
}

// flush ends the stage being built.
func (c *compiler) flush() {
	if len(c.row) > 0 {
		c.stages = append(c.stages, c.rowStage(c.row, c.rowSet))
		c.row = nil
	}
	switch {
	case c.gated != nil:
		c.stages = append(c.stages, c.gatedStage(c.gated))
	case len(c.linear) > 0:
		c.stages = append(c.stages, c.linearStage(c.linear))
	}
	c.linear, c.gated = nil, nil
	if len(c.experts) > 0 {
		c.stages = append(c.stages, c.expertStage(c.experts, c.routes[c.expertRoute]))
		c.experts = nil
	}
}

// rowOp adds an op to the row stage.
func (c *compiler) rowOp(set graph.RowSet, op rowOp) {
	if len(c.linear) > 0 || len(c.experts) > 0 || len(c.row) > 0 && c.rowSet != set {
		c.flush()
	}
	c.rowSet = set
	c.row = append(c.row, op)
}

// stage adds a separate stage.
func (c *compiler) stage(s stage) {
	c.flush()
	c.stages = append(c.stages, s)
}

// rowStage returns a stage that runs ops row by row, in about four tasks per worker.
// With few rows, it has two tasks per worker, because the writes of a task must
// arrive before the next task can be claimed.
func (c *compiler) rowStage(ops []rowOp, set graph.RowSet) stage {
	p, workers := c.p, c.p.backend.pool.workers
	chunk := func() int {
		n, tasks := p.rows(set), 4*workers
		if n <= fewRows {
			tasks = 2 * workers
		}
		return max(1, ceil(n, tasks))
	}
	return newStage(
		func() int { return ceil(p.rows(set), chunk()) },
		func(_, task int) {
			n := chunk()
			for row := task * n; row < min((task+1)*n, p.rows(set)); row++ {
				for _, op := range ops {
					op(row)
				}
			}
		})
}

// node adds one node. If a quantised matrix reads the result, it also adds the
// quantisation.
func (c *compiler) node(n graph.Node) error {
	p := c.p
	set := p.plan.Values[n.Out].Rows
	switch op := n.Op.(type) {
	case graph.Linear:
		c.addLinear(n, op)
	case graph.HeadLinear:
		c.stage(c.headLinear(n, op))
	case graph.ExpertLinear:
		c.addExpert(n, op)
	case graph.Attend:
		if err := c.attend(n, op.Attention); err != nil {
			return err
		}
		for _, v := range n.In[:2] {
			if t := c.ropes[v]; t != nil {
				c.step[t.node] = len(c.stages)
			}
		}
	case graph.Index:
		if err := c.index(n, op); err != nil {
			return err
		}
	case graph.ShortConv:
		c.stage(c.shortConv(n, op))
	case graph.DeltaNet:
		c.stage(c.deltaNet(n, op))
	case graph.Scan:
		c.stage(c.scan(n, op))
	case graph.Recur:
		c.stage(c.recur(n, op))
	case graph.Pool:
		c.stage(c.pool(n, op))
	case graph.SelfAttend:
		c.selfAttend(n, op)
	case graph.Merge:
		c.flush() // the set of rows changes here
		c.rowOp(set, c.merge(n, op))
	case graph.Gather:
		// The set of rows changes here, so the stage before must end.
		c.flush()
		c.rowOp(set, func(row int) { copy(p.row(n.Out, row), p.row(n.In[0], int(p.b.Outputs[row]))) })
	case graph.Rope:
		if t := c.ropes[n.Out]; t != nil {
			t.table = p.ropeTable(op)
			break // part of the attention stage
		}
		c.rowOp(set, c.rope(n, op))
	case graph.Glu:
		if c.addGated(n, op) {
			break
		}
		c.rowOp(set, func(row int) { glu(op, p.row(n.Out, row), p.row(n.In[0], row), p.row(n.In[1], row)) })
	default:
		f, err := c.rowWise(n)
		if err != nil {
			return err
		}
		c.rowOp(set, f)
	}
	c.step = append(c.step, len(c.stages))
	cols, ok := c.quantise[n.Out]
	switch {
	case !ok:
	case c.inside[n.Out]:
		c.acts = append(c.acts, actUse{n.Out, cols, len(c.stages)})
	default:
		c.addQuantise(n.Out, cols)
	}
	return nil
}

// actUse is a value with a quantised form, and the step that makes it.
type actUse struct {
	v    graph.Value
	cols int
	step int
}

// addQuantise makes the quantised form of a value as soon as the value is
// ready.
func (c *compiler) addQuantise(v graph.Value, cols int) {
	p := c.p
	per := p.plan.Values[v].Width / cols
	c.rowOp(p.plan.Values[v].Rows, func(row int) {
		x, a := p.row(v, row), p.acts[v]
		for i := range per {
			a.Quantize(row*per+i, x[i*cols:(i+1)*cols])
		}
	})
	c.acts = append(c.acts, actUse{v, cols, len(c.stages)})
}

// planMemory assigns scratch memory to every value. Every quantised value gets
// a buffer, which values with disjoint lifetimes share.
func (c *compiler) planMemory() error {
	p := c.p
	first, last := p.plan.Lifetimes(c.step)
	for _, u := range c.acts {
		last[u.v] = max(last[u.v], u.step)
	}
	first[p.plan.Output] = -1 // the caller's memory
	for v := range c.ropes {
		c.unstored[v] = true
	}
	for v, yes := range c.unstored {
		if yes {
			first[v] = -1
		}
	}
	p.mem = p.plan.PlanMemory(p.sizes.Rows, max(p.sizes.Outputs, 1), first, last)
	if err := fits("scratch", p.mem.Size, 1); err != nil {
		return err
	}
	p.scratch = make([]float32, p.mem.Size)
	type buffer struct {
		acts       *kernel.Acts
		rows, cols int
		busy       int
	}
	var buffers []buffer
next:
	for _, u := range c.acts {
		rows := p.sizes.Rows
		if p.plan.Values[u.v].Rows == graph.OutputRows {
			rows = max(p.sizes.Outputs, 1)
		}
		rows *= p.plan.Values[u.v].Width / u.cols
		for i := range buffers {
			b := &buffers[i]
			if b.busy < u.step && b.rows == rows && b.cols == u.cols {
				b.busy, p.acts[u.v] = last[u.v], b.acts
				continue next
			}
		}
		a := kernel.NewActs(rows, u.cols)
		c.actBytes += int64(a.Bytes())
		p.acts[u.v] = a
		buffers = append(buffers, buffer{a, rows, u.cols, last[u.v]})
	}
	return nil
}
