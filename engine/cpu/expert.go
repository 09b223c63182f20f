package cpu

import (
	"math"

	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// routed lists the rows that chose each expert.
type routed struct {
	used   int
	first  []int32 // rows of expert e are pick[first[e]:first[e+1]]
	pick   []int32 // row·used + slot
	active []int32 // experts that at least one row chose
}

// expert is one matrix of an expert stage.
type expert struct {
	x, out graph.Value
	m      *mat
	bias   []float32 // [experts][rows]
	each   bool      // each expert has its own input x
}

// addExpert adds an expert matrix to the stage being built. If the matrix uses
// another routing, or reads what that stage computes, it starts a new stage.
func (c *compiler) addExpert(n graph.Node, op graph.ExpertLinear) {
	p := c.p
	route := n.In[1]
	if len(c.row) > 0 || len(c.linear) > 0 || c.expertRoute != route {
		c.flush()
	}
	for _, l := range c.experts {
		if l.out == n.In[0] {
			c.flush()
			break
		}
	}
	if c.routes[route] == nil {
		c.stage(c.sortStage(route, op.W.Mats()))
	}
	m := p.weights.mats[op.W]
	c.gather(m, op.W.Rows())
	c.expertRoute = route
	c.experts = append(c.experts, expert{
		x: n.In[0], out: n.Out, m: m, bias: p.weights.floats(op.Bias),
		each: p.plan.Values[n.In[0]].Width != op.W.Cols(),
	})
}

// sortStage lists the rows of each expert, for all matrices that use a routing.
// A chosen matrix is then read once, and others are not read at all.
func (c *compiler) sortStage(route graph.Value, experts int) stage {
	p := c.p
	info := p.plan.Values[route]
	t := &routed{
		used: info.Width / 2, first: make([]int32, experts+1),
		pick: make([]int32, max(p.sizes.Rows, p.sizes.Outputs)*info.Width/2), active: make([]int32, 0, experts),
	}
	if c.routes == nil {
		c.routes = make(map[graph.Value]*routed)
	}
	c.routes[route] = t
	return newStage(
		func() int { return 1 },
		func(_, _ int) { t.sort(p, route, p.rows(info.Rows)) })
}

// sort fills in the lists for this batch.
func (t *routed) sort(p *program, route graph.Value, rows int) {
	clear(t.first)
	for r := range rows {
		for _, id := range p.row(route, r)[:t.used] {
			t.first[int(id)+1]++
		}
	}
	t.active = t.active[:0]
	for e := 1; e < len(t.first); e++ {
		if t.first[e] > 0 {
			t.active = append(t.active, int32(e-1))
		}
		t.first[e] += t.first[e-1]
	}
	for r := range rows {
		for s, id := range p.row(route, r)[:t.used] {
			t.pick[t.first[int(id)]] = int32(r*t.used + s)
			t.first[int(id)]++
		}
	}
	copy(t.first[1:], t.first)
	t.first[0] = 0
}

// expertStage multiplies the chosen expert matrices of a stage. Its tasks are
// runs of panels. There are enough for the largest possible number of chosen
// experts.
func (c *compiler) expertStage(list []expert, t *routed) stage {
	p := c.p
	set := p.plan.Values[list[0].out].Rows
	type run struct {
		l        *expert
		from, to int
	}
	var runs []run
	for i := range list {
		n := list[i].m.panels()
		chunk := max(1, (n+3)/4)
		for at := 0; at < n; at += chunk {
			runs = append(runs, run{&list[i], at, min(at+chunk, n)})
		}
	}
	return newStage(
		func() int { return min(len(t.first)-1, p.rows(set)*t.used) * len(runs) },
		func(worker, task int) {
			if task/len(runs) >= len(t.active) {
				return
			}
			r, e := runs[task%len(runs)], int(t.active[task/len(runs)])
			picks := t.pick[t.first[e]:t.first[e+1]]
			for len(picks) > 0 {
				n := min(len(picks), gatherRows)
				p.expertRows(r.l, e, picks[:n], t.used, r.from, r.to, worker)
				picks = picks[n:]
			}
		})
}

// expertRows computes the panels in [from, to) of one expert's matrix for the rows
// that chose it.
func (p *program) expertRows(l *expert, e int, picks []int32, used, from, to, worker int) {
	rows, cols := l.m.w.Rows(), l.m.w.Cols()
	lo, hi := from*kernel.PanelRows, min(to*kernel.PanelRows, rows)
	source := func(pick int) (act int, x []float32) {
		x = p.row(l.x, pick/used)
		if l.each {
			return pick, x[pick%used*cols : (pick%used+1)*cols]
		}
		return pick / used, x
	}
	result := func(pick int) []float32 { return p.row(l.out, pick/used)[pick%used*rows : (pick%used+1)*rows] }
	if len(picks) == 1 {
		act, x := source(int(picks[0]))
		p.vector(l.m, e, result(int(picks[0])), l.x, act, x, from, to, worker)
	} else {
		g := &p.gathers[worker]
		if l.m.quantised() {
			g.acts.Reshape(gatherRows, cols)
		}
		for i, pick := range picks {
			act, x := source(int(pick))
			if l.m.quantised() {
				g.acts.Copy(i, p.acts[l.x], act)
			} else {
				copy(g.x[i*cols:], x)
			}
		}
		p.multiplyRows(l.m, e, g.y, rows, g.acts, g.x, cols, len(picks), from, to, worker)
		for i, pick := range picks {
			copy(result(int(pick))[lo:hi], g.y[i*rows+lo:i*rows+hi])
		}
	}
	if l.bias == nil {
		return
	}
	for _, pick := range picks {
		y := result(int(pick))[lo:hi]
		kernel.Add(y, y, l.bias[e*rows+lo:e*rows+hi])
	}
}

// route chooses experts for one row.
func (c *compiler) route(n graph.Node, r graph.Routing) rowOp {
	p := c.p
	bias := p.weights.floats(r.Bias)
	per, share := 2*r.Experts+r.Groups, max(r.Share, 1)
	layer := c.layer()
	scores := make([]float32, max(p.sizes.Rows, p.sizes.Outputs)*per)
	return func(row int) {
		x, mine := p.row(n.In[0], row), scores[row*per:(row+1)*per]
		if p.plan.Values[n.Out].Rows == graph.BatchRows {
			p.numbers(x, layer, "router", row)
		} else {
			p.numbers(x, layer, "router", int(p.b.Outputs[row]))
		}
		prob, choose, groups := mine[:r.Experts], mine[r.Experts:2*r.Experts], mine[2*r.Experts:]
		switch r.Gating {
		case graph.Softmax:
			softmaxRow(prob, x)
		case graph.SigmoidGate:
			kernel.Sigmoid(prob, x)
		case graph.SoftmaxSelected:
			copy(prob, x)
		}
		copy(choose, prob)
		if bias != nil {
			kernel.Add(choose, choose, bias)
		}
		if r.Groups > 0 {
			limitGroups(choose, groups, r.UsedGroups)
		}
		out := p.row(n.Out, row)
		ids, w := out[:r.Used], out[r.Used:]
		for i := range ids {
			best := 0
			for e, s := range choose {
				if s > choose[best] || choose[best] != choose[best] {
					best = e
				}
			}
			ids[i], w[i] = float32(best/share), prob[best/share]
			choose[best] = float32(math.Inf(-1))
		}
		weighExperts(r, w)
	}
}

// weighExperts computes the final weights of the chosen experts.
func weighExperts(r graph.Routing, w []float32) {
	if r.Gating == graph.SoftmaxSelected {
		softmaxRow(w, w)
	}
	if r.Normalise {
		var sum float32
		for _, v := range w {
			sum += v
		}
		kernel.Scale(w, w, 1/max(sum, 6.103515625e-5)) // 2⁻¹⁴, the smallest normal f16
	}
	kernel.Scale(w, w, r.Scale)
}

// limitGroups keeps the used groups with the largest sum of their two best
// experts and excludes the others; sums is scratch memory.
func limitGroups(choose, sums []float32, used int) {
	low := float32(math.Inf(-1))
	n := len(choose) / len(sums)
	for g := range sums {
		a, b := low, low
		for _, s := range choose[g*n : (g+1)*n] {
			if s > a {
				a, b = s, a
			} else if s > b {
				b = s
			}
		}
		if n == 1 {
			b = 0
		}
		sums[g] = a + b
	}
	for range len(sums) - used {
		worst := -1
		for g, s := range sums {
			// Of equal groups, the last one is dropped. An excluded group has NaN.
			if s == s && (worst < 0 || s <= sums[worst]) {
				worst = g
			}
		}
		if worst < 0 {
			return
		}
		sums[worst] = float32(math.NaN())
		for i := range n {
			choose[worst*n+i] = low
		}
	}
}

func softmaxRow(dst, x []float32) {
	sum := kernel.ExpSum(dst, x, kernel.Max(x))
	kernel.Scale(dst, dst, 1/sum)
}
