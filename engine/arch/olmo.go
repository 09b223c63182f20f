package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("olmo", model.Arch{Open: openOLMo}) }

// openOLMo opens OLMo 1: Llama with layer norms that have no weights; some models
// bound queries, keys and values. Source: arXiv 2402.00838.
func openOLMo(f *model.File) (model.Model, error) {
	bare := norm{kind: graph.Layer, eps: f.Epsilon("attention.layer_norm_epsilon")}
	m := newDecoder(f)
	m.norm = bare
	c := &m.cfg
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, true)
	p := plain{
		norms: func(_ *model.File, _ *model.Config, _ int, b *block) bool {
			b.mixNorm, b.ffnNorm = bare, bare
			return true
		},
		attention: func(f *model.File, _ *model.Config, a *attention) { a.clamp = f.Factor("attention.clamp_kqv", 0) },
	}
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, p.block(f, c, h[i], i, hidden[i], rope))
	}
	return m, nil
}
