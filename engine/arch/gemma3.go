package arch

import "godwit/engine/model"

func init() {
	model.Register("gemma3", model.Arch{Chat: "Gemma", Open: openGemma3, Required: []string{"*_norm*"}})
}

// openGemma3 opens Gemma 3: five windowed layers with their own RoPE base before
// each global one, and norms on each query and key head. Source: arXiv 2503.19786.
func openGemma3(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	windowed, window := windowPattern(f, c, 6, 0)
	h := readHeads(f, c, nil)
	near := newRope(f, f.Rope(h[0].dimK).Plain(f.FloatOr("rope.freq_base_swa", 10000)), h[0].dimK, false)
	m.bindGemma(f, windowed, window, near, scoreWidth(c, 62))
	m.attentions(func(_ int, a *attention) { a.headNorms(f); a.Tiles = true })
	m.softcap = f.Factor("final_logit_softcapping", 0)
	return m, nil
}
