package arch

import "godwit/engine/model"

func init() { model.Register("stablelm", model.Arch{Open: openStableLM}) }

// openStableLM opens StableLM 2 and StableLM 3B: layer norms and RoPE on part of
// each head. The 12B model has norms on query and key heads, and attention and
// feed-forward in parallel after one norm. Source: arXiv 2402.17834.
func openStableLM(f *model.File) (model.Model, error) {
	return plain{
		halves: true, layerNorm: true, ownOutput: true,
		attention: func(f *model.File, _ *model.Config, a *attention) {
			if f.HasTensor(blk(a.Layer, "attn_q_norm.weight")) || f.HasTensor(blk(a.Layer, "attn_k_norm.weight")) {
				a.qNorm = eachHead(f, blk(a.Layer, "attn_q_norm.weight"), a.DimK, a.Heads)
				a.kNorm = eachHead(f, blk(a.Layer, "attn_k_norm.weight"), a.DimK, a.KVHeads)
			}
		},
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixNorm = biased(f, blk(layer, "attn_norm"), c.Embd)
			b.parallel = !f.HasTensor(blk(layer, "ffn_norm.weight"))
			if !b.parallel {
				b.ffnNorm = biased(f, blk(layer, "ffn_norm"), c.Embd)
			}
			return true
		},
	}.open(f)
}
