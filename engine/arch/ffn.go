package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

// ffn is a feed-forward block. It is gated if it has a gate matrix, or if up holds
// the gate before the up columns (merged).
type ffn struct {
	gate, up, down    *graph.Weight
	bgate, bup, bdown *graph.Weight
	f                 graph.Func
	merged            bool
	bound             float32       // upper bound of f(gate), and bound of up on both sides; 0 for none
	early             bool          // bounds gate itself instead of f(gate)
	downNorm          norm          // norm before the down matrix
	scales            *graph.Weight // factors before the down matrix; nil for none
}

// bindFFN binds a layer's gated block of hidden size n.
func bindFFN(f *model.File, c *model.Config, layer, n int, fn graph.Func) *ffn {
	m := bindPlainFFN(f, c, layer, n, fn)
	m.gate = f.Matrix(blk(layer, "ffn_gate.weight"), c.Embd, n)
	m.bgate = f.Optional(blk(layer, "ffn_gate.bias"), n)
	return m
}

// bindPlainFFN binds a block without a gate.
func bindPlainFFN(f *model.File, c *model.Config, layer, n int, fn graph.Func) *ffn {
	return &ffn{
		up:    f.Matrix(blk(layer, "ffn_up.weight"), c.Embd, n),
		down:  f.Matrix(blk(layer, "ffn_down.weight"), n, c.Embd),
		bup:   f.Optional(blk(layer, "ffn_up.bias"), n),
		bdown: f.Optional(blk(layer, "ffn_down.bias"), c.Embd),
		f:     fn,
	}
}

// bindBiasedFFN binds a block without a gate whose biases are required.
func bindBiasedFFN(f *model.File, c *model.Config, layer, n int, fn graph.Func) *ffn {
	m := bindPlainFFN(f, c, layer, n, fn)
	m.bup = f.Weight(blk(layer, "ffn_up.bias"), n)
	m.bdown = f.Weight(blk(layer, "ffn_down.bias"), c.Embd)
	return m
}

// bindMergedFFN binds a block in which gate and up are one matrix.
func bindMergedFFN(f *model.File, c *model.Config, layer, n int, fn graph.Func) *ffn {
	return &ffn{
		up:     f.Matrix(blk(layer, "ffn_up.weight"), c.Embd, 2*n),
		down:   f.Matrix(blk(layer, "ffn_down.weight"), n, c.Embd),
		bup:    f.Optional(blk(layer, "ffn_up.bias"), 2*n),
		bdown:  f.Optional(blk(layer, "ffn_down.bias"), c.Embd),
		f:      fn,
		merged: true,
	}
}

// bindNamedFFN binds a block without a gate whose tensor names have a suffix, such
// as a shared expert.
func bindNamedFFN(f *model.File, c *model.Config, layer int, suffix string, n int, fn graph.Func) *ffn {
	return &ffn{
		up:   f.Matrix(blk(layer, "ffn_up_"+suffix+".weight"), c.Embd, n),
		down: f.Matrix(blk(layer, "ffn_down_"+suffix+".weight"), n, c.Embd),
		f:    fn,
	}
}

// forward computes down(f(gate·x)·(up·x)).
func (m *ffn) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	var y graph.Value
	switch {
	case m.merged:
		up := g.Linear(x, m.up, m.bup)
		n := g.Width(up) / 2
		y = g.Glu(g.Slice(up, 0, 0, n), g.Slice(up, 0, n, n), m.f, 0)
	case m.gate == nil:
		y = g.Act(g.Linear(x, m.up, m.bup), m.f)
	case m.bound != 0:
		y = bounded(g, g.Linear(x, m.gate, m.bgate), g.Linear(x, m.up, m.bup), m.f, m.bound, m.early)
	default:
		y = g.Glu(g.Linear(x, m.gate, m.bgate), g.Linear(x, m.up, m.bup), m.f, 0)
	}
	if m.scales != nil {
		y = g.Affine(y, m.scales, nil)
	}
	return g.Linear(m.downNorm.apply(g, y), m.down, m.bdown)
}
