package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("qwen3moe", model.Arch{Chat: "ChatML", Open: openQwen3MoE, Required: []string{"*_norm*"}})
}

// openQwen3MoE opens Qwen 3's mixtures of experts: the weights of the chosen
// experts sum to 1. Source: arXiv 2505.09388.
func openQwen3MoE(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	m.norm = rms(f, "output_norm", c.Embd)
	for i := range c.Layers {
		r := readRouting(f, c, i, graph.Softmax, true)
		a := bindAttention(f, c, h[i], i, rope)
		a.headNorms(f)
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix:     a,
			ffn:     bindExperts(f, c, i, expertSize(f, c, i, r), r, graph.SiLU),
		})
	}
	return m, nil
}
