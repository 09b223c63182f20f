package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("dream", model.Arch{Open: openDream})
	model.Register("llada", model.Arch{Open: openLLaDA})
	model.Register("llada-moe", model.Arch{Open: openLLaDAMoE})
	model.Register("rnd1", model.Arch{Open: openRND1})
}

// whole lets every row of a model attend to the whole text.
func whole(m *decoder) (model.Model, error) {
	m.cfg.Embedding, m.cfg.Whole = false, true
	m.attentions(func(_ int, a *attention) { a.Bidirectional = true })
	return m, nil
}

// sized is a mixture of experts with a hidden size of its own.
func sized(normalise bool) func(f *model.File, c *model.Config, layer, _ int) half {
	return func(f *model.File, c *model.Config, layer, _ int) half {
		r := readRouting(f, c, layer, graph.Softmax, normalise)
		return bindExperts(f, c, layer, expertSize(f, c, layer, r), r, graph.SiLU)
	}
}

// openDream opens Dream 7B: Qwen 2 as a diffusion model, which predicts masked
// tokens from the text on both sides. Source: arXiv 2508.15487.
func openDream(f *model.File) (model.Model, error) { return whole(plain{halves: true}.bind(f)) }

// openLLaDA opens LLaDA 8B: Llama as a diffusion model. Source: arXiv 2502.09992.
func openLLaDA(f *model.File) (model.Model, error) { return whole(plain{}.bind(f)) }

// openLLaDAMoE opens LLaDA's mixtures of experts: OLMoE's experts in a diffusion
// model.
func openLLaDAMoE(f *model.File) (model.Model, error) {
	return whole(plain{halves: true, attention: headNorms, feed: sized(false)}.bind(f))
}

// openRND1 opens RND1: Qwen 3's mixture of experts as a diffusion model.
func openRND1(f *model.File) (model.Model, error) {
	return whole(plain{halves: true, attention: headNorms, feed: sized(true)}.bind(f))
}
