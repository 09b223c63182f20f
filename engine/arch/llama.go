package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("llama", openLlama) }

// llama is Llama 1 to 3 and Mistral: pre-norm blocks with rotary grouped
// attention and a SiLU-gated feed-forward. Source: arXiv 2302.13971, 2310.06825.
type llama struct {
	base
	eps                float32
	embd, norm, output *graph.Weight
	layers             []llamaLayer
}

type llamaLayer struct {
	attnNorm, ffnNorm *graph.Weight
	attn              attention
	ffn               ffn
}

func openLlama(f *model.File) (model.Model, error) {
	m := &llama{base: base{f.Config()}, eps: f.Float("attention.layer_norm_rms_epsilon")}
	c := &m.cfg
	h := readHeads(f, c)
	r := f.Rope(h.dimK)
	r.Factors = f.Values("rope_freqs.weight", r.Dims/2)
	rope := newRope(r, h.dimK, true)
	m.embd, m.output = f.TokenEmbd(c)
	m.norm = f.Weight("output_norm.weight", c.Embd)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.layers = append(m.layers, llamaLayer{
			attnNorm: f.Weight(blk(i, "attn_norm.weight"), c.Embd),
			ffnNorm:  f.Weight(blk(i, "ffn_norm.weight"), c.Embd),
			attn:     bindAttention(f, c, h, i, rope),
			ffn:      bindFFN(f, c, i, hidden[i], graph.SiLU),
		})
	}
	return m, nil
}

func (m *llama) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, 1, graph.ByToken)
	for i := range m.layers {
		l := &m.layers[i]
		x = g.Add(x, l.attn.forward(g, g.RMSNorm(x, l.attnNorm, m.eps)))
		x = g.Add(x, l.ffn.forward(g, g.RMSNorm(x, l.ffnNorm, m.eps)))
	}
	x = g.RMSNorm(x, m.norm, m.eps)
	return logits(g, in, x, m.output, nil, 0)
}
