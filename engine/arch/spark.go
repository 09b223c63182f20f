package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("spark2_5", model.Arch{Open: openSpark}) }

// openSpark opens Spark 2.5: windows in some layers, with a RoPE base of their own, and
// a gate on each head of attention's result.
func openSpark(f *model.File) (model.Model, error) {
	return plain{
		halves: true, windows: everyNth(4, 0), near: basedNear(true),
		attention: func(f *model.File, c *model.Config, a *attention) { a.bindGate(f, c, false, graph.Sigmoid) },
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			return bindFFN(f, c, layer, hidden, graph.GELU)
		},
	}.open(f)
}
