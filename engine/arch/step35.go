package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("step35", model.Arch{Open: openStep35, Ahead: true}) }

// openStep35 opens Step 3.5: head counts that differ between layers, a gate on each
// head's result, windows with a RoPE base of their own, and bounded experts. Layers
// without a window apply RoPE to half as many columns.
func openStep35(f *model.File) (model.Model, error) {
	return plain{
		halves: true, ownOutput: true, windows: everyNth(4, 0),
		rope: func(f *model.File, headDim int) *rotary {
			r := f.Rope(headDim)
			all := factors(f, "rope_freqs.weight", r.Dims/2)
			r.Dims /= 2
			if all != nil {
				r.Factors = all[:r.Dims/2]
			}
			return newRope(f, r, headDim, false)
		},
		near: func(f *model.File, headDim int, far *rotary) *rotary {
			r := f.Rope(headDim)
			r.Base = f.FloatOr("rope.freq_base_swa", far.base)
			r.Dims = f.IntOr("rope.dimension_count_swa", r.Dims)
			return newRope(f, r, headDim, false)
		},
		attention: func(f *model.File, c *model.Config, a *attention) {
			if f.HasTensor(blk(a.Layer, "attn_q_norm.weight")) {
				a.headNorms(f)
			}
			if f.HasTensor(blk(a.Layer, "attn_gate.weight")) {
				a.bindGate(f, c, false, graph.Sigmoid)
			}
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			h := bindRoutedFeed(f, c, layer, hidden)
			if e, ok := h.(*experts); ok {
				e.bound = layerBound(f, c, "swiglu_clamp_exp", layer, 0)
				if e.shared != nil {
					e.shared.bound = layerBound(f, c, "swiglu_clamp_shexp", layer, 0)
				}
			}
			return h
		},
	}.open(f)
}
