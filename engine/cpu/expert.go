package cpu

import (
	"math"

	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// routed lists, expert by expert, the rows that chose it.
type routed struct {
	first []int32 // first[e] to first[e+1] in pick
	pick  []int32 // row·used + slot
}

// expertLinear multiplies each row with the matrices of its experts. Rows are
// sorted by expert first, so that a matrix is read once and unchosen ones never.
func (c *compiler) expertLinear(n graph.Node, op graph.ExpertLinear) {
	p, m := c.p, c.p.weights.mats[op.W]
	bias := p.weights.floats(op.Bias)
	experts, rowsW, cols := op.W.Mats(), op.W.Rows(), op.W.Cols()
	used := p.plan.Values[n.In[1]].Width / 2
	each := p.plan.Values[n.In[0]].Width != cols // x differs per expert
	t := &routed{first: make([]int32, experts+1), pick: make([]int32, p.sizes.Rows*used)}
	set := p.plan.Values[n.Out].Rows
	c.stage(newStage(
		func() int { return 1 },
		func(_, _ int) { t.sort(p, n.In[1], p.rows(set), used) }))
	chunk := max(1, m.panels()/4)
	chunks := (m.panels() + chunk - 1) / chunk
	c.stage(newStage(
		func() int { return experts * chunks },
		func(worker, task int) {
			e, from := task/chunks, task%chunks*chunk
			to := min(from+chunk, m.panels())
			for _, pick := range t.pick[t.first[e]:t.first[e+1]] {
				row, slot := int(pick)/used, int(pick)%used
				act, x := row, p.row(n.In[0], row)
				if each {
					act, x = int(pick), x[slot*cols:(slot+1)*cols]
				}
				y := p.row(n.Out, row)[slot*rowsW : (slot+1)*rowsW]
				p.vector(m, e, y, n.In[0], act, x, from, to, worker)
				if bias != nil {
					lo, hi := from*kernel.PanelRows, min(to*kernel.PanelRows, rowsW)
					kernel.Add(y[lo:hi], y[lo:hi], bias[e*rowsW+lo:e*rowsW+hi])
				}
			}
		}))
}

// sort fills in the lists for this batch.
func (t *routed) sort(p *program, route graph.Value, rows, used int) {
	clear(t.first)
	for r := range rows {
		for _, id := range p.row(route, r)[:used] {
			t.first[int(id)+1]++
		}
	}
	for e := 1; e < len(t.first); e++ {
		t.first[e] += t.first[e-1]
	}
	for r := range rows {
		for s, id := range p.row(route, r)[:used] {
			t.pick[t.first[int(id)]] = int32(r*used + s)
			t.first[int(id)]++
		}
	}
	copy(t.first[1:], t.first)
	t.first[0] = 0
}

// route chooses experts for one row.
func (c *compiler) route(n graph.Node, r graph.Routing) rowOp {
	p := c.p
	bias := p.weights.floats(r.Bias)
	scores := make([][]float32, p.sizes.Rows)
	buf := make([]float32, 2*p.sizes.Rows*r.Experts)
	for i := range scores {
		scores[i] = buf[2*i*r.Experts : 2*(i+1)*r.Experts]
	}
	return func(row int) {
		x := p.row(n.In[0], row)
		prob, choose := scores[row][:r.Experts], scores[row][r.Experts:]
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
			limitGroups(choose, r.Groups, r.UsedGroups)
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
			ids[i], w[i] = float32(best), prob[best]
			choose[best] = float32(math.Inf(-1))
		}
		weighExperts(r, w)
	}
}

// weighExperts finishes the weights of the chosen experts.
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

// limitGroups rules out all but the groups whose two best experts have the
// largest sum.
func limitGroups(choose []float32, groups, used int) {
	n := len(choose) / groups
	var kept [256]bool
	for range used {
		best, at := float32(math.Inf(-1)), -1
		for g := range groups {
			if kept[g] {
				continue
			}
			a, b := float32(math.Inf(-1)), float32(math.Inf(-1))
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
			if at < 0 || a+b > best {
				best, at = a+b, g
			}
		}
		kept[at] = true
	}
	for g := range groups {
		if kept[g] {
			continue
		}
		for i := range n {
			choose[g*n+i] = float32(math.Inf(-1))
		}
	}
}

func softmaxRow(dst, x []float32) {
	sum := kernel.ExpSum(dst, x, kernel.Max(x))
	kernel.Scale(dst, dst, 1/sum)
}
