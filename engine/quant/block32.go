package quant

import (
	"encoding/binary"
	"math"

	"godwit/engine/dtype"
)

// codes32 holds the codes of a block of Q4_0's kind on their way into it. The
// Rule methods are ggml's one-pass encoders; the Search methods make the
// weighted error small.
type codes32 [32]uint8

// putNibbles stores the low nibbles, value j below value j+16.
func (q *codes32) putNibbles(dst []byte) {
	d := (*[16]byte)(dst)
	for j := range d {
		d[j] = q[j]&15 | q[j+16]<<4
	}
}

// putHigh stores bit 4 of the codes, in order.
func (q *codes32) putHigh(dst []byte) {
	var h uint32
	for j, c := range q {
		h |= uint32(c>>4&1) << j
	}
	binary.LittleEndian.PutUint32(dst, h)
}

// widest returns the value of the largest magnitude, the first of equals; NaN
// never wins.
func widest(x *[32]float32) float32 {
	var most, v float32
	for _, f := range x {
		if a := max(f, -f); a > most { // max of a NaN is a NaN
			most, v = a, f
		}
	}
	return v
}

// inverse32 is 1/d, or 0 for 0.
func inverse32(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// floor8 truncates a positive number to a byte and takes every number that an
// int8 cannot hold as 0, as a conversion on x86 does.
func floor8(f float32) uint8 {
	if f > -1 && f < 128 {
		return uint8(int32(f))
	}
	return 0
}

// signedRule codes x as d·(q-n), the widest value being -n.
func (q *codes32) signedRule(x *[32]float32, n float32) (d float32) {
	d = widest(x) / -n
	id := inverse32(d)
	top := uint8(2*n) - 1
	for j, f := range x {
		q[j] = min(top, floor8(float32(f*id)+(n+0.5)))
	}
	return d
}

// affineRule codes x as d·q + m between the extremes, q from 0 to n.
func (q *codes32) affineRule(x *[32]float32, n float32) (d, m float32) {
	lo, hi := float32(math.MaxFloat32), float32(-math.MaxFloat32)
	for _, f := range x {
		if f < lo {
			lo = f
		}
		if f > hi {
			hi = f
		}
	}
	if lo > hi { // nothing but NaN
		lo, hi = 0, 0
	}
	d = (hi - lo) / n
	id := inverse32(d)
	for j, f := range x {
		q[j] = min(uint8(n), floor8(float32((f-lo)*id)+0.5))
	}
	return d, lo
}

// signedSearch codes x as d·(q-n) with a d that float16 holds.
func (q *codes32) signedSearch(x, w *[32]float32, n float64) float32 {
	xs, ws := widen32(x, w)
	d := round16(fitScale(xs[:], ws[:], -n, n-1))
	inv := inverse64(float64(d))
	for j, f := range xs {
		q[j] = uint8(code(f, inv, -n, n-1) + n)
	}
	return d
}

// affineSearch codes x as d·q + m with d and m that float16 holds.
func (q *codes32) affineSearch(x, w *[32]float32, n float64) (d, m float32) {
	xs, ws := widen32(x, w)
	fd, fm := fitAffine(xs[:], ws[:], n, false)
	d, m = round16(fd), round16(fm)
	inv := inverse64(float64(d))
	for j, f := range xs {
		q[j] = uint8(code(f-float64(m), inv, 0, n))
	}
	return d, m
}

func widen32(x, w *[32]float32) (xs, ws [32]float64) {
	widen(xs[:], x[:])
	weights(ws[:], w[:])
	return xs, ws
}

// round16 rounds to what putScale stores.
func round16(f float64) float32 {
	var b [2]byte
	putScale(b[:], float32(f))
	return dtype.F16ToF32(binary.LittleEndian.Uint16(b[:]))
}
