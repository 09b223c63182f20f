package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("bitnet", model.Arch{Open: openBitNet}) }

// openBitNet opens BitNet b1.58: Llama with a norm before each half's output matrix.
// Source: arXiv 2402.17764.
func openBitNet(f *model.File) (model.Model, error) {
	return plain{
		halves: true,
		attention: func(f *model.File, _ *model.Config, a *attention) {
			a.outNorm = rms(f, blk(a.Layer, "attn_sub_norm"), a.Heads*a.DimV)
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			m := bindFFN(f, c, layer, hidden, graph.SiLU)
			m.downNorm = rms(f, blk(layer, "ffn_sub_norm"), hidden)
			return m
		},
	}.open(f)
}
