package arch

import "godwit/engine/model"

func init() { model.Register("mamba2", model.Arch{Open: openMamba2}) }

// openMamba2 opens Mamba 2, which consists of state space layers only. Source:
// arXiv 2405.21060.
func openMamba2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), mix: bindMamba2(f, c, i, true)})
	}
	return m, nil
}
