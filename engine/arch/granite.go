package arch

import "godwit/engine/model"

func init() {
	model.Register("granite", model.Arch{Chat: "Granite", Open: openGranite})
	model.Register("granitemoe", model.Arch{Chat: "Granite", Open: openGranite})
}

// openGranite opens Granite 3 and its mixtures: Llama with constants on the
// embedding, the residual stream, the attention scores and the logits.
func openGranite(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindLlama(f, true)
	f.Float("logit_scale") // names it if it is missing
	m.bindGranite(f)
	return m, nil
}

// bindGranite reads the constants and whether there is a rotation at all.
func (m *decoder) bindGranite(f *model.File) {
	m.scale = f.Factor("embedding_scale", 0)
	m.residuals = f.Factor("residual_scale", 0)
	if s := f.Factor("logit_scale", 0); s != 0 {
		m.logits = 1 / s
	}
	if !f.BoolOr("rope.scaling.finetuned", true) {
		m.attentions(func(_ int, a *attention) { a.rope = nil })
	}
}
