package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("minimax-01", model.Arch{Open: openMiniMax01}) }

// minimax01 adds the result of a half to the half's normalised input times a
// constant.
type minimax01 struct{ decoder }

// openMiniMax01 opens MiniMax-Text-01: lightning attention, softmax attention in
// every eighth layer, and experts. Source: arXiv 2501.08313.
func openMiniMax01(f *model.File) (model.Model, error) {
	m := &minimax01{*newDecoder(f)}
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	m.residuals = f.Float("residual_scale")
	recurrent, ok := f.Bools("attention.recurrent_layers", c.Layers)
	if !ok {
		n := max(f.IntOr("full_attention_interval", 8), 1)
		recurrent = make([]bool, c.Layers)
		for i := range recurrent {
			recurrent[i] = (i+1)%n != 0
		}
	}
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		e := bindExperts(f, c, i, hidden[i], readRouting(f, c, i, graph.Softmax, true), graph.SiLU)
		e.routing.Gating = graph.Softmax
		e.choiceBias(f, i)
		b := block{mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd), ffn: e}
		if recurrent[i] {
			b.mix = bindLightning(f, c, i, h[i])
		} else {
			b.mix = bindAttention(f, c, h[i], i, rope)
		}
		m.blocks = append(m.blocks, b)
	}
	return m, nil
}

// Forward records the pass.
func (m *minimax01) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, 1, graph.ByToken)
	for i := range m.blocks {
		g.Layer()
		b := &m.blocks[i]
		n := b.mixNorm.apply(g, x)
		y := b.mix.forward(g, n, in)
		if i == len(m.blocks)-1 && !pooled(&m.cfg, in) {
			n, y = g.Gather(n), g.Gather(y)
		}
		n = b.ffnNorm.apply(g, g.Add(y, g.Scale(n, m.residuals)))
		x = g.Add(b.ffn.forward(g, n, in), g.Scale(n, m.residuals))
	}
	return m.head(g, in, x)
}

// lightning is linear attention whose state has its own decay in each head. Source:
// arXiv 2401.04658.
type lightning struct {
	layer          int
	op             graph.DeltaNet
	qkv, gate, out *graph.Weight
	decay          *graph.Weight // logarithms of the decays
	norm           norm
}

func bindLightning(f *model.File, c *model.Config, layer int, h heads) *lightning {
	if h.dimK != h.dimV {
		f.Fail("attention.value_length", "%d, the keys of layer %d have %d columns", h.dimV, layer, h.dimK)
	}
	if c.Embedding {
		f.Fail("attention.causal", "false, and layer %d is recurrent", layer)
	}
	n := h.q * h.dimK
	m := &lightning{
		layer: layer,
		op:    graph.DeltaNet{KeyHeads: h.q, ValueHeads: h.q, KeyDim: h.dimK, ValueDim: h.dimK, Scale: 1, Plain: true},
		qkv:   f.Matrix(blk(layer, "attn_qkv.weight"), c.Embd, 3*n),
		gate:  f.Matrix(blk(layer, "attn_gate.weight"), c.Embd, n),
		norm:  rms(f, blk(layer, "attn_norm_2"), n),
		out:   f.Matrix(blk(layer, "attn_output.weight"), n, c.Embd),
	}
	slope := math.Exp2(-math.Exp2(3 - math.Log2(float64(h.q))))
	share := 1 - float64(layer)/float64(max(c.Layers-1, 1)) + 1e-5
	v := make([]float32, h.q)
	for i := range v {
		v[i] = float32(-math.Pow(slope, float64(i+1)) * share)
	}
	m.decay = vector("decay", v)
	return m
}

func (m *lightning) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	dim, n := m.op.KeyDim, m.op.KeyHeads
	all := g.Act(g.Linear(x, m.qkv, nil), graph.SiLU)
	part := func(i int) graph.Value { return g.Slice(all, 3*dim, i*dim, dim) }
	zero := g.Scale(g.Slice(all, 0, 0, n), 0)
	y := g.DeltaNet(part(0), part(1), part(2), g.Affine(zero, nil, m.decay), shifted(g, zero, 1), m.layer, m.op)
	y = g.Mul(m.norm.apply(g, y), g.Act(g.Linear(x, m.gate, nil), graph.Sigmoid))
	return g.Linear(y, m.out, nil)
}
