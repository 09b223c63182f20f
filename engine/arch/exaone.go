package arch

import "godwit/engine/model"

func init() { model.Register("exaone", model.Arch{Open: openEXAONE}) }

// openEXAONE opens EXAONE 3: Llama with RoPE over the halves of a head.
// Source: arXiv 2408.03541.
func openEXAONE(f *model.File) (model.Model, error) { return plain{halves: true}.open(f) }
