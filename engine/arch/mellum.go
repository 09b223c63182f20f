package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("mellum", model.Arch{Open: openMellum}) }

// openMellum opens Mellum 2: Qwen 3's mixture of experts with windows in three of
// four layers. The RoPE of windowed layers is not scaled.
func openMellum(f *model.File) (model.Model, error) {
	return plain{
		halves: true, ownOutput: true, windows: everyNth(4, 0), near: unscaledNear(true), attention: headNorms,
		feed: func(f *model.File, c *model.Config, layer, _ int) half {
			r := readRouting(f, c, layer, graph.Softmax, true)
			return bindExperts(f, c, layer, expertSize(f, c, layer, r), r, graph.SiLU)
		},
	}.open(f)
}
