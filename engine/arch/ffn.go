package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

// ffn is the gated feed-forward block. Without a gate matrix, up holds both
// halves (merged) or there is no gating at all (plain).
type ffn struct {
	gate, up, down    *graph.Weight
	bgate, bup, bdown *graph.Weight
	f                 graph.Func
	merged            bool
}

// bindFFN binds a layer's feed-forward block of hidden size n.
func bindFFN(f *model.File, c *model.Config, layer, n int, fn graph.Func) ffn {
	return ffn{
		gate:  f.Weight(blk(layer, "ffn_gate.weight"), c.Embd, n),
		up:    f.Weight(blk(layer, "ffn_up.weight"), c.Embd, n),
		down:  f.Weight(blk(layer, "ffn_down.weight"), n, c.Embd),
		bgate: f.Optional(blk(layer, "ffn_gate.bias"), n),
		bup:   f.Optional(blk(layer, "ffn_up.bias"), n),
		bdown: f.Optional(blk(layer, "ffn_down.bias"), c.Embd),
		f:     fn,
	}
}

// forward computes down(f(gate·x)·(up·x)).
func (m *ffn) forward(g *graph.Builder, x graph.Value) graph.Value {
	up := g.Linear(x, m.up, m.bup)
	switch {
	case m.merged:
		n := g.Width(up) / 2
		up = g.Glu(g.Slice(up, 0, 0, n), g.Slice(up, 0, n, n), m.f, 0)
	case m.gate == nil:
		up = g.Act(up, m.f)
	default:
		up = g.Glu(g.Linear(x, m.gate, m.bgate), up, m.f, 0)
	}
	return g.Linear(up, m.down, m.bdown)
}
