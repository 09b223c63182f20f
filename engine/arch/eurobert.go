package arch

import "godwit/engine/model"

func init() {
	model.Register("eurobert", model.Arch{Open: openEuroBERT, Unread: classifier, Encoder: true})
	model.Register("llama-embed", model.Arch{Open: openLlamaEmbed, Unread: classifier, Encoder: true})
}

// openEuroBERT opens EuroBERT: an embedding model with Llama's blocks and RoPE over the
// halves of a head. Source: arXiv 2503.05500.
func openEuroBERT(f *model.File) (model.Model, error) {
	return plain{halves: true}.open(f)
}

// openLlamaEmbed opens Llama Embed Nemotron: Llama with one pooled row per text.
// The file says whether attention is causal.
func openLlamaEmbed(f *model.File) (model.Model, error) {
	return plain{attention: func(f *model.File, c *model.Config, a *attention) {
		a.Bidirectional = !f.BoolOr("attention.causal", true)
	}}.open(f)
}
