package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("talkie", model.Arch{Open: openTalkie}) }

// talkie adds a part of the normalised embedding to each block's result.
type talkie struct {
	decoder
	gains []*graph.Weight
}

// openTalkie opens Talkie: norms without weights, a gain on each query head after
// RoPE, and the embedding added again after every block.
func openTalkie(f *model.File) (model.Model, error) {
	eps := f.Epsilon("attention.layer_norm_rms_epsilon")
	bare := norm{kind: graph.RMS, eps: max(eps, 1e-12)}
	m := &talkie{}
	m.decoder = *plain{
		halves: true, ownOutput: true, normless: true,
		attention: func(f *model.File, c *model.Config, a *attention) {
			a.normsLast = true
			a.qNorm, a.kNorm = bare, bare
			a.qNorm.group, a.kNorm.group = a.DimK, a.DimK
			a.qNorm.w = f.Spread(blk(a.Layer, "attn_q_norm.weight"), a.Heads, a.DimK)
			m.gains = append(m.gains, f.Weight(blk(a.Layer, "layer_output_scale.weight"), 1))
		},
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixNorm, b.ffnNorm = bare, bare
			return true
		},
	}.bind(f)
	m.norm, m.embdNorm = bare, bare
	m.logits = f.Float("logit_scale")
	return m, nil
}

// Forward records the pass.
func (m *talkie) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := m.embdNorm.apply(g, g.Embed(m.embd, 1, graph.ByToken))
	first := x
	for i := range m.blocks {
		g.Layer()
		trim := i == len(m.blocks)-1 && !pooled(&m.cfg, in)
		x = m.blocks[i].forward(g, x, in, 0, trim)
		if trim {
			first = g.Gather(first)
		}
		x = g.Add(x, g.Affine(first, m.gains[i], nil))
	}
	return m.head(g, in, x)
}
