package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("gptneox", model.Arch{Open: openGPTNeoX}) }

// openGPTNeoX opens GPT-NeoX, Pythia and Dolly 2: layer norms, biases everywhere
// and RoPE on part of each head. Attention and feed-forward run in parallel after a
// norm each, unless the file says otherwise. Source: arXiv 2204.06745.
func openGPTNeoX(f *model.File) (model.Model, error) {
	parallel := f.BoolOr("use_parallel_residual", true)
	return plain{
		halves: true, biased: true, ownOutput: true, parallel: parallel, feed: biasedUngated(graph.GELU),
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixNorm = biased(f, blk(layer, "attn_norm"), c.Embd)
			b.ffnNorm = biased(f, blk(layer, "ffn_norm"), c.Embd)
			return true
		},
	}.open(f)
}
