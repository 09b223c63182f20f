package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("falcon", model.Arch{Open: openFalcon}) }

// openFalcon opens Falcon 7B, 40B and 180B: attention and feed-forward in parallel,
// after one shared layer norm or, in the larger models, one each. Source: arXiv
// 2311.16867.
func openFalcon(f *model.File) (model.Model, error) {
	return plain{
		halves: true, layerNorm: true, parallel: true, feed: ungated(graph.GELU),
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixNorm = biased(f, blk(layer, "attn_norm"), c.Embd)
			if f.HasTensor(blk(layer, "attn_norm_2.weight")) {
				b.ffnNorm = b.mixNorm
				b.mixNorm = biased(f, blk(layer, "attn_norm_2"), c.Embd)
			}
			return true
		},
	}.open(f)
}
