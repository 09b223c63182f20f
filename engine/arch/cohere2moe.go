package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("cohere2moe", model.Arch{Open: openCohere2MoE, Ahead: true}) }

// openCohere2MoE opens Cohere's mixtures of experts: Command A's parallel blocks,
// in which the sum of experts and shared expert is halved. The first, dense blocks
// use RoPE even if they have no window.
func openCohere2MoE(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	c0, at := layerNorm, "attention.layer_norm_epsilon"
	if f.FloatOr("attention.layer_norm_rms_epsilon", 0) != 0 {
		c0, at = rms, "attention.layer_norm_rms_epsilon"
	}
	f.Epsilon(at)
	h := readHeads(f, c, nil)
	far := bindRope(f, h[0].dimK, true)
	near := basedNear(false)(f, h[0].dimK, far)
	windowed, window := firstOfN(4)(f, c)
	if window == 0 {
		f.Fail("attention.sliding_window", "missing")
	}
	lead, hidden := f.IntOr("leading_dense_block_count", 0), f.PerLayer("feed_forward_length", c.Layers, -1)
	m.norm, m.logits = c0(f, "output_norm", c.Embd), f.Float("logit_scale")
	for i := range c.Layers {
		var rope *rotary
		switch {
		case windowed[i]:
			rope = near
		case i < lead:
			rope = far
		}
		a := bindAttention(f, c, h[i], i, rope)
		if windowed[i] {
			a.Window = window
		}
		b := block{mixNorm: c0(f, blk(i, "attn_norm"), c.Embd), mix: a, parallel: true}
		if i < lead {
			b.ffn = bindFFN(f, c, i, hidden[i], graph.SiLU)
		} else {
			b.ffn = bindCohereExperts(f, c, i)
		}
		m.blocks = append(m.blocks, b)
	}
	return m, nil
}

// bindCohereExperts binds the experts and the shared expert.
func bindCohereExperts(f *model.File, c *model.Config, layer int) half {
	r := readRouting(f, c, layer, graph.SigmoidGate, f.BoolOr("expert_weights_norm", false))
	n := expertSize(f, c, layer, r)
	e := bindExperts(f, c, layer, n, r, graph.SiLU)
	shared := f.IntOr("expert_shared_count", 0)
	if shared == 0 {
		return e
	}
	e.bindShared(f, c, layer, f.IntOr("expert_shared_feed_forward_length", n*shared))
	return halved{e}
}

// halved halves the sum of the experts and the shared expert.
type halved struct{ *experts }

func (a halved) forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value {
	return g.Scale(a.experts.forward(g, x, in), 0.5)
}
