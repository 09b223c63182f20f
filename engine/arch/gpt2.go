package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("gpt2", model.Arch{Open: openGPT2})
	model.Register("starcoder", model.Arch{Open: openStarCoder})
}

// openGPT2 opens GPT-2: position embeddings, layer norms, biases everywhere and a
// GELU without a gate. Source: Radford et al., "Language Models are Unsupervised
// Multitask Learners", 2019.
func openGPT2(f *model.File) (model.Model, error) {
	m := plain{noRope: true, biased: true, feed: biasedUngated(graph.GELU)}.bind(f)
	m.bindPositions(f)
	return m, nil
}

// openStarCoder opens StarCoder 1 and SantaCoder: GPT-2 with one KV head.
// Source: arXiv 2305.06161.
func openStarCoder(f *model.File) (model.Model, error) { return openGPT2(f) }
