package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("glm4", model.Arch{Chat: "GLM 4", Open: openGLM4}) }

// openGLM4 opens GLM-4-0414: norms before and after each half of a block, gate and
// up in one matrix, and RoPE on half of each head.
func openGLM4(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindGLM(f, func(i int, b *block) {
		b.mixPost = rms(f, blk(i, "post_attention_norm"), m.cfg.Embd)
		b.ffnPost = rms(f, blk(i, "post_ffw_norm"), m.cfg.Embd)
	})
	return m, nil
}

// bindGLM binds the blocks. rest binds what only some models have.
func (m *decoder) bindGLM(f *model.File, rest func(i int, b *block)) {
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := sectionedRope(f, h[0].dimK, true)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		b := block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix:     bindAttention(f, c, h[i], i, rope),
			ffn:     bindMergedFFN(f, c, i, hidden[i], graph.SiLU),
		}
		rest(i, &b)
		m.blocks = append(m.blocks, b)
	}
}

// sectionedRope returns GLM's rotation. Files of its vision models, which have
// sections, pair the halves of a head.
func sectionedRope(f *model.File, headDim int, adjacent bool) *rotary {
	sections := f.Sections()
	if sections == nil {
		return bindRope(f, headDim, adjacent)
	}
	r := f.Rope(headDim)
	r.Hold(sections, false)
	return newRope(f, r, headDim, false)
}
