package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("olmo2", model.Arch{Open: openOLMo2, Required: []string{"output.*", "*_norm*"}})
}

// openOLMo2 opens OLMo 2 and 3: norms only after each half of a block, and norms of
// queries and keys over all heads. OLMo 3 has windowed layers whose RoPE is not
// scaled. Source: arXiv 2501.00656.
func openOLMo2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.ownOutput(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	windowed, window := windowPattern(f, c, 4, 0)
	far := bindRope(f, h[0].dimK, false)
	near := newRope(f, f.Rope(h[0].dimK).Plain(far.base), h[0].dimK, false)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		rope := far
		if windowed[i] {
			rope = near
		}
		a := bindAttention(f, c, h[i], i, rope)
		a.qNorm = rms(f, blk(i, "attn_q_norm"), a.Heads*a.DimK)
		a.kNorm = rms(f, blk(i, "attn_k_norm"), a.KVHeads*a.DimK)
		if windowed[i] {
			a.Window = window
		}
		m.blocks = append(m.blocks, block{
			mix:     a,
			mixPost: rms(f, blk(i, "post_attention_norm"), c.Embd),
			ffn:     bindFFN(f, c, i, hidden[i], graph.SiLU),
			ffnPost: rms(f, blk(i, "post_ffw_norm"), c.Embd),
		})
	}
	return m, nil
}
