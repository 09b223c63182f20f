package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("command-r", model.Arch{Chat: "Command R", Open: openCommandR}) }

// openCommandR opens Command-R and R+: attention and feed-forward in parallel after
// one layer norm. The largest model also has norms on query and key heads.
func openCommandR(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, true)
	m.bindCohere(f, h, func(i int) *attention {
		a := bindAttention(f, c, h[i], i, rope)
		if c.Layers >= 64 || f.HasTensor(blk(i, "attn_q_norm.weight")) || f.HasTensor(blk(i, "attn_k_norm.weight")) {
			a.qNorm = eachHead(f, blk(i, "attn_q_norm.weight"), a.DimK, a.Heads)
			a.kNorm = eachHead(f, blk(i, "attn_k_norm.weight"), a.DimK, a.KVHeads)
		}
		return a
	})
	return m, nil
}

// bindCohere binds the blocks. bind returns the attention of a layer.
func (m *decoder) bindCohere(f *model.File, h []heads, bind func(i int) *attention) {
	c := &m.cfg
	m.norm = layerNorm(f, "output_norm", c.Embd)
	m.logits = f.Factor("logit_scale", 0)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range h {
		m.blocks = append(m.blocks, block{
			mixNorm:  layerNorm(f, blk(i, "attn_norm"), c.Embd),
			mix:      bind(i),
			ffn:      bindFFN(f, c, i, hidden[i], graph.SiLU),
			parallel: true,
		})
	}
}

// eachHead is a layer norm with separate weights for each head.
func eachHead(f *model.File, name string, dim, n int) norm {
	return norm{kind: graph.Layer, w: f.Weight(name, dim, n), eps: f.Epsilon("attention.layer_norm_epsilon"), group: dim}
}
