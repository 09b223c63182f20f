package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

// heads are the head counts and sizes of one layer's attention.
type heads struct {
	q, kv      int // head counts; if kv is 0, the layer has no attention
	dimK, dimV int
}

// readHeads reads the head counts and sizes of every layer. Windowed layers may
// have heads of another size.
func readHeads(f *model.File, c *model.Config, windowed []bool) []heads {
	q := f.PerLayer("attention.head_count", c.Layers, -1)
	kv := q
	if f.Has("attention.head_count_kv") {
		kv = f.PerLayer("attention.head_count_kv", c.Layers, 0)
	}
	most := 1
	for _, n := range q {
		most = max(most, n)
	}
	full := heads{dimK: f.IntOr("attention.key_length", c.Embd/most)}
	full.dimV = f.IntOr("attention.value_length", c.Embd/most)
	near := heads{
		dimK: f.IntOr("attention.key_length_swa", full.dimK),
		dimV: f.IntOr("attention.value_length_swa", full.dimV),
	}
	out := make([]heads, c.Layers)
	for i := range out {
		out[i] = full
		if windowed != nil && windowed[i] {
			out[i] = near
		}
		out[i].q, out[i].kv = q[i], kv[i]
		h := &out[i]
		if h.dimK == 0 || h.dimV == 0 || h.kv > 0 && (h.q == 0 || h.q%h.kv != 0) || h.q > maxHeads || h.dimK > maxHeadDim || h.dimV > maxHeadDim {
			f.Fail("attention", "layer %d: %d heads with %d KV heads, keys of %d and values of %d columns are not supported", i, h.q, h.kv, h.dimK, h.dimV)
			*h = heads{1, 1, 1, 1}
		}
	}
	return out
}

// Limits of the head sizes in a file.
const (
	maxHeads   = 4096
	maxHeadDim = 1 << 14
)

// windowPattern returns which layers are windowed: those of an array in the file,
// or all except every n-th. If the file's window size is 0, no layer is windowed.
// If the file has no window size, it is def.
func windowPattern(f *model.File, c *model.Config, n, def int) (windowed []bool, window int) {
	window = f.IntOr("attention.sliding_window", def)
	windowed = make([]bool, c.Layers)
	if window == 0 {
		return windowed, 0
	}
	if w, ok := f.Bools("attention.sliding_window_pattern", c.Layers); ok {
		return w, window
	}
	n = f.IntOr("attention.sliding_window_pattern", n)
	for i := range windowed {
		windowed[i] = n == 0 || i%n < n-1
	}
	return windowed, window
}

// rotary is a rotation. It may have a second set of frequencies for contexts longer
// than limit tokens.
type rotary struct {
	graph.Rope
	base  float32 // base of the frequencies
	long  []float32
	limit int
	axes  []uint8 // coordinate axis of each pair, if picture tokens have coordinates
}

// at returns the rotation for a pass.
func (r *rotary) at(in model.Inputs) graph.Rope {
	op := r.Rope
	if r.long != nil && in.Context > r.limit {
		op.Freqs = r.long
	}
	if in.Pictures {
		op.Axes = r.axes
	}
	return op
}

// newRope converts hyper-parameters to the RoPE op for heads of the given size.
func newRope(f *model.File, r model.Rope, headDim int, adjacent bool) *rotary {
	if r.Dims > headDim {
		f.Fail("rope.dimension_count", "cannot rotate %d values of heads of %d", r.Dims, headDim)
	}
	freqs, scale := f.Finite(r)
	return &rotary{Rope: graph.Rope{HeadDim: headDim, Freqs: freqs, Scale: scale, Adjacent: adjacent}, base: r.Base, axes: r.Axes}
}

// bindRope reads the rotation of heads of the given size and the tensors that
// change its frequencies. There may be one set of factors, or one up to the trained
// length and another beyond it.
func bindRope(f *model.File, headDim int, adjacent bool) *rotary {
	r := f.Rope(headDim)
	r.Factors = factors(f, "rope_freqs.weight", r.Dims/2)
	short, long := factors(f, "rope_factors_short.weight", r.Dims/2), factors(f, "rope_factors_long.weight", r.Dims/2)
	if r.Factors == nil {
		r.Factors = short
	}
	op := newRope(f, r, headDim, adjacent)
	if long != nil {
		r.Factors = long
		op.long, _ = f.Finite(r)
		op.limit = r.Context
	}
	return op
}

// factors reads divisors of frequencies, or nil if the file has none.
func factors(f *model.File, name string, n int) []float32 {
	v := f.Values(name, n)
	for i, x := range v {
		if !(x > 0) {
			f.Fail(name, "factor %d is %g", i, x)
			return nil
		}
	}
	return v
}
