package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("jina-bert-v2", model.Arch{Open: openJinaBERTv2, Unread: classifier, Encoder: true, Ranks: true})
}

// openJinaBERTv2 opens Jina Embeddings 2: BERT with ALiBi instead of position
// embeddings and a GELU gate. The code model also has norms of queries and keys and
// a second norm after attention. Source: arXiv 2310.19923.
func openJinaBERTv2(f *model.File) (model.Model, error) {
	m := newBERT(f)
	c := &m.cfg
	h := readHeads(f, c, nil)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		a := bindAttention(f, c, h[i], i, nil)
		a.Bias.ALiBi = usualALiBi
		if f.HasTensor(blk(i, "attn_q_norm.weight")) {
			a.qNorm = layerNorm(f, blk(i, "attn_q_norm"), a.Heads*a.DimK)
		}
		if f.HasTensor(blk(i, "attn_k_norm.weight")) {
			a.kNorm = layerNorm(f, blk(i, "attn_k_norm"), a.KVHeads*a.DimK)
		}
		b := block{
			mix:     a,
			mixPost: biased(f, blk(i, "attn_output_norm"), c.Embd),
			ffnPost: biased(f, blk(i, "layer_output_norm"), c.Embd),
		}
		if f.HasTensor(blk(i, "attn_norm_2.weight")) {
			b.sideNorm = layerNorm(f, blk(i, "attn_norm_2"), c.Embd)
		}
		if f.HasTensor(blk(i, "ffn_gate.weight")) {
			b.ffn = bindFFN(f, c, i, hidden[i], graph.GELU)
		} else {
			b.ffn = bindMergedFFN(f, c, i, hidden[i], graph.GELU)
		}
		m.blocks = append(m.blocks, b)
	}
	return m, nil
}
