package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("plm", model.Arch{Open: openPLM}) }

// openPLM opens PLM: latent attention that caches the keys and values of every head,
// and a squared ReLU without a gate. Source: arXiv 2503.12167.
func openPLM(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	s := readLatent(f, c)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix:     bindLatent(f, c, s, i),
			ffn:     bindPlainFFN(f, c, i, hidden[i], graph.ReLU2),
		})
	}
	return m, nil
}
