package arch

import "godwit/engine/model"

func init() {
	model.Register("granite", model.Arch{Chat: "Granite", Open: openGranite})
	model.Register("granitemoe", model.Arch{Chat: "Granite", Open: openGranite})
}

// openGranite opens Granite 3, dense or with experts: Llama with constant factors
// on the embedding, the residual stream, the attention scores and the logits.
func openGranite(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindLlama(f, true)
	f.Float("logit_scale") // reports the value as missing
	m.bindGranite(f)
	return m, nil
}

// bindGranite reads the constant factors and whether the model uses RoPE.
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
