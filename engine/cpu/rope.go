package cpu

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// rope is a RoPE whose result only attention reads. Attention applies it head
// by head. This saves a stage, and the head is already in the worker's cache.
type rope struct {
	graph.Rope
	in    graph.Value
	node  int // index in the plan
	table *ropeTable
}

// findRopes finds the RoPE nodes of a plan that attention can apply.
func (c *compiler) findRopes() map[graph.Value]*rope {
	p := c.p
	out := make(map[graph.Value]*rope)
	readers := make(map[graph.Value]int)
	for i, n := range p.plan.Nodes {
		for _, v := range n.In {
			readers[v]++
		}
		if op, ok := n.Op.(graph.Rope); ok && len(op.Freqs) > 0 {
			out[n.Out] = &rope{Rope: op, in: n.In[0], node: i}
		}
	}
	attends := make(map[graph.Value]bool)
	for _, n := range p.plan.Nodes {
		a, ok := n.Op.(graph.Attend)
		if !ok || !c.appliesRope(a.Attention) {
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

// appliesRope reports whether only attention reads the RoPE results of a layer.
func (c *compiler) appliesRope(a graph.Attention) bool {
	if c.p.backend.observer != nil {
		return false
	}
	l, err := c.p.cache.layer(a.Layer)
	return err != nil || l.self == nil
}

// heads writes n heads of row x, starting with head i, to dst, with RoPE
// applied. A nil rope returns them unchanged. The heads are copied first and
// together, because vector loads cannot forward from narrower stores until
// those reach the cache.
func (t *rope) heads(dst, x []float32, i, n, dim, row int) []float32 {
	x = x[i*dim : (i+n)*dim]
	if t == nil {
		return x
	}
	half := len(t.Freqs)
	cs := t.table.rows[row*2*half : (row+1)*2*half]
	dst = dst[:copy(dst, x)]
	for h := t.First; h < len(dst); h += dim {
		kernel.Rope(dst[h:h+2*half], cs[:half], cs[half:], t.Adjacent)
	}
	return dst
}

// takeRope replaces v by the input of its RoPE if attention applies the RoPE.
func (c *compiler) takeRope(v *graph.Value) *rope {
	t := c.ropes[*v]
	if t != nil {
		*v = t.in
	}
	return t
}
