package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("neo-bert", model.Arch{Open: openNeoBERT, Unread: classifier, Encoder: true})
}

// openNeoBERT opens NeoBERT: an embedding model with Llama's blocks, in which gate
// and up are one matrix. Source: arXiv 2502.19587.
func openNeoBERT(f *model.File) (model.Model, error) {
	m := &decoder{cfg: f.Config()}
	c := &m.cfg
	m.embd = f.Weight("token_embd.weight", c.Embd, c.Vocab)
	m.norm = rms(f, "enc.output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, true)
	p := plain{
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			return bindMergedFFN(f, c, layer, hidden, graph.SiLU)
		},
	}
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, p.block(f, c, h[i], i, hidden[i], rope))
	}
	return m, nil
}
