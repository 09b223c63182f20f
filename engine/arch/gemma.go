package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("gemma", model.Arch{Chat: "Gemma", Open: openGemma}) }

// openGemma opens Gemma 1: Llama with RoPE over the halves of a head, GELU, and an
// embedding scaled by the root of its width. Source: arXiv 2403.08295.
func openGemma(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.scale = rootOf(c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	m.norm = rms(f, "output_norm", c.Embd)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix:     bindAttention(f, c, h[i], i, rope),
			ffn:     bindFFN(f, c, i, hidden[i], graph.GELU),
		})
	}
	return m, nil
}

func rootOf(n int) float32 { return float32(math.Sqrt(float64(n))) }

// bindGemma binds blocks with norms before and after each half. Windowed layers
// have a RoPE of their own, and 1/√scaleBy scales the scores.
func (m *decoder) bindGemma(f *model.File, windowed []bool, window int, near *rotary, scaleBy func(h heads) int) {
	c := &m.cfg
	m.scale = rootOf(c.Embd)
	h := readHeads(f, c, nil)
	far := bindRope(f, h[0].dimK, false)
	m.norm = rms(f, "output_norm", c.Embd)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		rope := far
		if windowed[i] {
			rope = near
		}
		a := bindAttention(f, c, h[i], i, rope)
		a.Scale = 1 / rootOf(scaleBy(h[i]))
		if windowed[i] {
			a.Window = window
		}
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			mixPost: rms(f, blk(i, "post_attention_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			ffnPost: rms(f, blk(i, "post_ffw_norm"), c.Embd),
			mix:     a,
			ffn:     bindFFN(f, c, i, hidden[i], graph.GELU),
		})
	}
}

// scoreWidth returns the width whose root divides the scores. It is the head size,
// except in the 27B model, where it is the embedding width per head. Only the layer
// count identifies that model.
func scoreWidth(c *model.Config, layers27B int) func(h heads) int {
	return func(h heads) int {
		if c.Layers == layers27B && h.q > 0 {
			return max(c.Embd/h.q, 1)
		}
		return h.dimK
	}
}
