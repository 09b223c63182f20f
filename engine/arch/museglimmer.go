package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("muse-glimmer", model.Arch{Open: openMuseGlimmer}) }

// openMuseGlimmer opens Muse Glimmer: norms before and after each half and after
// the embedding, a gate on each column of attention's result, bounded logits, and
// no RoPE in layers without a window.
func openMuseGlimmer(f *model.File) (model.Model, error) {
	m := plain{
		farless: true, ownOutput: true, windows: everyNth(4, 0), near: basedNear(false),
		attention: func(f *model.File, c *model.Config, a *attention) {
			a.headNorms(f)
			a.bindGate(f, c, true, graph.Sigmoid)
		},
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			sandwich(f, c, layer, b)
			b.mixPost.eps, b.ffnPost.eps = 1e-8, 1e-8
			return true
		},
	}.bind(f)
	m.embdNorm = norm{kind: graph.RMS, eps: m.norm.eps}
	m.logits = f.Float("logit_scale")
	m.softcap = f.Factor("final_logit_softcapping", 0)
	return m, nil
}
