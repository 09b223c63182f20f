package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("phimoe", model.Arch{Chat: "Phi 3", Open: openPhiMoE}) }

// openPhiMoE opens Phi 3.5 MoE: RMS norms with biases, biases everywhere in
// attention and on the output, and a mixture of experts whose weights sum to 1.
// Source: arXiv 2404.14219.
func openPhiMoE(f *model.File) (model.Model, error) {
	biasedRMS := func(f *model.File, name string, n int) norm {
		out := rms(f, name, n)
		out.b = f.Weight(name+".bias", n)
		return out
	}
	m := plain{
		halves: true, ownOutput: true,
		attention: func(f *model.File, c *model.Config, a *attention) { a.requireBiases(f, c) },
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixNorm = biasedRMS(f, blk(layer, "attn_norm"), c.Embd)
			b.ffnNorm = biasedRMS(f, blk(layer, "ffn_norm"), c.Embd)
			return true
		},
		feed: mixture(graph.Softmax, true),
	}.bind(f)
	m.norm = biasedRMS(f, "output_norm", m.cfg.Embd)
	m.bias = f.Weight("output.bias", m.cfg.Vocab)
	return m, nil
}
