package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("plamo3", model.Arch{Open: openPLaMo3}) }

// openPLaMo3 opens PLaMo 3: norms before and after each half and on query and key
// heads. Layers may have a window and a RoPE base of their own.
func openPLaMo3(f *model.File) (model.Model, error) {
	return plain{
		halves: true, windows: everyNth(8, 0), near: basedNear(true), attention: headNorms,
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixNorm = rms(f, blk(layer, "attn_norm"), c.Embd)
			b.mixPost = bareNorm(f, blk(layer, "post_attention_norm"), c.Embd)
			b.ffnNorm = rms(f, blk(layer, "ffn_norm"), c.Embd)
			b.ffnPost = bareNorm(f, blk(layer, "post_ffw_norm"), c.Embd)
			return true
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			return bindMergedFFN(f, c, layer, hidden, graph.SiLU)
		},
	}.open(f)
}
