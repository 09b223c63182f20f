package attn

import (
	"math"
	"math/bits"

	"godwit/engine/dtype"
)

func mulAddGeneric(a *mulAddArgs) {
	var x [64]float32
	for steps := a.steps; steps != 0; steps &= steps - 1 {
		s := bits.TrailingZeros64(steps)
		v := x[:a.lanes]
		loadFloats(v, a.x[s*a.pitch:], a.stored)
		if a.finite {
			makeFinite(v)
		}
		for i := range a.n {
			c := a.coef[i*64+s]
			acc := a.acc[i*a.ld:][:len(v)]
			for j, x := range v {
				acc[j] += float32(c * x)
			}
		}
	}
}

func loadFloats(dst []float32, x []byte, t dtype.Type) {
	switch t {
	case dtype.F16:
		for i := range dst {
			dst[i] = halfAt(x[2*i:])
		}
	case dtype.BF16:
		for i := range dst {
			dst[i] = dtype.BF16ToF32(uint16(x[2*i]) | uint16(x[2*i+1])<<8)
		}
	default:
		for i := range dst {
			dst[i] = f32At(x[4*i:])
		}
	}
}

// makeFinite replaces infinities and NaN by the largest value.
func makeFinite(x []float32) {
	for i, v := range x {
		if v != v {
			v = math.MaxFloat32
		}
		x[i] = max(-math.MaxFloat32, min(math.MaxFloat32, v))
	}
}

func expandGeneric(dst, low, high []byte, lowBits int, table *[64]byte, steps int) {
	per := 8 / lowBits
	mask := uint8(1<<lowBits - 1)
	for s := range steps {
		l := low[s/per*64:][:64]
		d := dst[s*64:][:64]
		shift := s % per * lowBits
		if high == nil {
			for i, b := range l {
				d[i] = table[b>>shift&mask]
			}
			continue
		}
		h := high[s/8*64:][:64]
		for i, b := range l {
			d[i] = table[b>>shift&mask|h[i]>>(s%8)&1<<lowBits]
		}
	}
}

func decodeGeneric(dst, codes []byte, groups, vecs int, l *levels) {
	pitch := 64 * vecs
	for g := range groups {
		for v := range vecs {
			c := codes[(g*vecs+v)*64:][:64]
			for i, b := range c {
				x := l.float[b&15]
				if l.exact {
					x = float32(int8(b ^ byte(l.zero)))
				}
				putF32(dst[(4*g+i%4)*pitch+(16*v+i/4)*4:], x)
			}
		}
	}
}

func transposeGeneric(dst, codes []byte, vecs int, flip byte) {
	for d := range 16 * vecs {
		for t := range Cells {
			from := (d/4*4+t/16)*64 + t%16*4 + d%4
			to := (t/4*vecs+d/16)*64 + d%16*4 + t%4
			dst[to] = codes[from] ^ flip
		}
	}
}

func dotTokensGeneric(a *dotTokensArgs) {
	q := a.q
	elems := q.values / q.blocks
	for b := range q.blocks {
		for i := range a.n {
			at := (a.group*q.blocks+b)*panel + i
			var sum [Cells]int32
			for t := range sum {
				sum[t] = q.init[at]
			}
			for d := 0; d < elems; d += 4 {
				v := b*elems + d
				q4 := q.q[(a.group*q.values+v&^31)*panel+i*32+v&31:][:4]
				for t := range sum {
					c := a.tile[(v/4*4+t/16)*64+t%16*4:][:4]
					sum[t] += int32(c[0])*int32(q4[0]) + int32(c[1])*int32(q4[1]) + int32(c[2])*int32(q4[2]) + int32(c[3])*int32(q4[3])
				}
			}
			dst := a.dst[i/q.per*Cells:][:Cells]
			for t, s := range sum {
				f := float32(halfAt(a.scales[2*(b*Cells+t):]) * q.scale[at])
				dst[t] += float32(float32(s) * f)
			}
		}
	}
}

// roundWeightsGeneric stores the products of n rows of weights with scales and
// sign, in 255ths of the largest magnitude of their row. Negative products give
// 0, and signed reports whether there are any. Rows with a largest magnitude
// below tiny are rounded to 255ths of tiny.
func roundWeightsGeneric(dst *[panel][Cells]uint8, weight []float32, n int, scales []byte, sign float32, amax *[panel]float32) (signed bool) {
	for i := range n {
		var p [Cells]float32
		mulHalfGeneric(p[:], weight[i*Cells:], scales)
		amax[i] = maxAbsGeneric(p[:])
		inv := 255 / max(amax[i], tiny)
		for t, v := range p {
			r := math.RoundToEven(float64(float32(v * sign * inv)))
			signed = signed || r < 0
			dst[i][t] = 0
			if r > 0 {
				dst[i][t] = uint8(min(r, 255))
			}
		}
	}
	return signed
}

func dotValuesGeneric(a *dotValuesArgs) {
	for i := range a.n {
		var sum [64]int32
		for left := a.groups; left != 0; left &= left - 1 {
			g := bits.TrailingZeros64(left)
			w4 := a.w[i][4*g:][:4]
			c := a.tile[g*a.vecs*64:][:a.vecs*64]
			for j := range 16 * a.vecs {
				x := c[4*j:][:4]
				sum[j] += int32(w4[0])*int32(int8(x[0])) + int32(w4[1])*int32(int8(x[1])) + int32(w4[2])*int32(int8(x[2])) + int32(w4[3])*int32(int8(x[3]))
			}
		}
		acc := a.acc[i*a.ld:][:16*a.vecs]
		for j := range acc {
			acc[j] += float32(float32(sum[j]) * a.scale[i])
		}
	}
}

func addHalfGeneric(dst []float32, x []byte, f float32) {
	for t := range Cells {
		dst[t] += float32(halfAt(x[2*t:]) * f)
	}
}

func addScaledGeneric(dst, raw []float32, x []byte) {
	for i, v := range raw {
		dst[i] += float32(v * halfAt(x[2*(i%Cells):]))
	}
}

func mulHalfGeneric(dst, w []float32, x []byte) {
	for i := range dst {
		dst[i] = 0
		if w[i] != 0 {
			dst[i] = w[i] * halfAt(x[2*(i%Cells):])
		}
	}
}

func dotHalfGeneric(w []float32, x []byte) float32 {
	var sum [16]float32
	for t := range Cells {
		if w[t] != 0 {
			sum[t%16] += float32(w[t] * halfAt(x[2*t:]))
		}
	}
	return fold(&sum)
}

// fold adds 16 lanes in the order of the vector code. It adds the upper half to
// the lower half until one lane is left.
func fold(x *[16]float32) float32 {
	for n := 8; n > 0; n /= 2 {
		for i := range n {
			x[i] += x[i+n]
		}
	}
	return x[0]
}
