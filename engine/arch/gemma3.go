package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("gemma3", openGemma3) }

// gemma3 alternates windowed layers (own rotary base) with global ones, has
// norms before and after each block and on each query and key head.
// Source: arXiv 2503.19786.
type gemma3 struct {
	base
	eps, softcap       float32
	embd, norm, output *graph.Weight
	layers             []gemma3Layer
}

type gemma3Layer struct {
	attnNorm, attnPost, ffnNorm, ffnPost *graph.Weight
	attn                                 attention
	ffn                                  ffn
}

func openGemma3(f *model.File) (model.Model, error) {
	m := &gemma3{
		base: base{f.Config()}, eps: f.Float("attention.layer_norm_rms_epsilon"),
		softcap: f.FloatOr("final_logit_softcapping", 0),
	}
	c := &m.cfg
	h := readHeads(f, c)
	global := f.Rope(h.dimK)
	local := global
	local.Base, local.Type, local.Factor, local.Ext = f.FloatOr("rope.freq_base_swa", 10000), "", 1, 0
	ropes := map[bool]*rotary{false: newRope(global, h.dimK, false), true: newRope(local, h.dimK, false)}
	m.embd, m.output = f.TokenEmbd(c)
	m.norm = f.Weight("output_norm.weight", c.Embd)
	windowed := windowPattern(f, c.Layers, 6)
	window := f.IntOr("attention.sliding_window", 0)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		local := windowed[i] && window > 0
		l := gemma3Layer{
			attnNorm: f.Weight(blk(i, "attn_norm.weight"), c.Embd),
			attnPost: f.Weight(blk(i, "post_attention_norm.weight"), c.Embd),
			ffnNorm:  f.Weight(blk(i, "ffn_norm.weight"), c.Embd),
			ffnPost:  f.Weight(blk(i, "post_ffw_norm.weight"), c.Embd),
			attn:     bindAttention(f, c, h, i, ropes[local]),
			ffn:      bindFFN(f, c, i, hidden[i], graph.GELU),
		}
		l.attn.bindHeadNorms(f, m.eps)
		if local {
			l.attn.Window = window
		}
		if c.Layers == 62 { // the 27B scales by the width of the embedding
			l.attn.Scale = float32(1 / math.Sqrt(float64(c.Embd/l.attn.Heads)))
		}
		m.layers = append(m.layers, l)
	}
	return m, nil
}

// windowPattern says which layers are windowed: an array in the file, or all
// but every n-th.
func windowPattern(f *model.File, layers, n int) []bool {
	if w, ok := f.Bools("attention.sliding_window_pattern", layers); ok {
		return w
	}
	n = f.IntOr("attention.sliding_window_pattern", n)
	w := make([]bool, layers)
	for i := range w {
		w[i] = n > 0 && i%n < n-1
	}
	return w
}

func (m *gemma3) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, float32(math.Sqrt(float64(m.cfg.Embd))), graph.ByToken)
	for i := range m.layers {
		l := &m.layers[i]
		y := l.attn.forward(g, g.RMSNorm(x, l.attnNorm, m.eps))
		x = g.Add(x, g.RMSNorm(y, l.attnPost, m.eps))
		y = l.ffn.forward(g, g.RMSNorm(x, l.ffnNorm, m.eps))
		x = g.Add(x, g.RMSNorm(y, l.ffnPost, m.eps))
	}
	x = g.RMSNorm(x, m.norm, m.eps)
	return logits(g, in, x, m.output, nil, m.softcap)
}
