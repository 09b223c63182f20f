package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("bailingmoe", model.Arch{Open: openBailingMoE})
	model.Register("bailingmoe2", model.Arch{Open: openBailingMoE2, Ahead: true})
}

// openBailingMoE opens Ling 1: every block has experts and a shared expert. Source:
// arXiv 2503.05139.
func openBailingMoE(f *model.File) (model.Model, error) {
	return plain{
		ownOutput: true,
		feed: func(f *model.File, c *model.Config, layer, _ int) half {
			r := readRouting(f, c, layer, graph.Softmax, f.BoolOr("expert_weights_norm", false))
			n := expertSize(f, c, layer, r)
			e := bindExperts(f, c, layer, n, r, graph.SiLU)
			if shared := f.IntOr("expert_shared_count", 0); shared > 0 {
				e.bindShared(f, c, layer, n*shared)
			}
			return e
		},
	}.open(f)
}

// openBailingMoE2 opens Ling 2 and Ring 2: norms on query and key heads, RoPE on
// part of each head, dense first blocks, and experts chosen within groups.
func openBailingMoE2(f *model.File) (model.Model, error) {
	return plain{halves: true, attention: headNorms, feed: lead(graph.SigmoidGate)}.open(f)
}
