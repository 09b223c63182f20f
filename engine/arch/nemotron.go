package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("nemotron", model.Arch{Open: openNemotron}) }

// openNemotron opens Nemotron 3 and 4 and Minitron: layer norms, RoPE on part of
// each head, and a squared ReLU without a gate. Source: arXiv 2402.16819.
func openNemotron(f *model.File) (model.Model, error) {
	return plain{
		halves: true, layerNorm: true, ownOutput: true, feed: ungated(graph.ReLU2),
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixNorm = biased(f, blk(layer, "attn_norm"), c.Embd)
			b.ffnNorm = biased(f, blk(layer, "ffn_norm"), c.Embd)
			return true
		},
	}.open(f)
}
