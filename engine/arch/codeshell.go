package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("codeshell", model.Arch{Open: openCodeShell}) }

// openCodeShell opens CodeShell: GPT-2's blocks with RoPE and grouped heads.
// Source: arXiv 2403.15747.
func openCodeShell(f *model.File) (model.Model, error) {
	return plain{halves: true, biased: true, feed: biasedUngated(graph.GELU)}.open(f)
}
