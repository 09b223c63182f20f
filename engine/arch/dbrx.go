package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("dbrx", model.Arch{Open: openDBRX}) }

// openDBRX opens DBRX: layer norms without biases, bounded queries, keys and
// values, and a mixture of experts whose weights sum to 1.
func openDBRX(f *model.File) (model.Model, error) {
	return plain{
		halves: true, layerNorm: true, ownOutput: true, ffnNorm: "attn_output_norm",
		attention: func(f *model.File, _ *model.Config, a *attention) { a.clamp = f.Factor("attention.clamp_kqv", 0) },
		feed:      mixture(graph.Softmax, true),
	}.open(f)
}
