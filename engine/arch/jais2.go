package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("jais2", model.Arch{Open: openJais2}) }

// openJais2 opens Jais 2: layer norms, biases everywhere and a squared ReLU without a
// gate.
func openJais2(f *model.File) (model.Model, error) {
	return plain{halves: true, biased: true, feed: biasedUngated(graph.ReLU2)}.open(f)
}
