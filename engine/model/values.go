package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/graph"
	"godwit/engine/quant"
)

// Floats returns one finite number for each of n layers. The key is optional and has an
// array, or one value for all layers. If the key is missing, every number is def.
func (f *File) Floats(key string, n int, def float32) []float32 {
	a := f.array(key, n)
	if a == nil {
		return slices.Repeat([]float32{f.FloatOr(key, def)}, n)
	}
	return f.numbers(f.key(key), a, n)
}

// SharedFloats returns the array of n numbers under a key that all
// architectures share.
func (f *File) SharedFloats(key string, n int) ([]float32, bool) {
	v, ok := f.gguf.KV.Value(key)
	if !ok {
		return nil, false
	}
	if !v.IsArray || v.Len() < n {
		x, ok := v.Float()
		if !ok || v.IsArray {
			f.Fail(key, "not %d numbers", n)
		}
		return slices.Repeat([]float32{float32(x)}, n), true
	}
	v = v.First(n)
	return f.numbers(key, &v, n), true
}

// numbers returns n finite values of an array.
func (f *File) numbers(key string, a *gguf.Value, n int) []float32 {
	v, ok := a.Floats()
	if !ok {
		f.Fail(key, "an array of %v, want numbers", a.Kind)
		return make([]float32, n)
	}
	for i, x := range v {
		if x-x != 0 {
			f.Fail(key, "%g in layer %d", x, i)
			v[i] = 0
		}
	}
	return v
}

// Filter returns a required tensor of filters [taps, columns]. Files may store it with
// a dimension of 1 between the two.
func (f *File) Filter(name string, taps, columns int) *graph.Weight {
	if t, ok := f.gguf.Tensor(name); !ok || len(t.Shape) < 3 {
		return f.Weight(name, taps, columns)
	}
	w := *f.Weight(name, taps, 1, columns)
	w.Shape = []int{taps, columns}
	return &w
}

// Spread returns a vector with times copies of each of the n values of a required
// tensor of shape [1, n].
func (f *File) Spread(name string, n, times int) *graph.Weight {
	return f.spread(f.Weight(name, 1, n), n, times)
}

// SpreadRow is Spread for a tensor of shape [n].
func (f *File) SpreadRow(name string, n, times int) *graph.Weight {
	return f.spread(f.Weight(name, n), n, times)
}

func (f *File) spread(w *graph.Weight, n, times int) *graph.Weight {
	name := w.Name
	out := &graph.Weight{Name: name, Type: dtype.F32, Shape: []int{n * times}}
	if f.err != nil {
		return out
	}
	v := make([]float32, n)
	if err := quant.Decode(w.Type, v, w.Data); err != nil {
		f.err = fmt.Errorf("%w %s: %w", ErrTensor, name, err)
	}
	for _, x := range v {
		for range times {
			out.Data = binary.LittleEndian.AppendUint32(out.Data, math.Float32bits(x))
		}
	}
	return out
}
