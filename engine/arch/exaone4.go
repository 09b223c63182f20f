package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("exaone4", model.Arch{Open: openEXAONE4})
	model.Register("exaone-moe", model.Arch{Open: openEXAONEMoE, Ahead: true})
}

// openEXAONE4 opens EXAONE 4: norms after each half and on query and key heads. In
// the 32B model, three of four layers have a window, and the others have no RoPE.
// Source: arXiv 2507.11407.
func openEXAONE4(f *model.File) (model.Model, error) {
	return plain{
		halves: true, farless: true, attention: headNorms,
		windows: func(f *model.File, c *model.Config) ([]bool, int) {
			if c.Layers != 64 {
				return make([]bool, c.Layers), 0
			}
			return windowPattern(f, c, 4, 4096)
		},
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixPost = rms(f, blk(layer, "post_attention_norm"), c.Embd)
			b.ffnPost = rms(f, blk(layer, "post_ffw_norm"), c.Embd)
			return true
		},
	}.open(f)
}

// openEXAONEMoE opens K-EXAONE: three of four layers have a window, and the others
// have no RoPE. After the dense first blocks, there are experts and a shared
// expert.
func openEXAONEMoE(f *model.File) (model.Model, error) {
	return plain{
		halves: true, farless: true, windows: everyNth(4, 0),
		attention: headNorms, feed: lead(graph.SigmoidGate),
	}.open(f)
}
