package arch

import "godwit/engine/model"

func init() { model.Register("qwen2", model.Arch{Chat: "ChatML", Open: openQwen2}) }

// openQwen2 opens Qwen 2 and 2.5: Llama with RoPE over the halves of a head and
// biases on q, k and v. Source: arXiv 2407.10671.
func openQwen2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindLlama(f, false)
	return m, nil
}
