package arch

import "godwit/engine/model"

func init() {
	model.Register("internlm2", model.Arch{Open: openInternLM2})
	model.Register("xverse", model.Arch{Open: openXVERSE})
}

// openInternLM2 opens InternLM 2 and 3: Llama under another architecture name.
// Source: arXiv 2403.17297.
func openInternLM2(f *model.File) (model.Model, error) { return plain{ownOutput: true}.open(f) }

// openXVERSE opens XVERSE: Llama under another architecture name.
func openXVERSE(f *model.File) (model.Model, error) { return plain{ownOutput: true}.open(f) }
