package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("dots1", model.Arch{Open: openDots1}) }

// openDots1 opens dots.llm1: norms on query and key heads, dense first blocks, then
// experts and a shared expert. Source: arXiv 2506.05767.
func openDots1(f *model.File) (model.Model, error) {
	return plain{halves: true, ownOutput: true, attention: headNorms, feed: lead(graph.SigmoidGate)}.open(f)
}
