package arch

import "godwit/engine/model"

func init() {
	model.Register("qwen3", model.Arch{Chat: "ChatML", Open: openQwen3, Unread: classifier, Required: []string{"*_norm*"}})
}

// openQwen3 opens Qwen 3: Qwen 2 with a norm on each query and key head.
// Source: arXiv 2505.09388.
func openQwen3(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindLlama(f, false)
	m.attentions(func(_ int, a *attention) { a.headNorms(f) })
	return m, nil
}
