package engine

import (
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
)

// rotaries reads the RoPE of each layer's keys from the plan. It returns nil for
// models whose keys depend on the position in another way. After a context shift,
// those models compute the text again.
func rotaries(p *graph.Plan, layers int) []layout.Rotary {
	t := tracer{p: p, from: make(map[graph.Value]*graph.Node)}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		t.from[n.Out] = n
		if op, ok := n.Op.(graph.Embed); ok && op.From == graph.ByPosition {
			return nil
		}
	}
	out := make([]layout.Rotary, layers)
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if _, ok := n.Op.(graph.Index); ok {
			return nil
		}
		op, ok := n.Op.(graph.Attend)
		if ok && op.Chunk > 0 {
			return nil
		}
		if !ok || n.In[1] == graph.None {
			continue
		}
		parts, ok := t.parts(n.In[1])
		if !ok {
			return nil
		}
		for _, r := range parts {
			if r.First+2*len(r.Freqs) > op.DimK {
				return nil
			}
		}
		out[op.Layer].Parts = parts
	}
	return out
}

// tracer follows keys back to their RoPE.
type tracer struct {
	p    *graph.Plan
	from map[graph.Value]*graph.Node
}

// parts returns the columns of each head of v that RoPE rotates. ok is false if an
// operation after RoPE makes a further rotation impossible.
func (t *tracer) parts(v graph.Value) (parts []layout.RotaryPart, ok bool) {
	n := t.from[v]
	if n == nil {
		return nil, true
	}
	switch op := n.Op.(type) {
	case graph.Linear, graph.HeadLinear, graph.Embed:
		return nil, true
	case graph.Rope:
		parts, ok = t.parts(n.In[0])
		if len(op.Freqs) > 0 {
			parts = append(parts, layout.RotaryPart{First: op.First, Freqs: op.Freqs, Adjacent: op.Adjacent})
		}
		return parts, ok
	case graph.Concat:
		a, okA := t.parts(n.In[0])
		b, okB := t.parts(n.In[1])
		for _, r := range b {
			r.First += op.GroupA
			a = append(a, r)
		}
		return a, okA && okB
	case graph.Scale, graph.Repeat:
		return t.parts(n.In[0])
	case graph.Norm:
		parts, ok = t.parts(n.In[0])
		plain := op.W == nil && op.B == nil && op.Kind != graph.Layer // a norm that keeps the angles
		return parts, ok && (plain || len(parts) == 0)
	}
	for _, in := range n.In {
		if in == graph.None {
			continue
		}
		if parts, ok := t.parts(in); !ok || len(parts) > 0 {
			return nil, false
		}
	}
	return nil, true
}
