package arch

import "godwit/engine/model"

func init() { model.Register("maincoder", model.Arch{Open: openMaincoder}) }

// openMaincoder opens Maincoder: Llama with norms on query and key heads after RoPE.
func openMaincoder(f *model.File) (model.Model, error) {
	return plain{attention: normsLast}.open(f)
}
