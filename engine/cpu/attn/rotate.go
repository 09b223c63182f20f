package attn

import "godwit/engine/kv"

// maxRotation is the largest rotation.
const maxRotation = 1024

// unsigned holds signs that are all +1.
var unsigned = func() (s [maxRotation]float32) {
	for i := range s {
		s[i] = 1
	}
	return s
}()

// rotateBy multiplies x by pre, applies a Walsh-Hadamard transform, and
// multiplies by c and post. Nil signs and a c of 0 have no effect.
func rotateBy(x, pre, post []float32, c float32) {
	if pre == nil {
		pre = unsigned[:]
	}
	if post == nil {
		post = unsigned[:]
	}
	if c == 0 {
		c = 1
	}
	hadamard(x, pre[:len(x)], post[:len(x)], c)
}

// forward rotates values as r rotates a stored row, with c instead of
// r.Forward. For a query, c is r.Query.
func forward(r *kv.Rotation, x []float32, c float32) {
	if r.Mid == nil {
		rotateBy(x, r.Pre, r.Post, c)
		return
	}
	rotateBy(x, r.Pre, nil, 1)
	rotateBy(x, r.Mid, r.Post, c)
}

// backward inverts forward.
func backward(r *kv.Rotation, x []float32) {
	if r.Mid == nil {
		rotateBy(x, r.Post, r.Pre, r.Inverse)
		return
	}
	rotateBy(x, r.Post, nil, r.Inverse)
	rotateBy(x, r.Mid, r.Pre, r.Inverse)
}

// rotateQuery prepares one query for keys of a segment. rot has the segment's
// values, and so has res if the type has a residual.
func rotateQuery(g *kv.Segment, rot, res, q []float32) {
	t := g.Form
	clear(rot[copy(rot, q[g.First:g.First+g.Dim]):])
	size := t.Rotation.Size
	for first := 0; size > 0 && first < len(rot); first += size {
		x := rot[first : first+size]
		forward(&t.Rotation, x, t.Rotation.Query)
		if !reads(t.Residual) {
			continue
		}
		e := res[first : first+size]
		copy(e, x)
		if t.Residual.Rule == kv.Projected {
			rotateBy(e, t.Residual.Signs, nil, t.Residual.Factor)
		}
	}
}

// unrotate converts the finished sum of a segment back into the head's values.
func unrotate(g *kv.Segment, dst, acc []float32) {
	if g.First >= len(dst) {
		return
	}
	size := g.Form.Rotation.Size
	for first := 0; size > 0 && first < len(acc); first += size {
		backward(&g.Form.Rotation, acc[first:first+size])
	}
	copy(dst[g.First:min(g.First+g.Dim, len(dst))], acc)
}

func hadamardGeneric(x, pre, post []float32, c float32) {
	for i := range x {
		x[i] *= pre[i]
	}
	for stride := 1; stride < len(x); stride *= 2 {
		for i := 0; i < len(x); i += 2 * stride {
			lo, hi := x[i:i+stride], x[i+stride:i+2*stride]
			for j, a := range lo {
				b := hi[j]
				lo[j], hi[j] = a+b, a-b
			}
		}
	}
	for i := range x {
		x[i] = float32(x[i]*c) * post[i]
	}
}
