package cpu

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// turn is a Rope that only attention reads, and that it does itself, head by
// head: a stage less, and the head is in the worker's cache.
type turn struct {
	graph.Rope
	in    graph.Value
	node  int // its index in the plan
	table *ropeTable
}

// turns finds the ropes of a plan that attention can do.
func (c *compiler) turns() map[graph.Value]*turn {
	p := c.p
	out := make(map[graph.Value]*turn)
	readers := make(map[graph.Value]int)
	for i, n := range p.plan.Nodes {
		for _, v := range n.In {
			readers[v]++
		}
		if op, ok := n.Op.(graph.Rope); ok && len(op.Freqs) > 0 {
			out[n.Out] = &turn{Rope: op, in: n.In[0], node: i}
		}
	}
	attends := make(map[graph.Value]bool)
	for _, n := range p.plan.Nodes {
		a, ok := n.Op.(graph.Attend)
		if !ok || !c.turnsIn(a.Attention) {
			continue
		}
		for _, v := range n.In[:2] {
			if t := out[v]; t != nil && t.HeadDim == a.DimK {
				attends[v] = true
			}
		}
	}
	for v := range out {
		if !attends[v] || readers[v] > 1 || v == p.plan.Output {
			delete(out, v)
		}
	}
	return out
}

// turnsIn reports whether nobody but attention reads what a layer's ropes compute.
func (c *compiler) turnsIn(a graph.Attention) bool {
	if c.p.backend.heads != nil {
		return false
	}
	l, err := c.p.cache.layer(a.Layer)
	return err != nil || l.own == nil
}

// head turns head i of a row x into dst; a nil turn gives the head as it is.
func (t *turn) head(dst, x []float32, i, dim, row int) []float32 {
	x = x[i*dim : (i+1)*dim]
	if t == nil {
		return x
	}
	half := len(t.Freqs)
	cs := t.table.rows[row*2*half : (row+1)*2*half]
	copy(dst, x)
	kernel.Rope(dst[t.First:t.First+2*half], cs[:half], cs[half:], t.Adjacent)
	return dst
}

// take puts the rope's input in the place of v where attention does the rope.
func (c *compiler) take(v *graph.Value) *turn {
	t := c.ropes[*v]
	if t != nil {
		*v = t.in
	}
	return t
}
