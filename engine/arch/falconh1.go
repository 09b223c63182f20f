package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("falcon-h1", model.Arch{Open: openFalconH1}) }

// openFalconH1 opens Falcon H1: attention and a Mamba 2 layer in parallel in every
// block. Source: arXiv 2507.22448.
func openFalconH1(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: bareNorm(f, blk(i, "ffn_norm"), c.Embd),
			mix:     both{bindAttention(f, c, h[i], i, rope), bindMamba2(f, c, i, f.HasTensor(blk(i, "ssm_norm.weight")))},
			ffn:     bindFFN(f, c, i, hidden[i], graph.SiLU),
		})
	}
	return m, nil
}

// bareNorm is rms for a norm whose name lacks the suffix ".weight" in most files.
func bareNorm(f *model.File, name string, n int) norm {
	if !f.HasTensor(name) {
		return rms(f, name, n)
	}
	return norm{kind: graph.RMS, w: f.Weight(name, n), eps: f.Epsilon("attention.layer_norm_rms_epsilon")}
}

// both adds the results of two halves.
type both [2]half

func (b both) forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value {
	return g.Add(b[0].forward(g, x, in), b[1].forward(g, x, in))
}
