package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("llama4", model.Arch{Open: openLlama4}) }

// chunk4 is the length of the chunks within which RoPE layers of Llama 4 attend.
// Queries of the other layers are scaled up by the number of such chunks before the
// position.
const chunk4 = 8192

// openLlama4 opens Llama 4 Scout and Maverick: every fourth layer attends to
// everything without RoPE, and some blocks have experts with scaled inputs and a
// shared expert. Queries and keys of RoPE layers are normalised, except in models
// with 128 experts.
func openLlama4(f *model.File) (model.Model, error) {
	every, local := 0, true
	if f.Has("attention.sliding_window") && f.IntOr("attention.sliding_window", 0) == 0 {
		local = false
	}
	return plain{
		windows: func(f *model.File, c *model.Config) ([]bool, int) {
			every = 4
			if !local {
				every = c.Layers
			}
			return make([]bool, c.Layers), 0
		},
		attention: func(f *model.File, c *model.Config, a *attention) {
			if every > 0 && (a.Layer+1)%every == 0 {
				a.rope = nil
				if local {
					a.temper = graph.Temperature{Scale: 0.1, Every: chunk4, Offset: 1}
				}
				return
			}
			if local {
				a.Chunk = chunk4
			}
			if f.IntOr("expert_count", 0) != 128 {
				n := norm{kind: graph.RMS, eps: max(f.Epsilon("attention.layer_norm_rms_epsilon"), 1e-12), group: a.DimK}
				a.qNorm, a.kNorm, a.normsLast = n, n, true
			}
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			if step := f.Int("interleave_moe_layer_step"); (layer+1)%step != 0 {
				return bindFFN(f, c, layer, hidden, graph.SiLU)
			}
			r := readRouting(f, c, layer, graph.SigmoidGate, false)
			r.Gating = graph.SigmoidGate
			n := f.Int("expert_feed_forward_length")
			e := bindExperts(f, c, layer, n, r, graph.SiLU)
			e.before = true
			e.bindShared(f, c, layer, n)
			return e
		},
	}.open(f)
}
