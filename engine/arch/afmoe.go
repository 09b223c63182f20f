package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("afmoe", model.Arch{Open: openAFMoE}) }

// openAFMoE opens Arcee's Trinity: norms before and after each half, a gate on each
// column of attention's result, and no RoPE in the layers without a window.
func openAFMoE(f *model.File) (model.Model, error) {
	m := plain{
		halves: true, farless: true, ownOutput: true, windows: everyNth(4, 0),
		attention: func(f *model.File, c *model.Config, a *attention) {
			a.headNorms(f)
			a.bindGate(f, c, true, graph.Sigmoid)
		},
		feed:  lead(graph.SigmoidGate),
		norms: sandwich,
	}.bind(f)
	m.scale = float32(math.Sqrt(float64(m.cfg.Embd)))
	return m, nil
}

// sandwich binds norms before and after each half of a block.
func sandwich(f *model.File, c *model.Config, layer int, b *block) bool {
	b.mixNorm = rms(f, blk(layer, "attn_norm"), c.Embd)
	b.mixPost = rms(f, blk(layer, "post_attention_norm"), c.Embd)
	b.ffnNorm = rms(f, blk(layer, "ffn_norm"), c.Embd)
	b.ffnPost = rms(f, blk(layer, "post_ffw_norm"), c.Embd)
	return true
}
