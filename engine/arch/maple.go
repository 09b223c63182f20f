package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("maple", model.Arch{Open: openMaple}) }

// openMaple opens Maple: norms on query and key heads, windowed layers with RoPE
// and other layers without, and experts whose two factors are bounded.
func openMaple(f *model.File) (model.Model, error) {
	return plain{
		halves: true, farless: true, ownOutput: true, near: basedNear(true),
		windows: func(f *model.File, c *model.Config) ([]bool, int) {
			windowed, ok := f.Bools("attention.sliding_window_pattern", c.Layers)
			if !ok {
				f.Fail("attention.sliding_window_pattern", "missing")
				windowed = make([]bool, c.Layers)
			}
			return windowed, f.Int("attention.sliding_window")
		},
		attention: headNorms,
		feed: func(f *model.File, c *model.Config, layer, _ int) half {
			r := readRouting(f, c, layer, graph.Softmax, true)
			r.Scale, r.Gating = 1, graph.Softmax
			e := bindExperts(f, c, layer, expertSize(f, c, layer, r), r, graph.SiLU)
			e.bound, e.early = layerBound(f, c, "swiglu_clamp_exp", layer, 7), true
			return e
		},
	}.open(f)
}
