package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("bloom", model.Arch{Open: openBloom})
	model.Register("mpt", model.Arch{Open: openMPT})
	model.Register("jais", model.Arch{Open: openJais})
	model.Register("refact", model.Arch{Open: openRefact})
	model.Register("baichuan", model.Arch{Open: openBaichuan})
}

// usualALiBi is the largest bias of models whose files do not store one.
const usualALiBi = 8

// alibi changes a layer's attention: each head gets an ALiBi slope instead of RoPE.
func alibi(by float32) func(f *model.File, c *model.Config, a *attention) {
	return func(_ *model.File, _ *model.Config, a *attention) { a.Bias.ALiBi = by }
}

// openBloom opens BLOOM: GPT-2's blocks with ALiBi instead of position embeddings,
// and a norm after the embedding. Source: arXiv 2211.05100.
func openBloom(f *model.File) (model.Model, error) {
	m := plain{noRope: true, biased: true, feed: biasedUngated(graph.GELU), attention: alibi(usualALiBi)}.bind(f)
	m.embdNorm = biased(f, "token_embd_norm", m.cfg.Embd)
	return m, nil
}

// openMPT opens MPT: layer norms, a GELU without a gate and ALiBi. Some files also
// have position embeddings, biases, norms of queries and keys, or a bound on
// queries, keys and values.
func openMPT(f *model.File) (model.Model, error) {
	by := f.Factor("attention.max_alibi_bias", 0)
	m := plain{
		noRope: true, layerNorm: true,
		attention: func(f *model.File, c *model.Config, a *attention) {
			a.Bias.ALiBi = by
			a.clamp = f.Factor("attention.clamp_kqv", 0)
			if f.HasTensor(blk(a.Layer, "attn_q_norm.weight")) {
				a.qNorm = layerNorm(f, blk(a.Layer, "attn_q_norm"), a.Heads*a.DimK)
				a.kNorm = layerNorm(f, blk(a.Layer, "attn_k_norm"), a.KVHeads*a.DimK)
			}
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			m := bindPlainFFN(f, c, layer, hidden, graph.GELU)
			m.scales = reciprocals(f, blk(layer, "ffn.scales"), hidden)
			return m
		},
	}.bind(f)
	m.positions = f.Optional("position_embd.weight", m.cfg.Embd, m.cfg.Context)
	return m, nil
}

// reciprocals returns a vector of divisors as factors, or nil if the file does not
// have it.
func reciprocals(f *model.File, name string, n int) *graph.Weight {
	v := factors(f, name, n)
	if v == nil {
		return nil
	}
	for i, x := range v {
		v[i] = 1 / x
	}
	return vector(name, v)
}

// openJais opens Jais 1: layer norms, biases everywhere, a SiLU gate, ALiBi, and
// scores divided by the head size instead of its square root. Source: arXiv
// 2308.16149.
func openJais(f *model.File) (model.Model, error) {
	by := f.Factor("attention.max_alibi_bias", 0)
	return plain{
		noRope: true, biased: true, ownOutput: true,
		attention: func(f *model.File, c *model.Config, a *attention) {
			a.Bias.ALiBi = by
			a.Scale = 1 / float32(a.DimK)
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			m := bindBiasedFFN(f, c, layer, hidden, graph.SiLU)
			m.gate = f.Matrix(blk(layer, "ffn_gate.weight"), c.Embd, hidden)
			m.bgate = f.Weight(blk(layer, "ffn_gate.bias"), hidden)
			return m
		},
	}.open(f)
}

// openRefact opens Refact: Llama's blocks with ALiBi instead of RoPE.
func openRefact(f *model.File) (model.Model, error) {
	return plain{noRope: true, attention: alibi(usualALiBi)}.open(f)
}

// openBaichuan opens Baichuan 1 and 2: Llama's blocks. Files do not name the
// position encoding. The 7B model with 32 layers uses RoPE, the 13B model with 40
// layers uses ALiBi, and llama.cpp uses none for any other number of layers.
// Source: arXiv 2309.10305.
func openBaichuan(f *model.File) (model.Model, error) {
	p := plain{ownOutput: true}
	switch f.Layers() {
	case 32:
	case 40:
		p.noRope, p.attention = true, alibi(usualALiBi)
	default:
		p.noRope = true
	}
	return p.open(f)
}
