package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("deepseek", model.Arch{Chat: "DeepSeek", Open: openDeepSeek})
	model.Register("deepseek2-ocr", model.Arch{Open: openDeepSeekOCR})
}

// lead returns the feed-forward half that bindLead binds.
func lead(gating graph.Gating) func(f *model.File, c *model.Config, layer, hidden int) half {
	return func(f *model.File, c *model.Config, layer, _ int) half { return bindLead(f, c, layer, gating) }
}

// openDeepSeek opens DeepSeek MoE 16B: Llama with experts and a shared expert in
// all blocks except the first. Source: arXiv 2401.06066.
func openDeepSeek(f *model.File) (model.Model, error) {
	return plain{feed: lead(graph.Softmax)}.open(f)
}

// openDeepSeekOCR opens the text part of DeepSeek-OCR: DeepSeek MoE with RoPE over
// the halves of a head. Source: arXiv 2510.18234.
func openDeepSeekOCR(f *model.File) (model.Model, error) {
	return plain{halves: true, feed: lead(graph.Softmax)}.open(f)
}
