package arch

import "godwit/engine/model"

func init() { model.Register("smollm3", model.Arch{Open: openSmolLM3}) }

// openSmolLM3 opens SmolLM3: Llama without RoPE in every fourth layer. Source:
// arXiv 2501.18795 (NoPE layers).
func openSmolLM3(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindLlama(f, true)
	m.attentions(func(i int, a *attention) {
		if (i+1)%4 == 0 {
			a.rope = nil
		}
	})
	return m, nil
}
