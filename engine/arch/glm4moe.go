package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("glm4moe", model.Arch{Chat: "GLM 4", Open: openGLM4MoE, Ahead: true}) }

// openGLM4MoE opens GLM-4.5 to 4.7: dense first blocks, then a mixture of experts
// chosen by sigmoid plus a bias, with a shared expert. Source: arXiv 2508.06471.
func openGLM4MoE(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := sectionedRope(f, h[0].dimK, false)
	for i := range c.Layers {
		a := bindAttention(f, c, h[i], i, rope)
		if f.HasTensor(blk(i, "attn_q_norm.weight")) || f.HasTensor(blk(i, "attn_k_norm.weight")) {
			a.headNorms(f)
		}
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "post_attention_norm"), c.Embd),
			mix:     a,
			ffn:     bindLead(f, c, i, graph.SigmoidGate),
		})
	}
	return m, nil
}

// bindLead binds the feed-forward half of models with dense first blocks and a
// shared expert as large as a number of experts.
func bindLead(f *model.File, c *model.Config, layer int, def graph.Gating) half {
	if layer < f.IntOr("leading_dense_block_count", 0) {
		return bindFFN(f, c, layer, f.PerLayer("feed_forward_length", c.Layers, -1)[layer], graph.SiLU)
	}
	r := readRouting(f, c, layer, def, f.BoolOr("expert_weights_norm", false))
	n := expertSize(f, c, layer, r)
	e := bindExperts(f, c, layer, n, r, graph.SiLU)
	e.choiceBias(f, layer)
	if shared := f.IntOr("expert_shared_count", 0); shared > 0 {
		e.bindShared(f, c, layer, f.IntOr("expert_shared_feed_forward_length", n*shared))
	}
	return e
}
