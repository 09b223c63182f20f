package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("hunyuan-dense", model.Arch{Open: openHunyuan})
	model.Register("hunyuan-moe", model.Arch{Open: openHunyuanMoE})
	model.Register("hunyuan_vl", model.Arch{Open: openHunyuanVL})
}

// normsLast changes a layer's attention: it has norms on each query and key head
// after RoPE.
func normsLast(f *model.File, _ *model.Config, a *attention) {
	a.headNorms(f)
	a.normsLast = true
}

// openHunyuan opens Hunyuan's dense models: norms on query and key heads after RoPE.
func openHunyuan(f *model.File) (model.Model, error) {
	return plain{halves: true, attention: normsLast}.open(f)
}

// openHunyuanMoE opens Hunyuan A13B: Hunyuan's dense model with experts and a
// shared expert.
func openHunyuanMoE(f *model.File) (model.Model, error) {
	return plain{
		halves: true, attention: normsLast,
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			e := bindExperts(f, c, layer, hidden, readRouting(f, c, layer, graph.Softmax, true), graph.SiLU)
			e.bindShared(f, c, layer, f.Int("expert_shared_feed_forward_length"))
			return e
		},
	}.open(f)
}

// openHunyuanVL opens the text part of HunyuanOCR: Hunyuan's dense model with
// sectioned RoPE, whose base grows with rope.scaling.alpha.
func openHunyuanVL(f *model.File) (model.Model, error) {
	return plain{
		attention: normsLast,
		rope: func(f *model.File, headDim int) *rotary {
			r := f.Rope(headDim)
			if alpha := f.Factor("rope.scaling.alpha", 0); alpha > 0 && headDim > 2 {
				r.Base = float32(float64(r.Base) * math.Pow(float64(alpha), float64(headDim)/float64(headDim-2)))
			}
			if s := f.Sections(); s != nil {
				r.Hold(s, false)
			}
			return newRope(f, r, headDim, false)
		},
	}.open(f)
}
