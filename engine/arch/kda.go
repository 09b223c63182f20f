package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

// kda is Kimi delta attention: the gated delta rule with a decay for each key
// column. Source: arXiv 2510.26692.
type kda struct {
	layer, heads, dim int
	eps               float32
	q, k, v           *graph.Weight
	conv              [3]*graph.Weight // convolutions of q, k and v
	forget, forget2   *graph.Weight    // two low-rank factors; forget2 is nil if forget has full rank
	gate, gate2       *graph.Weight
	beta, a, dt       *graph.Weight
	bound             float32 // logarithm of the smallest decay; 0 for none
	sign              float32 // with a bound, sign of a: -1 if files store it negated
	norm              norm
	out               *graph.Weight
}

// bindKDA binds a layer. bound is the logarithm of its smallest decay, or 0.
func bindKDA(f *model.File, c *model.Config, layer, heads int, bound float32) *kda {
	name := func(s string) string { return blk(layer, s) }
	dim, taps := f.Int("kda.head_dim"), f.Int("ssm.conv_kernel")
	if dim > maxHeadDim || heads > maxHeads || dim*heads > maxInner {
		f.Fail("kda.head_dim", "%d heads of %d columns are too large", heads, dim)
		dim, heads = 1, 1
	}
	if c.Embedding {
		f.Fail("attention.causal", "false, and layer %d is recurrent", layer)
	}
	n := dim * heads
	m := &kda{
		layer: layer, heads: heads, dim: dim, bound: bound, sign: 1, eps: f.Epsilon("attention.layer_norm_rms_epsilon"),
		q: f.Matrix(name("attn_q.weight"), c.Embd, n), k: f.Matrix(name("attn_k.weight"), c.Embd, n), v: f.Matrix(name("attn_v.weight"), c.Embd, n),
		beta: f.Matrix(name("ssm_beta.weight"), c.Embd, heads), dt: f.Weight(name("ssm_dt.bias"), n),
		norm: rms(f, name("ssm_norm"), dim), out: f.Matrix(name("attn_output.weight"), n, c.Embd),
	}
	m.norm.group = dim
	for i, s := range []string{"q", "k", "v"} {
		m.conv[i] = f.Filter(name("ssm_conv1d_"+s+".weight"), taps, n)
	}
	if f.Rows(name("ssm_a")) == heads {
		m.a = f.Spread(name("ssm_a"), heads, dim)
	} else {
		m.a = f.SpreadRow(name("ssm_a"), heads, dim)
	}
	low := func(s string) (first, second *graph.Weight) {
		if f.HasTensor(name("ssm_" + s + ".weight")) {
			return f.Matrix(name("ssm_"+s+".weight"), c.Embd, n), nil
		}
		rank := f.Rows(name("ssm_" + s + "_a.weight"))
		first = f.Matrix(name("ssm_"+s+"_a.weight"), c.Embd, max(rank, 1))
		if rank != n || f.HasTensor(name("ssm_"+s+"_b.weight")) {
			second = f.Matrix(name("ssm_"+s+"_b.weight"), max(rank, 1), n)
		}
		return first, second
	}
	m.forget, m.forget2 = low("f")
	if f.HasTensor(name("attn_gate.weight")) {
		m.gate = f.Matrix(name("attn_gate.weight"), c.Embd, n)
	} else {
		m.gate, m.gate2 = low("g")
	}
	return m
}

// twice computes b·a·x, or a·x if b is nil.
func twice(g *graph.Builder, x graph.Value, a, b *graph.Weight) graph.Value {
	if x = g.Linear(x, a, nil); b != nil {
		x = g.Linear(x, b, nil)
	}
	return x
}

func (m *kda) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	conv := func(i int, w *graph.Weight) graph.Value {
		return g.ShortConv(g.Linear(x, w, nil), m.layer, m.conv[i], nil, graph.SiLU)
	}
	unit := func(y graph.Value) graph.Value { return g.Norm(y, graph.L2, nil, nil, m.eps, m.dim) }
	q, k, v := unit(conv(0, m.q)), unit(conv(1, m.k)), conv(2, m.v)
	decay := g.Affine(twice(g, x, m.forget, m.forget2), nil, m.dt)
	if m.bound != 0 {
		decay = g.Scale(g.Act(g.Scale(g.Affine(decay, m.a, nil), m.sign), graph.Sigmoid), m.bound)
	} else {
		decay = g.Affine(g.Act(decay, graph.Softplus), m.a, nil)
	}
	beta := g.Act(g.Linear(x, m.beta, nil), graph.Sigmoid)
	y := g.Recur(q, k, g.Mul(v, beta), decay, g.Scale(g.Mul(k, beta), -1), k, m.layer,
		graph.Recur{Heads: m.heads, Scale: 1 / rootOf(m.dim), Late: true})
	y = g.Mul(m.norm.apply(g, y), g.Act(twice(g, x, m.gate, m.gate2), graph.Sigmoid))
	return g.Linear(y, m.out, nil)
}
