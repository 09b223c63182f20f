package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("arctic", model.Arch{Open: openArctic}) }

// openArctic opens Snowflake Arctic: Llama with dense blocks as wide as the
// residual stream, and parallel to them a mixture of experts that reads the block's
// input.
func openArctic(f *model.File) (model.Model, error) {
	m := plain{
		feed: func(f *model.File, c *model.Config, layer, _ int) half {
			return bindFFN(f, c, layer, c.Embd, graph.SiLU)
		},
	}.bind(f)
	hidden := f.PerLayer("feed_forward_length", m.cfg.Layers, -1)
	for i := range m.blocks {
		m.blocks[i].sideNorm = rms(f, blk(i, "ffn_norm_exps"), m.cfg.Embd)
		m.blocks[i].side = mixture(graph.Softmax, true)(f, &m.cfg, i, hidden[i])
	}
	return m, nil
}
