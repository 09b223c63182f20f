package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("eurobert", model.Arch{Open: openEuroBERT, Unread: classifier})
	model.Register("llama-embed", model.Arch{Open: openLlamaEmbed, Unread: classifier})
}

// openEuroBERT opens EuroBERT: an embedding model with Llama's blocks and RoPE over the
// halves of a head. Source: arXiv 2503.05500.
func openEuroBERT(f *model.File) (model.Model, error) {
	return plain{halves: true, embedding: true}.open(f)
}

// openLlamaEmbed opens Llama Embed Nemotron: an embedding model with Llama's blocks,
// which normalise query and key heads after RoPE without weights.
func openLlamaEmbed(f *model.File) (model.Model, error) {
	return plain{embedding: true, attention: bareNormsLast}.open(f)
}

// bareNormsLast is an attention change: norms without weights on each query and key
// head, after RoPE.
func bareNormsLast(f *model.File, _ *model.Config, a *attention) {
	a.qNorm = norm{kind: graph.RMS, eps: f.Epsilon("attention.layer_norm_rms_epsilon"), group: a.DimK}
	a.kNorm, a.normsLast = a.qNorm, true
}
