package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("arcee", model.Arch{Open: openArcee}) }

// openArcee opens Arcee AFM: Llama with a squared ReLU instead of a gate.
// Source: Arcee AI, AFM-4.5B.
func openArcee(f *model.File) (model.Model, error) {
	return plain{feed: ungated(graph.ReLU2)}.open(f)
}
