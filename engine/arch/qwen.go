package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("qwen", model.Arch{Chat: "ChatML", Open: openQwen}) }

// openQwen opens Qwen 1: Llama with RoPE over the halves of a head and one biased
// matrix for q, k and v. Files state twice the hidden size. Source: arXiv
// 2309.16609.
func openQwen(f *model.File) (model.Model, error) {
	return plain{
		halves: true, ownOutput: true,
		attention: func(f *model.File, _ *model.Config, a *attention) {
			a.qkv = f.Matrix(blk(a.Layer, "attn_qkv.weight"), a.o.Rows(), a.Heads*a.DimK+a.KVHeads*(a.DimK+a.DimV))
			a.bqkv = f.Weight(blk(a.Layer, "attn_qkv.bias"), a.qkv.Rows())
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			return bindFFN(f, c, layer, hidden/2, graph.SiLU)
		},
	}.open(f)
}
