package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("qwen35", model.Arch{Chat: "ChatML", Open: openQwen35, Ahead: true})
	model.Register("qwen35moe", model.Arch{Chat: "ChatML", Open: openQwen35, Ahead: true})
}

// openQwen35 opens Qwen 3.5, dense or with experts: three layers of gated linear
// attention for each layer of full attention with a gate on each head's result.
func openQwen35(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	sections := f.Sections()
	if sections == nil {
		f.Fail("rope.dimension_sections", "missing")
	}
	m.bindHybrid(f, sections, func(i int) half {
		d := bindDeltaNet(f, c, i)
		d.bindProjections(f, c)
		d.beta = f.Matrix(blk(i, "ssm_beta.weight"), c.Embd, d.op.ValueHeads)
		d.alpha = f.Matrix(blk(i, "ssm_alpha.weight"), c.Embd, d.op.ValueHeads)
		return d
	}, func(i int) half {
		if c.Arch == "qwen35moe" {
			return bindGatedShare(f, c, i, true)
		}
		return bindFFN(f, c, i, f.PerLayer("feed_forward_length", c.Layers, -1)[i], graph.SiLU)
	})
	return m, nil
}

// bindHybrid binds blocks with linear attention or gated full attention. linear and
// ffn bind the halves that differ between architectures.
func (m *decoder) bindHybrid(f *model.File, sections []int, linear, ffn func(i int) half) {
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	r := f.Rope(h[0].dimK)
	r.Hold(sections, true)
	rope := newRope(f, r, h[0].dimK, false)
	recurrent := recurrentLayers(f, c)
	for i := range c.Layers {
		b := block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "post_attention_norm"), c.Embd),
		}
		if recurrent[i] {
			b.mix = linear(i)
		} else {
			a := newAttention(f, c, h[i], i, rope)
			a.gated = true
			a.bind(f, c)
			a.headNorms(f)
			b.mix = a
		}
		b.ffn = ffn(i)
		m.blocks = append(m.blocks, b)
	}
}
