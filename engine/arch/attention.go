package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

// attention is self-attention with grouped heads. Weights that an architecture does
// not have are nil.
type attention struct {
	graph.Attention
	qkv, q, k, v, o      *graph.Weight
	bqkv, bq, bk, bv, bo *graph.Weight
	qNorm, kNorm, vNorm  norm
	rope                 *rotary // nil: no position encoding
	temper               graph.Temperature
	gated                bool          // the query matrix also holds a gate for each query head, after that head's columns
	normsLast            bool          // qNorm and kNorm follow RoPE
	gate                 *graph.Weight // gate of the result, one value per head or per column; nil for none
	gateFunc             graph.Func
	outNorm              norm    // norm before the output matrix
	clamp                float32 // bound of q, k and v; 0 for none
	valueScale           float32 // factor of the values; 0 means 1
	shared               bool    // k and v come from an earlier layer
	loose                bool    // if there is no value matrix, values are the keys before their norm
}

// bindAttention binds the projections of a layer, which may be one matrix or
// several. Biases are bound if the file has them.
func bindAttention(f *model.File, c *model.Config, h heads, layer int, rope *rotary) *attention {
	a := newAttention(f, c, h, layer, rope)
	a.bind(f, c)
	return a
}

// bindBiased is bindAttention with a required bias of the output.
func bindBiased(f *model.File, c *model.Config, h heads, layer int, rope *rotary) *attention {
	a := bindAttention(f, c, h, layer, rope)
	a.bo = f.Weight(blk(layer, "attn_output.bias"), c.Embd)
	return a
}

// newAttention returns a layer's attention without weights.
func newAttention(f *model.File, c *model.Config, h heads, layer int, rope *rotary) *attention {
	if h.kv == 0 {
		f.Fail("attention.head_count_kv", "layer %d has no KV heads", layer)
		h = heads{1, 1, 1, 1}
	}
	a := &attention{Attention: graph.Attention{
		Layer: layer, Heads: h.q, KVHeads: h.kv, DimK: h.dimK, DimV: h.dimV,
		Scale:         f.Factor("attention.scale", 0),
		Bidirectional: c.Embedding,
	}, rope: rope}
	if a.Scale == 0 {
		a.Scale = float32(1 / math.Sqrt(float64(h.dimK)))
	}
	if rope != nil {
		a.RopeBase = rope.base
	}
	return a
}

func (a *attention) bind(f *model.File, c *model.Config) {
	name := func(s string) string { return blk(a.Layer, s) }
	qd, kd, vd := a.Heads*a.DimK, a.KVHeads*a.DimK, a.KVHeads*a.DimV
	if a.gated {
		qd *= 2
	}
	a.qkv = f.OptionalMatrix(name("attn_qkv.weight"), c.Embd, qd+kd+vd)
	a.bqkv = f.Optional(name("attn_qkv.bias"), qd+kd+vd)
	if a.qkv == nil {
		a.q = f.Matrix(name("attn_q.weight"), c.Embd, qd)
	}
	if a.qkv == nil && !a.shared {
		a.k = f.Matrix(name("attn_k.weight"), c.Embd, kd)
		a.v = f.OptionalMatrix(name("attn_v.weight"), c.Embd, vd)
		if a.v == nil && !a.loose {
			a.v = f.Matrix(name("attn_v.weight"), c.Embd, vd)
		}
	}
	if a.bqkv == nil {
		a.bq = f.Optional(name("attn_q.bias"), qd)
		a.bk = f.Optional(name("attn_k.bias"), kd)
		a.bv = f.Optional(name("attn_v.bias"), vd)
	}
	a.o = f.Matrix(blk(a.Layer, "attn_output.weight"), a.Heads*a.DimV, c.Embd)
	a.bo = f.Optional(blk(a.Layer, "attn_output.bias"), c.Embd)
}

