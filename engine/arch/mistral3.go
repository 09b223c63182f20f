package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("mistral3", model.Arch{Chat: "Mistral", Open: openMistral3}) }

// openMistral3 opens Mistral 3: Llama whose queries are scaled up by the number of
// trained lengths before the position.
func openMistral3(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindLlama(f, true)
	t := graph.Temperature{Scale: f.Factor("attention.temperature_scale", 0), Every: f.Rope(0).Context}
	if t.Scale != 0 && t.Every == 0 {
		f.Fail("rope.scaling.original_context_length", "missing, and attention.temperature_scale is %g", t.Scale)
	}
	m.attentions(func(_ int, a *attention) { a.temper = t })
	return m, nil
}
