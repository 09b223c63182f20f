package arch

import "godwit/engine/model"

func init() { model.Register("plamo", model.Arch{Open: openPLaMo}) }

// openPLaMo opens PLaMo 13B: attention and feed-forward in parallel after one norm.
func openPLaMo(f *model.File) (model.Model, error) {
	return plain{halves: true, parallel: true, ownOutput: true}.open(f)
}
