package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("phi3", model.Arch{Chat: "Phi 3", Open: openPhi3}) }

// openPhi3 opens Phi 3, 3.5 and 4: Llama with merged matrices and RoPE over the
// halves of a head. The RoPE frequencies depend on whether the context is longer
// than the trained one. Files state a window, but the published models do not use
// it. Sources: arXiv 2404.14219; frequencies, 2402.13753.
func openPhi3(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix:     bindAttention(f, c, h[i], i, rope),
			ffn:     bindMergedFFN(f, c, i, hidden[i], graph.SiLU),
		})
	}
	return m, nil
}
