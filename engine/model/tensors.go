package model

import "math"

// Unbound lists the tensors that were not bound.
func (f *File) Unbound() []string {
	var names []string
	for i := range f.gguf.Tensors {
		if t := &f.gguf.Tensors[i]; !f.used[t.Name] {
			names = append(names, t.Name)
		}
	}
	return names
}

// Ints returns an optional array of integers, or a single one. It returns nil
// if the key is missing.
func (f *File) Ints(key string) []int {
	if !f.Has(key) {
		return nil
	}
	v, _ := f.gguf.KV.Value(f.key(key))
	list, ok := v.Ints()
	if n, one := v.Int(); one {
		list, ok = []int64{n}, true
	}
	if !ok {
		f.Fail(f.key(key), "not an array of integers")
		return nil
	}
	out := make([]int, len(list))
	for i, n := range list {
		if n < math.MinInt32 || n > math.MaxInt32 {
			f.Fail(f.key(key), "value %d is %d", i, n)
			return nil
		}
		out[i] = int(n)
	}
	return out
}

// RowLength returns the length of a tensor's rows, or 0 if it is missing.
func (f *File) RowLength(name string) int {
	if t, ok := f.gguf.Tensor(name); ok && len(t.Shape) > 0 {
		return t.Shape[0]
	}
	return 0
}
