package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

// attention is causal self-attention with grouped heads. Weights that an
// architecture lacks are nil.
type attention struct {
	graph.Attention
	qkv, q, k, v, o      *graph.Weight
	bqkv, bq, bk, bv, bo *graph.Weight
	qNorm, kNorm         *graph.Weight
	eps                  float32
	rope                 *rotary // nil: no position encoding
}

// rotary is the rotation of a layer and the base its frequencies come from.
type rotary struct {
	graph.Rope
	base float32
}

// heads are the per-layer sizes of attention.
type heads struct {
	q, kv  []int
	dimK   int
	dimV   int
	layers int
}

// readHeads reads head counts and sizes.
func readHeads(f *model.File, c *model.Config) heads {
	h := heads{layers: c.Layers}
	h.q = f.PerLayer("attention.head_count", c.Layers, -1)
	h.kv = f.PerLayer("attention.head_count_kv", c.Layers, 0)
	most := 1
	for i := range h.q {
		if h.kv[i] == 0 && !f.Has("attention.head_count_kv") {
			h.kv[i] = h.q[i]
		}
		most = max(most, h.q[i])
	}
	h.dimK = f.IntOr("attention.key_length", c.Embd/most)
	h.dimV = f.IntOr("attention.value_length", h.dimK)
	if h.dimK == 0 || h.dimV == 0 {
		f.Fail("attention.key_length", "head size 0")
		h.dimK, h.dimV = 1, 1
	}
	return h
}

// bindAttention binds the projections of a layer: merged or separate, with
// biases and head norms where the file has them.
func bindAttention(f *model.File, c *model.Config, h heads, layer int, rope *rotary) attention {
	nq, nkv := h.q[layer], h.kv[layer]
	if nkv == 0 || nq%nkv != 0 {
		f.Fail("attention.head_count", "layer %d: %d heads over %d", layer, nq, nkv)
		nq, nkv = 1, 1
	}
	a := attention{Attention: graph.Attention{
		Layer: layer, Heads: nq, KVHeads: nkv, DimK: h.dimK, DimV: h.dimV,
		Scale: float32(1 / math.Sqrt(float64(h.dimK))),
	}, rope: rope}
	if rope != nil {
		a.RopeBase = rope.base
	}
	qd, kd, vd := nq*h.dimK, nkv*h.dimK, nkv*h.dimV
	if f.HasTensor(blk(layer, "attn_qkv.weight")) {
		a.qkv = f.Weight(blk(layer, "attn_qkv.weight"), c.Embd, qd+kd+vd)
		a.bqkv = f.Optional(blk(layer, "attn_qkv.bias"), qd+kd+vd)
	} else {
		a.q = f.Weight(blk(layer, "attn_q.weight"), c.Embd, qd)
		a.k = f.Weight(blk(layer, "attn_k.weight"), c.Embd, kd)
		a.v = f.Weight(blk(layer, "attn_v.weight"), c.Embd, vd)
		a.bq = f.Optional(blk(layer, "attn_q.bias"), qd)
		a.bk = f.Optional(blk(layer, "attn_k.bias"), kd)
		a.bv = f.Optional(blk(layer, "attn_v.bias"), vd)
	}
	a.o = f.Weight(blk(layer, "attn_output.weight"), nq*h.dimV, c.Embd)
	a.bo = f.Optional(blk(layer, "attn_output.bias"), c.Embd)
	return a
}

// bindHeadNorms binds the norms of each query and key head.
func (a *attention) bindHeadNorms(f *model.File, eps float32) {
	a.qNorm = f.Weight(blk(a.Layer, "attn_q_norm.weight"), a.DimK)
	a.kNorm = f.Weight(blk(a.Layer, "attn_k_norm.weight"), a.DimK)
	a.eps = eps
}

// project computes q, k and v before norms and positions.
func (a *attention) project(g *graph.Builder, x graph.Value) (q, k, v graph.Value) {
	if a.qkv == nil {
		return g.Linear(x, a.q, a.bq), g.Linear(x, a.k, a.bk), g.Linear(x, a.v, a.bv)
	}
	y := g.Linear(x, a.qkv, a.bqkv)
	qd, kd, vd := a.Heads*a.DimK, a.KVHeads*a.DimK, a.KVHeads*a.DimV
	return g.Slice(y, 0, 0, qd), g.Slice(y, 0, qd, kd), g.Slice(y, 0, qd+kd, vd)
}

// forward is the whole block, output projection included.
func (a *attention) forward(g *graph.Builder, x graph.Value) graph.Value {
	q, k, v := a.project(g, x)
	if a.qNorm != nil {
		q = g.Norm(q, graph.RMS, a.qNorm, nil, a.eps, a.qNorm.Elems())
		k = g.Norm(k, graph.RMS, a.kNorm, nil, a.eps, a.kNorm.Elems())
	}
	if a.rope != nil {
		q, k = g.Rope(q, a.rope.Rope), g.Rope(k, a.rope.Rope)
	}
	return g.Linear(g.Attend(q, k, v, a.Attention), a.o, a.bo)
}

// newRope turns hyper-parameters into the op for heads of that size.
func newRope(r model.Rope, headDim int, adjacent bool) *rotary {
	freqs, scale := r.Table()
	return &rotary{graph.Rope{HeadDim: headDim, Freqs: freqs, Scale: scale, Adjacent: adjacent}, r.Base}
}
