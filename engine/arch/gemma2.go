package arch

import "godwit/engine/model"

func init() { model.Register("gemma2", model.Arch{Chat: "Gemma", Open: openGemma2}) }

// openGemma2 opens Gemma 2: every other layer has a window, and tanh bounds the
// scores and logits. Source: arXiv 2408.00118.
func openGemma2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	windowed, window := windowPattern(f, c, 2, 4096)
	h := readHeads(f, c, nil)
	r := f.Rope(h[0].dimK)
	r.Base = f.FloatOr("rope.freq_base_swa", r.Base)
	m.bindGemma(f, windowed, window, newRope(f, r, h[0].dimK, false), scoreWidth(c, 46))
	softcap := f.Factor("attn_logit_softcapping", 50)
	m.attentions(func(_ int, a *attention) { a.Softcap = softcap })
	m.softcap = f.Factor("final_logit_softcapping", 30)
	return m, nil
}
