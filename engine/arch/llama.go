package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("llama", model.Arch{Open: openLlama}) }

// openLlama opens Llama 1 to 3, Mistral and Mixtral: norms before each half,
// grouped attention with RoPE, and a feed-forward block or experts gated by SiLU.
// Sources: arXiv 2302.13971, 2310.06825, 2401.04088.
func openLlama(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindLlama(f, true)
	return m, nil
}

// bindLlama binds the blocks of the Llama pattern. adjacent selects how RoPE pairs
// the columns of a head in files of the architecture.
func (m *decoder) bindLlama(f *model.File, adjacent bool) {
	c := &m.cfg
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, adjacent)
	m.norm = rms(f, "output_norm", c.Embd)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix:     bindAttention(f, c, h[i], i, rope),
			ffn:     bindLlamaFeed(f, c, i, hidden[i]),
		})
	}
}

// bindLlamaFeed binds a gated block, or experts with softmax weights that sum to 1
// and a shared expert if the file has one.
func bindLlamaFeed(f *model.File, c *model.Config, layer, n int) half {
	if f.IntOr("expert_count", 0) == 0 {
		return bindFFN(f, c, layer, n, graph.SiLU)
	}
	e := bindExperts(f, c, layer, n, readRouting(f, c, layer, graph.Softmax, true), graph.SiLU)
	if shared := f.IntOr("expert_shared_feed_forward_length", 0); shared > 0 {
		e.bindShared(f, c, layer, shared)
	}
	return e
}

// attentions calls do for every layer with ordinary attention.
func (m *decoder) attentions(do func(i int, a *attention)) {
	for i := range m.blocks {
		if a, ok := m.blocks[i].mix.(*attention); ok {
			do(i, a)
		}
	}
}
