package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("kimi-k3", model.Arch{Open: openKimiK3}) }

// kimiK3 starts a new residual stream every few blocks. Each half of a block, and
// the output, read a mixture of the earlier streams and the current one.
type kimiK3 struct {
	decoder
	every      int // blocks per stream; 0 for a single stream
	attn, feed []*graph.Weight
	last       *graph.Weight
}

// openKimiK3 opens Kimi K3: delta attention and gated latent attention without
// RoPE, experts that work in a smaller space, and a gate whose factors are bounded
// by tanh.
func openKimiK3(f *model.File) (model.Model, error) {
	m := &kimiK3{decoder: *newDecoder(f), every: f.IntOr("attn_res.block_size", 0)}
	c := &m.cfg
	gate, up := f.Factor("activation.situ_beta", 0), f.Float("activation.situ_linear_beta")
	if gate == 0 {
		f.Fail("activation.situ_beta", "missing or 0")
		gate = 1
	}
	m.bindKDAHybrid(f, f.FloatOr("kda.gate_lower_bound", 0), func(a *latent) {
		a.still = true
		a.bindGate(f, c)
	}, func(layer int) half { return bindSituFeed(f, c, layer, gate, up) })
	for i := range m.blocks {
		if a, ok := m.blocks[i].mix.(*kda); ok {
			a.sign = -1
		}
	}
	if m.every > 0 {
		for i := range c.Layers {
			m.attn = append(m.attn, f.Weight(blk(i, "attn_res_score.weight"), c.Embd))
			m.feed = append(m.feed, f.Weight(blk(i, "ffn_res_score.weight"), c.Embd))
		}
		m.last = f.Weight("output_res_score.weight", c.Embd)
	}
	return m, nil
}

// Forward records the pass.
func (m *kimiK3) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	if m.every == 0 {
		return m.decoder.Forward(g, in)
	}
	x := g.Embed(m.embd, 1, graph.ByToken)
	var bank []graph.Value
	for i := range m.blocks {
		g.Layer()
		b := &m.blocks[i]
		y := m.mixture(g, x, bank, m.attn[i])
		y = b.mix.forward(g, b.mixNorm.apply(g, y), in)
		if i%m.every == 0 {
			bank = append(bank, x)
			x = y
		} else {
			x = g.Add(x, y)
		}
		y = b.ffnNorm.apply(g, m.mixture(g, x, bank, m.feed[i]))
		x = g.Add(x, b.ffn.forward(g, y, in))
	}
	x = m.mixture(g, x, bank, m.last)
	return m.trimmed(g, in, x)
}

// mixture adds the streams, weighted by the softmax of their scores. A stream's
// score is the product of its norm with w. Two streams are merged at a time, and
// each merge keeps the logarithm of the sum so far.
func (m *kimiK3) mixture(g *graph.Builder, x graph.Value, bank []graph.Value, w *graph.Weight) graph.Value {
	score := func(v graph.Value) graph.Value {
		return headSums(g, g.Affine(g.Norm(v, graph.RMS, nil, nil, m.norm.eps, 0), w, nil), 1)
	}
	if len(bank) == 0 {
		return x
	}
	sum, total := bank[0], score(bank[0])
	for i := 1; i <= len(bank); i++ {
		v := x
		if i < len(bank) {
			v = bank[i]
		}
		by := g.Add(score(v), g.Scale(total, -1))
		sum = g.Add(sum, g.Mul(g.Add(v, g.Scale(sum, -1)), g.Act(by, graph.Sigmoid)))
		total = g.Add(total, g.Act(by, graph.Softplus))
	}
	return sum
}

// situ computes bound(gate, b)·sigmoid(gate)·bound(up, l), where bound(x, b) =
// b·tanh(x/b). If l is 0 or less, up is not bounded.
func situ(g *graph.Builder, gate, up graph.Value, b, l float32) graph.Value {
	return g.Mul(g.Mul(g.Softcap(gate, b), g.Act(gate, graph.Sigmoid)), g.Softcap(up, max(l, 0)))
}

// situFeed is a gated feed-forward block with situ.
type situFeed struct {
	*ffn
	b, l float32
}

func (m *situFeed) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	return g.Linear(situ(g, g.Linear(x, m.gate, nil), g.Linear(x, m.up, nil), m.b, m.l), m.down, nil)
}

// situExperts is a mixture of experts with situ. Its experts may work on a smaller
// row.
type situExperts struct {
	*experts
	b, l     float32
	down, up *graph.Weight // to and from the smaller row; nil for none
	norm     norm
	side     *situFeed
}

func bindSituFeed(f *model.File, c *model.Config, layer int, b, l float32) half {
	if layer < f.IntOr("leading_dense_block_count", 0) {
		return &situFeed{bindFFN(f, c, layer, f.PerLayer("feed_forward_length", c.Layers, -1)[layer], graph.SiLU), b, l}
	}
	r := readRouting(f, c, layer, graph.SigmoidGate, f.BoolOr("expert_weights_norm", false))
	n, width := f.Int("expert_feed_forward_length"), f.IntOr("expert_latent_length", 0)
	m := &situExperts{b: b, l: l}
	inner := *c
	if width > 0 {
		m.down = f.Matrix(blk(layer, "ffn_routed_down.weight"), c.Embd, width)
		m.up = f.Matrix(blk(layer, "ffn_routed_up.weight"), width, c.Embd)
		if f.HasTensor(blk(layer, "ffn_routed_norm.weight")) {
			m.norm = rms(f, blk(layer, "ffn_routed_norm"), width)
		}
		inner.Embd = width
	}
	m.experts = &experts{
		router: f.Weight(blk(layer, "ffn_gate_inp.weight"), c.Embd, r.Experts), routing: r,
		gate: f.Matrix(blk(layer, "ffn_gate_exps.weight"), inner.Embd, n, r.Experts),
		up:   f.Matrix(blk(layer, "ffn_up_exps.weight"), inner.Embd, n, r.Experts),
	}
	m.experts.down = f.Matrix(blk(layer, "ffn_down_exps.weight"), n, inner.Embd, r.Experts)
	m.experts.custom = func(g *graph.Builder, gate, up graph.Value) graph.Value { return situ(g, gate, up, b, l) }
	m.choiceBias(f, layer)
	if f.HasTensor(blk(layer, "ffn_gate_shexp.weight")) {
		m.bindShared(f, c, layer, n*max(f.IntOr("expert_shared_count", 1), 1))
		m.side, m.shared = &situFeed{m.shared, b, l}, nil
	}
	return m
}

func (m *situExperts) forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value {
	logits, y := g.Linear(x, m.router, nil), x
	if m.down != nil {
		y = g.Linear(y, m.down, nil)
	}
	y = m.mix(g, y, logits)
	if m.up != nil {
		y = g.Linear(m.norm.apply(g, y), m.up, nil)
	}
	if m.side != nil {
		y = g.Add(y, m.side.forward(g, x, in))
	}
	return y
}
