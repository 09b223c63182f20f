package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("olmoe", model.Arch{Open: openOLMoE}) }

// openOLMoE opens OLMoE: norms of queries and keys over all heads, and a mixture of
// experts whose weights are not normalised. Source: arXiv 2409.02060.
func openOLMoE(f *model.File) (model.Model, error) {
	return plain{
		halves: true, ownOutput: true,
		attention: func(f *model.File, _ *model.Config, a *attention) { a.wideNorms(f) },
		feed:      mixture(graph.Softmax, false),
	}.open(f)
}

// mixture is a feed-forward half with experts of the hidden size in the file, gated
// by SiLU.
func mixture(gating graph.Gating, normalise bool) func(f *model.File, c *model.Config, layer, hidden int) half {
	return func(f *model.File, c *model.Config, layer, hidden int) half {
		e := bindExperts(f, c, layer, hidden, readRouting(f, c, layer, gating, normalise), graph.SiLU)
		e.choiceBias(f, layer)
		return e
	}
}
