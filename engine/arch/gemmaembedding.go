package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("gemma-embedding", model.Arch{Open: openGemmaEmbedding, Encoder: true}) }

// gemmaEmbedding is Gemma 3 as an embedding model. It may pass the pooled row
// through dense layers.
type gemmaEmbedding struct {
	decoder
	dense []*graph.Weight
}

// openGemmaEmbedding opens EmbeddingGemma: Gemma 3 without causal masking, with
// windows to both sides and two dense layers after the pooling. Source: arXiv
// 2509.20354.
func openGemmaEmbedding(f *model.File) (model.Model, error) {
	m := &gemmaEmbedding{decoder: *newDecoder(f)}
	c := &m.cfg
	windowed, window := windowPattern(f, c, 6, 0)
	h := readHeads(f, c, nil)
	near := newRope(f, f.Rope(h[0].dimK).Plain(f.FloatOr("rope.freq_base_swa", 10000)), h[0].dimK, false)
	m.bindGemma(f, windowed, window, near, func(h heads) int { return h.dimK })
	m.attentions(func(_ int, a *attention) {
		a.headNorms(f)
		a.Bidirectional = true
	})
	width := c.Embd
	for _, n := range []string{"dense_2", "dense_3"} {
		if !f.HasTensor(n + ".weight") {
			continue
		}
		out := f.Rows(n + ".weight")
		m.dense = append(m.dense, f.Matrix(n+".weight", f.IntOr(n+"_feat_in", width), f.IntOr(n+"_feat_out", out)))
		width = out
	}
	return m, nil
}

// Forward records the pass. Rows of hidden states also pass through the dense
// layers.
func (m *gemmaEmbedding) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := m.decoder.Forward(g, in)
	for _, w := range m.dense {
		x = g.Linear(x, w, nil)
	}
	return x
}
