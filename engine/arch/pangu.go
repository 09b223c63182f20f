package arch

import "godwit/engine/model"

func init() { model.Register("pangu-embedded", model.Arch{Open: openPangu}) }

// openPangu opens Pangu Embedded: Llama with RoPE over the halves of a head and a bias
// on the attention output. Source: arXiv 2505.22375.
func openPangu(f *model.File) (model.Model, error) {
	return plain{
		halves: true,
		attention: func(f *model.File, c *model.Config, a *attention) {
			a.bo = f.Weight(blk(a.Layer, "attn_output.bias"), c.Embd)
		},
	}.open(f)
}
