package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("granite_swa", model.Arch{Open: openGraniteSWA}) }

// openGraniteSWA opens Granite with sliding windows: one list says which layers
// have a window and another which use RoPE. Every head has an attention sink.
func openGraniteSWA(f *model.File) (model.Model, error) {
	rotates, given := []bool(nil), false
	m := plain{
		windows: func(f *model.File, c *model.Config) ([]bool, int) {
			rotates, given = f.Bools("attention.rope_pattern", c.Layers)
			windowed, ok := f.Bools("attention.sliding_window_pattern", c.Layers)
			if !ok {
				f.Fail("attention.sliding_window_pattern", "missing")
				windowed = make([]bool, c.Layers)
			}
			return windowed, f.Int("attention.sliding_window")
		},
		attention: func(f *model.File, _ *model.Config, a *attention) {
			a.SinkLogits = f.Weight(blk(a.Layer, "attn_sinks.weight"), a.Heads)
			if given && !rotates[a.Layer] {
				a.rope = nil
			}
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			if f.IntOr("expert_count", 0) == 0 {
				return bindFFN(f, c, layer, hidden, graph.SiLU)
			}
			e := bindExperts(f, c, layer, hidden, readRouting(f, c, layer, graph.Softmax, true), graph.SiLU)
			if n := f.IntOr("expert_shared_feed_forward_length", 0); n > 0 {
				e.shared = &ffn{
					up:   f.Matrix(blk(layer, "ffn_up_shexp.weight"), c.Embd, 2*n),
					down: f.Matrix(blk(layer, "ffn_down_shexp.weight"), n, c.Embd),
					f:    e.f, merged: true,
				}
			}
			return e
		},
	}.bind(f)
	f.Float("logit_scale")
	m.bindGranite(f)
	return m, nil
}
