package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("qwen2vl", model.Arch{Open: openQwen2VL})
	model.Register("qwen3vl", model.Arch{Open: openQwen3VL})
	model.Register("qwen3vlmoe", model.Arch{Open: openQwen3VLMoE})
}

// sections returns the rotation of models whose RoPE has sections for the
// coordinates of picture tokens. For text, all coordinates equal the position. The
// pairs of a fourth section are not rotated.
func sections(interleaved bool) func(f *model.File, headDim int) *rotary {
	return func(f *model.File, headDim int) *rotary {
		r := f.Rope(headDim)
		if s := f.Sections(); s != nil {
			r.Hold(s, interleaved)
		}
		return newRope(f, r, headDim, false)
	}
}

// openQwen2VL opens the text part of Qwen2-VL and Qwen2.5-VL: Qwen 2 with sectioned
// RoPE. Like llama.cpp, it ignores the epsilon in the file, so that results can be
// compared. With trained weights the file's 1e-6 makes no difference. Source: arXiv
// 2409.12191.
func openQwen2VL(f *model.File) (model.Model, error) {
	m := plain{rope: sections(false)}.bind(f)
	m.norm.eps = leastEps
	for i := range m.blocks {
		m.blocks[i].mixNorm.eps, m.blocks[i].ffnNorm.eps = leastEps, leastEps
	}
	return m, nil
}

// leastEps keeps a norm from dividing by 0 and has no other effect.
const leastEps = 1e-20

// openQwen3VL opens the text part of Qwen3-VL: Qwen 3 with RoPE in interleaved
// sections. Source: arXiv 2511.21631.
func openQwen3VL(f *model.File) (model.Model, error) {
	m := plain{rope: sections(true), attention: headNorms}.bind(f)
	m.deepstack(f)
	return m, nil
}

// openQwen3VLMoE opens the text part of Qwen3-VL's mixtures of experts: the weights
// of the chosen experts sum to 1.
func openQwen3VLMoE(f *model.File) (model.Model, error) {
	m := plain{
		rope: sections(true), attention: headNorms,
		feed: func(f *model.File, c *model.Config, layer, _ int) half {
			r := readRouting(f, c, layer, graph.Softmax, true)
			return bindExperts(f, c, layer, expertSize(f, c, layer, r), r, graph.SiLU)
		},
	}.bind(f)
	m.deepstack(f)
	return m, nil
}

// deepstack reads the number of blocks after which a part of a picture's rows is
// added.
func (m *decoder) deepstack(f *model.File) {
	if m.deep = f.IntOr("n_deepstack_layers", 0); m.deep > m.cfg.Layers {
		f.Fail("n_deepstack_layers", "%d layers, but the model has %d blocks", m.deep, m.cfg.Layers)
		m.deep = 0
	}
	m.cfg.Deep = m.deep
}
