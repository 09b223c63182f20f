package arch

import "godwit/engine/model"

func init() { model.Register("openelm", model.Arch{Open: openOpenELM}) }

// openOpenELM opens OpenELM: head counts and hidden sizes that grow with the layer,
// and norms on query and key heads. Source: arXiv 2404.14619.
func openOpenELM(f *model.File) (model.Model, error) {
	return plain{halves: true, attention: headNorms}.open(f)
}