// headNorms binds the norms of each query head and, if it has any, key head.
func (a *attention) headNorms(f *model.File) {
	a.qNorm = rms(f, blk(a.Layer, "attn_q_norm"), a.DimK)
	a.qNorm.group = a.DimK
	if !a.shared {
		a.kNorm = rms(f, blk(a.Layer, "attn_k_norm"), a.DimK)
		a.kNorm.group = a.DimK
	}
}

// project computes q, k and v without norms and positions.
func (a *attention) project(g *graph.Builder, x graph.Value) (q, k, v graph.Value) {
	if a.qkv == nil {
		q = g.Linear(x, a.q, a.bq)
		if a.shared {
			return q, graph.None, graph.None
		}
		k = g.Linear(x, a.k, a.bk)
		if a.v == nil {
			return q, k, k
		}
		return q, k, g.Linear(x, a.v, a.bv)
	}
	y := g.Linear(x, a.qkv, a.bqkv)
	qd, kd, vd := a.qkv.Rows()-a.KVHeads*(a.DimK+a.DimV), a.KVHeads*a.DimK, a.KVHeads*a.DimV
	part := func(first, n int, bias *graph.Weight) graph.Value {
		z := g.Slice(y, 0, first, n)
		if bias != nil {
			z = g.Affine(z, nil, bias)
		}
		return z
	}
	q = part(0, qd, a.bq)
	if a.shared {
		return q, graph.None, graph.None
	}
	return q, part(qd, kd, a.bk), part(qd+kd, vd, a.bv)
}

// forward computes the whole attention block, including the output projection.
func (a *attention) forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value {
	q, k, v := a.project(g, x)
	if a.clamp != 0 {
		q, k, v = clamp(g, q, a.clamp), clamp(g, k, a.clamp), clamp(g, v, a.clamp)
	}
	gate := graph.None
	if a.gated {
		gate = g.Slice(q, 2*a.DimK, a.DimK, a.DimK)
		q = g.Slice(q, 2*a.DimK, 0, a.DimK)
	}
	if !a.normsLast {
		q, k = a.norms(g, q, k)
	}
	if a.rope != nil {
		op := a.rope.at(in)
		q = g.Rope(q, op)
		if !a.shared {
			k = g.Rope(k, op)
		}
	}
	if a.normsLast {
		q, k = a.norms(g, q, k)
	}
	if !a.shared {
		v = a.vNorm.apply(g, v)
	}
	if a.valueScale != 0 {
		v = g.Scale(v, a.valueScale)
	}
	q = g.Temperature(q, a.temper)
	att := a.Attention
	att.Tiles = att.Tiles && in.Pictures
	y := g.Attend(q, k, v, att)
	if a.gated {
		y = g.Mul(y, g.Act(gate, graph.Sigmoid))
	}
	if a.gate != nil {
		y = g.Mul(y, g.Act(g.Linear(x, a.gate, nil), a.gateFunc))
	}
	return g.Linear(a.outNorm.apply(g, y), a.o, a.bo)
}

// norms normalises queries and keys.
func (a *attention) norms(g *graph.Builder, q, k graph.Value) (graph.Value, graph.Value) {
	if !a.shared {
		k = a.kNorm.apply(g, k)
	}
	return a.qNorm.apply(g, q), k
}

// wideNorms binds norms over all query heads and all key heads.
func (a *attention) wideNorms(f *model.File) {
	a.qNorm = rms(f, blk(a.Layer, "attn_q_norm"), a.Heads*a.DimK)
	a.kNorm = rms(f, blk(a.Layer, "attn_k_norm"), a.KVHeads*a.DimK)
}

// bindGate binds a gate of the result with one value per head, or per column if
// wide is set.
func (a *attention) bindGate(f *model.File, c *model.Config, wide bool, fn graph.Func) {
	n := a.Heads
	if wide {
		n *= a.DimV
	}
	a.gate, a.gateFunc = f.Matrix(blk(a.Layer, "attn_gate.weight"), c.Embd, n), fn
}
