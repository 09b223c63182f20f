package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("qwen2", openQwen)
	model.Register("qwen3", openQwen)
}

// qwen is Qwen 2, 2.5 and 3: the Llama block with half-split rotary pairs;
// Qwen 2 has biases on q, k and v, Qwen 3 a norm on each query and key head.
// Sources: arXiv 2407.10671, 2505.09388.
type qwen struct{ llama }

func openQwen(f *model.File) (model.Model, error) {
	m := &qwen{llama{base: base{f.Config()}, eps: f.Float("attention.layer_norm_rms_epsilon")}}
	c := &m.cfg
	h := readHeads(f, c)
	rope := newRope(f.Rope(h.dimK), h.dimK, false)
	m.embd, m.output = f.TokenEmbd(c)
	m.norm = f.Weight("output_norm.weight", c.Embd)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		l := llamaLayer{
			attnNorm: f.Weight(blk(i, "attn_norm.weight"), c.Embd),
			ffnNorm:  f.Weight(blk(i, "ffn_norm.weight"), c.Embd),
			attn:     bindAttention(f, c, h, i, rope),
			ffn:      bindFFN(f, c, i, hidden[i], graph.SiLU),
		}
		if c.Arch == "qwen3" {
			l.attn.bindHeadNorms(f, m.eps)
		}
		m.layers = append(m.layers, l)
	}
	return m, nil
}
