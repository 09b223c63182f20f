package arch

import "godwit/engine/model"

func init() {
	model.Register("cogvlm", model.Arch{
		Open: openCogVLM,
		// The experts of image tokens.
		Unread: []string{"blk.*.vis_*"},
	})
}

// openCogVLM opens the text part of CogVLM: Llama with RoPE over the halves of a head.
// Source: arXiv 2311.03079.
func openCogVLM(f *model.File) (model.Model, error) {
	return plain{halves: true, ownOutput: true}.open(f)
}
