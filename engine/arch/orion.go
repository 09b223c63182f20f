package arch

import "godwit/engine/model"

func init() { model.Register("orion", model.Arch{Open: openOrion}) }

// openOrion opens Orion 14B: Llama with layer norms and RoPE over the halves of a
// head. Source: arXiv 2401.12246.
func openOrion(f *model.File) (model.Model, error) {
	return plain{
		halves: true, layerNorm: true, ownOutput: true,
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixNorm = biased(f, blk(layer, "attn_norm"), c.Embd)
			b.ffnNorm = biased(f, blk(layer, "ffn_norm"), c.Embd)
			return true
		},
	}.open(f)
}
