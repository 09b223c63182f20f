package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("phi2", model.Arch{Open: openPhi2, Required: []string{"*output*", "*attn_norm*", "*ffn_*"}})
}

// openPhi2 opens Phi 1.5 and 2: attention and feed-forward in parallel after one
// layer norm, biases everywhere, and RoPE on part of each head.
func openPhi2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.ownOutput(f)
	c := &m.cfg
	m.bias = f.Weight("output.bias", c.Vocab)
	m.norm = biased(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm:  biased(f, blk(i, "attn_norm"), c.Embd),
			mix:      bindBiased(f, c, h[i], i, rope),
			ffn:      bindBiasedFFN(f, c, i, hidden[i], graph.GELU),
			parallel: true,
		})
	}
	return m, nil
}
