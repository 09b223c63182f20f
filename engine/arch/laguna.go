package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("laguna", model.Arch{Open: openLaguna}) }

// openLaguna opens Laguna: a softplus gate on each head or column of attention's
// result. Three of four layers may have a window, with a RoPE of their own.
func openLaguna(f *model.File) (model.Model, error) {
	return plain{
		halves: true, windows: firstOfN(4),
		near: func(f *model.File, headDim int, far *rotary) *rotary {
			r := f.Rope(headDim).Plain(f.FloatOr("rope.freq_base_swa", far.base))
			r.Dims = f.IntOr("rope.dimension_count_swa", r.Dims)
			return newRope(f, r, headDim, false)
		},
		attention: func(f *model.File, c *model.Config, a *attention) {
			a.headNorms(f)
			a.bindGate(f, c, f.Rows(blk(a.Layer, "attn_gate.weight")) != a.Heads, graph.Softplus)
		},
		feed: lead(graph.SigmoidGate),
	}.open(f)
}
