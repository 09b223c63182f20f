package arch

import (
	"encoding/binary"
	"math"

	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/model"
)

// plain describes an architecture of ordinary blocks: a norm, grouped attention, a
// norm and a feed-forward block with a residual stream. The zero value is Llama:
// RMS norms, RoPE over adjacent columns, a SiLU gate.
type plain struct {
	halves    bool   // RoPE pairs the halves of a head
	noRope    bool   // no RoPE
	normless  bool   // the file has no output norm; norms of the blocks are unaffected
	layerNorm bool   // norms subtract the mean; their biases are optional
	biased    bool   // layer norms and matrices have required biases
	parallel  bool   // attention and feed-forward read the same block input
	ownOutput bool   // never shares the output matrix with the embedding
	ffnNorm   string // name of the norm before the feed-forward block; "" means ffn_norm

	windows   func(f *model.File, c *model.Config) (windowed []bool, window int)     // nil for none
	rope      func(f *model.File, headDim int) *rotary                               // nil for the rotation in the file
	near      func(f *model.File, headDim int, far *rotary) *rotary                  // RoPE of windowed layers; nil for the same as in the others
	farless   bool                                                                   // if there are windowed layers, the others have no RoPE
	attention func(f *model.File, c *model.Config, a *attention)                     // changes the attention of a layer
	feed      func(f *model.File, c *model.Config, layer, hidden int) half           // nil for a SiLU gate
	norms     func(f *model.File, c *model.Config, layer int, b *block) (bound bool) // binds the norms of a block; nil, or returning false, for the usual ones
}

// open binds a model with such blocks.
func (p plain) open(f *model.File) (model.Model, error) {
	return p.bind(f), nil
}

func (p plain) bind(f *model.File) *decoder {
	m := newDecoder(f)
	if p.ownOutput {
		m.ownOutput(f)
	}
	c := &m.cfg
	if !p.normless {
		m.norm = p.norm(f, "output_norm", c.Embd)
	}
	windowed, window := make([]bool, c.Layers), 0
	if p.windows != nil {
		windowed, window = p.windows(f, c)
	}
	h := readHeads(f, c, windowed)
	far, near := p.ropes(f, h[0].dimK, window)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		rope := far
		if windowed[i] {
			rope = near
		}
		b := p.block(f, c, h[i], i, hidden[i], rope)
		if windowed[i] {
			b.mix.(*attention).Window = window
		}
		m.blocks = append(m.blocks, b)
	}
	return m
}

// ropes returns the rotations of layers without a window and with one.
func (p plain) ropes(f *model.File, headDim, window int) (far, near *rotary) {
	if p.noRope {
		return nil, nil
	}
	if p.rope != nil {
		far = p.rope(f, headDim)
	} else {
		far = bindRope(f, headDim, !p.halves)
	}
	near = far
	if p.near != nil {
		near = p.near(f, headDim, far)
	}
	if p.farless && window > 0 {
		far = nil
	}
	return far, near
}

func (p plain) block(f *model.File, c *model.Config, h heads, layer, hidden int, rope *rotary) block {
	b := block{parallel: p.parallel}
	if p.norms == nil || !p.norms(f, c, layer, &b) {
		b.mixNorm = p.norm(f, blk(layer, "attn_norm"), c.Embd)
		if !p.parallel {
			name := p.ffnNorm
			if name == "" {
				name = "ffn_norm"
			}
			b.ffnNorm = p.norm(f, blk(layer, name), c.Embd)
		}
	}
	a := bindAttention(f, c, h, layer, rope)
	if p.biased {
		a.requireBiases(f, c)
	}
	if p.attention != nil {
		p.attention(f, c, a)
	}
	b.mix = a
	if p.feed != nil {
		b.ffn = p.feed(f, c, layer, hidden)
	} else {
		b.ffn = bindFFN(f, c, layer, hidden, graph.SiLU)
	}
	return b
}

// norm binds a norm of the architecture's kind.
func (p plain) norm(f *model.File, name string, n int) norm {
	switch {
	case p.biased:
		return biased(f, name, n)
	case p.layerNorm:
		return layerNorm(f, name, n)
	}
	return rms(f, name, n)
}

// requireBiases binds the biases of q, k, v and the output, all of which are
// required.
func (a *attention) requireBiases(f *model.File, c *model.Config) {
	if a.qkv != nil {
		a.bqkv = f.Weight(blk(a.Layer, "attn_qkv.bias"), a.qkv.Rows())
	} else {
		a.bq = f.Weight(blk(a.Layer, "attn_q.bias"), a.Heads*a.DimK)
		a.bk = f.Weight(blk(a.Layer, "attn_k.bias"), a.KVHeads*a.DimK)
		a.bv = f.Weight(blk(a.Layer, "attn_v.bias"), a.KVHeads*a.DimV)
	}
	a.bo = f.Weight(blk(a.Layer, "attn_output.bias"), c.Embd)
}

