package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("mimo2", model.Arch{Open: openMiMo2, Ahead: true}) }

// openMiMo2 opens MiMo V2 Flash: value heads smaller than key heads, windows with
// sinks and a RoPE base of their own, dense blocks and mixtures of experts. Source:
// arXiv 2601.02780.
func openMiMo2(f *model.File) (model.Model, error) {
	return plain{
		halves: true, ownOutput: true, windows: everyNth(0, 0), near: basedNear(true),
		attention: func(f *model.File, _ *model.Config, a *attention) {
			a.SinkLogits = f.Optional(blk(a.Layer, "attn_sinks.weight"), a.Heads)
			a.valueScale = f.Factor("attention.value_scale", 0)
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			if !f.HasTensor(blk(layer, "ffn_gate_inp.weight")) {
				return bindFFN(f, c, layer, hidden, graph.SiLU)
			}
			r := readRouting(f, c, layer, graph.SigmoidGate, true)
			e := bindExperts(f, c, layer, expertSize(f, c, layer, r), r, graph.SiLU)
			e.choiceBias(f, layer)
			return e
		},
	}.open(f)
}
