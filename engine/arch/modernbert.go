package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("modern-bert", model.Arch{Open: openModernBERT, Unread: classifier, Encoder: true, Ranks: true})
}

// openModernBERT opens ModernBERT: an embedding model with norms before each half, except
// before the first, a gate, RoPE, and windows to both sides. Source: arXiv 2412.13663.
func openModernBERT(f *model.File) (model.Model, error) {
	m := &bert{decoder: decoder{cfg: f.Config()}, before: true}
	c := &m.cfg
	m.embd = f.Weight("token_embd.weight", c.Embd, c.Vocab)
	m.embdNorm = layerNorm(f, "token_embd_norm", c.Embd)
	m.norm = layerNorm(f, "output_norm", c.Embd)
	windowed, window := firstOfN(3)(f, c)
	h := readHeads(f, c, nil)
	far := bindRope(f, h[0].dimK, false)
	near := newRope(f, f.Rope(h[0].dimK).Plain(f.FloatOr("rope.freq_base_swa", 10000)), h[0].dimK, false)
	act := graph.GELU
	switch name := f.StringOr("hidden_activation", "gelu"); name {
	case "silu", "swiglu":
		act = graph.SiLU
	case "gelu", "geglu":
	default:
		f.Fail("hidden_activation", "%.80q; known: gelu, silu", name)
	}
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		rope := far
		if windowed[i] {
			rope = near
		}
		a := bindAttention(f, c, h[i], i, rope)
		a.Bidirectional = true
		if windowed[i] {
			a.Window = window
		}
		b := block{mix: a, ffnNorm: layerNorm(f, blk(i, "ffn_norm"), c.Embd), ffn: bindMergedFFN(f, c, i, hidden[i], act)}
		if i > 0 || f.HasTensor(blk(i, "attn_norm.weight")) {
			b.mixNorm = layerNorm(f, blk(i, "attn_norm"), c.Embd)
		}
		m.blocks = append(m.blocks, b)
	}
	if c.Rank {
		m.cls = bindClassifier(f, c)
		m.cls.f = graph.GELU
		if f.HasTensor("cls.norm.weight") {
			m.cls.norm = layerNorm(f, "cls.norm", c.Embd)
		}
	}
	return m, nil
}