// ungated is a feed-forward block of two matrices with the activation fn between
// them.
func ungated(fn graph.Func) func(f *model.File, c *model.Config, layer, hidden int) half {
	return func(f *model.File, c *model.Config, layer, hidden int) half {
		return bindPlainFFN(f, c, layer, hidden, fn)
	}
}

// biasedUngated is ungated with required biases.
func biasedUngated(fn graph.Func) func(f *model.File, c *model.Config, layer, hidden int) half {
	return func(f *model.File, c *model.Config, layer, hidden int) half {
		return bindBiasedFFN(f, c, layer, hidden, fn)
	}
}

// everyNth returns the windows of models in which every n-th layer attends to
// everything.
func everyNth(n, def int) func(f *model.File, c *model.Config) ([]bool, int) {
	return func(f *model.File, c *model.Config) ([]bool, int) { return windowPattern(f, c, n, def) }
}

// firstOfN returns the windows of models in which the first of each n layers
// attends to everything.
func firstOfN(n int) func(f *model.File, c *model.Config) ([]bool, int) {
	return func(f *model.File, c *model.Config) ([]bool, int) {
		windowed, window := windowPattern(f, c, n, 0)
		if _, ok := f.Bools("attention.sliding_window_pattern", c.Layers); ok {
			return windowed, window
		}
		n := f.IntOr("attention.sliding_window_pattern", n)
		for i := range windowed {
			windowed[i] = window > 0 && (n == 0 || i%n != 0)
		}
		return windowed, window
	}
}

// unscaledNear returns the rotation of windowed layers without context scaling,
// with the base of the other layers.
func unscaledNear(halves bool) func(f *model.File, headDim int, far *rotary) *rotary {
	return func(f *model.File, headDim int, far *rotary) *rotary {
		return newRope(f, f.Rope(headDim).Plain(far.base), headDim, !halves)
	}
}

// basedNear returns the rotation of windowed layers with a base of their own.
func basedNear(halves bool) func(f *model.File, headDim int, far *rotary) *rotary {
	return func(f *model.File, headDim int, far *rotary) *rotary {
		r := f.Rope(headDim)
		r.Base = f.FloatOr("rope.freq_base_swa", far.base)
		return newRope(f, r, headDim, !halves)
	}
}

// headNorms changes a layer's attention: it has norms on each query and key head.
func headNorms(f *model.File, _ *model.Config, a *attention) { a.headNorms(f) }

// bindPositions binds learned positions.
func (m *decoder) bindPositions(f *model.File) {
	m.positions = f.Weight("position_embd.weight", m.cfg.Embd, m.cfg.Context)
}

// constant returns a vector of n equal values.
func constant(name string, n int, value float32) *graph.Weight {
	w := &graph.Weight{Name: name, Type: dtype.F32, Shape: []int{n}}
	for range n {
		w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(value))
	}
	return w
}

// vector returns a weight that is a vector of the given values.
func vector(name string, v []float32) *graph.Weight {
	w := &graph.Weight{Name: name, Type: dtype.F32, Shape: []int{len(v)}}
	for _, x := range v {
		w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(x))
	}
	return w
}

// suppressed returns a bias for n logits. It makes count logits, from first on, so
// low that their tokens are never chosen.
func suppressed(n, first, count int) *graph.Weight {
	w := constant("suppressed", n, 0)
	for i := first; i < first+count; i++ {
		binary.LittleEndian.PutUint32(w.Data[4*i:], math.Float32bits(-math.MaxFloat32/2))
	}
	return w
}

// clamp bounds x to [-limit, limit].
func clamp(g *graph.Builder, x graph.Value, limit float32) graph.Value {
	x = g.Act(shifted(g, x, limit), graph.ReLU)
	return shifted(g, atMost(g, x, 2*limit), -limit)
}

// atMost computes min(x, limit) as limit - max(0, limit - x).
func atMost(g *graph.Builder, x graph.Value, limit float32) graph.Value {
	x = g.Act(shifted(g, g.Scale(x, -1), limit), graph.ReLU)
	return shifted(g, g.Scale(x, -1), limit)
}

// shifted adds a constant to every column.
func shifted(g *graph.Builder, x graph.Value, by float32) graph.Value {
	return g.Affine(x, nil, constant("shift", g.Width(x), by))
}
