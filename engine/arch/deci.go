package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("deci", model.Arch{Open: openDeci}) }

// openDeci opens DeciLM and Nemotron's pruned Llamas: Llama in which a layer's
// attention may be missing or a single matrix, and its feed-forward block may be
// missing. Source: arXiv 2411.19146.
func openDeci(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, true)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		var b block
		if h[i].q > 0 {
			b.mixNorm = rms(f, blk(i, "attn_norm"), c.Embd)
		}
		switch {
		case h[i].kv > 0:
			b.mix = bindAttention(f, c, h[i], i, rope)
		case h[i].q > 0:
			b.mix = &oneMatrix{f.Matrix(blk(i, "attn_output.weight"), c.Embd, c.Embd)}
		}
		if hidden[i] > 0 {
			b.ffnNorm = rms(f, blk(i, "ffn_norm"), c.Embd)
			b.ffn = bindFFN(f, c, i, hidden[i], graph.SiLU)
		}
		m.blocks = append(m.blocks, b)
	}
	return m, nil
}

// oneMatrix replaces a layer's attention by one matrix.
type oneMatrix struct{ w *graph.Weight }

func (m *oneMatrix) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	return g.Linear(x, m.w, nil)
}
