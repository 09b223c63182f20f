package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("minimax-m2", model.Arch{Open: openMiniMaxM2}) }

// openMiniMaxM2 opens MiniMax M2: norms of queries and keys over all heads, RoPE on
// part of each head, and a mixture of experts chosen by sigmoid plus a bias.
func openMiniMaxM2(f *model.File) (model.Model, error) {
	return plain{
		halves: true, ownOutput: true,
		attention: func(f *model.File, _ *model.Config, a *attention) { a.wideNorms(f) },
		feed:      mixture(graph.SigmoidGate, true),
	}.open(f)
}
