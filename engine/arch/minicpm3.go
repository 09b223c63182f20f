package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("minicpm3", model.Arch{Open: openMiniCPM3}) }

// openMiniCPM3 opens MiniCPM 3: latent attention that caches the keys and values of
// every head, RoPE frequencies that depend on the context length, and constant
// factors on the embedding, the residual stream and the logits. Source: arXiv
// 2404.06395.
func openMiniCPM3(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	s := readLatent(f, c)
	f.Int("attention.q_lora_rank")
	s.rope = bindRope(f, s.plain+s.rotated, false)
	s.scale = float32(1 / math.Sqrt(float64(s.plain+s.rotated)))
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix:     bindLatent(f, c, s, i),
			ffn:     bindFFN(f, c, i, hidden[i], graph.SiLU),
		})
	}
	m.scale = 12
	m.residuals = float32(1.4 / math.Sqrt(float64(c.Layers)))
	m.logits = 256 / float32(c.Embd)
	return m, nil
}
