package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("starcoder2", model.Arch{Open: openStarCoder2, Required: []string{"*norm.bias", "*attn_output*", "*ffn_*"}})
}

// openStarCoder2 opens StarCoder 2: Llama's blocks with layer norms, biases
// everywhere and a GELU without a gate. Source: arXiv 2402.19173.
func openStarCoder2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = biased(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: biased(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: biased(f, blk(i, "ffn_norm"), c.Embd),
			mix:     bindBiased(f, c, h[i], i, rope),
			ffn:     bindBiasedFFN(f, c, i, hidden[i], graph.GELU),
		})
	}
	return m, nil
}
