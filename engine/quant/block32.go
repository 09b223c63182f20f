package quant

import (
	"encoding/binary"
	"math"

	"godwit/engine/dtype"
)

// codes32 holds the codes of a block of 32 values before they are packed. The Rule
// methods are ggml's one-pass encoders. The Search methods make the weighted error
// small.
type codes32 [32]uint8

// putNibbles stores the low nibbles of the codes. Byte j holds code j in its low
// nibble and code j+16 in its high nibble.
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

// widest returns the value with the largest magnitude. If several values have that
// magnitude, it returns the first one. It ignores NaN, and returns 0 if no other
// value exceeds 0 in magnitude.
func widest(x *[32]float32) float32 {
	var most, v float32
	for _, f := range x {
		if a := max(f, -f); a > most { // max returns NaN for a NaN, which is not greater than most
			most, v = a, f
		}
	}
	return v
}

// inverse32 returns 1/d, or 0 if d is 0.
func inverse32(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// floor8 truncates a number that an int8 can hold. It returns 0 for all other
// numbers, like a conversion on x86.
func floor8(f float32) uint8 {
	if f > -1 && f < 128 {
		return uint8(int32(f))
	}
	return 0
}

// signedRule encodes x as d·(q-n). The value with the largest magnitude gets code
// 0, which means -n·d.
func (q *codes32) signedRule(x *[32]float32, n float32) (d float32) {
	d = widest(x) / -n
	id := inverse32(d)
	top := uint8(2*n) - 1
	for j, f := range x {
		q[j] = min(top, floor8(float32(f*id)+(n+0.5)))
	}
	return d
}

// affineRule encodes x as d·q + m with q from 0 to n. Code 0 is the smallest value
// of x, and code n is the largest.
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
	if lo > hi { // all values are NaN
		lo, hi = 0, 0
	}
	d = (hi - lo) / n
	id := inverse32(d)
	for j, f := range x {
		q[j] = min(uint8(n), floor8(float32((f-lo)*id)+0.5))
	}
	return d, lo
}

// signedSearch encodes x as d·(q-n) with a d that is exact in float16.
func (q *codes32) signedSearch(x, w *[32]float32, n float64) float32 {
	xs, ws := widen32(x, w)
	d := round16(fitScale(xs[:], ws[:], -n, n-1))
	inv := inverse64(float64(d))
	for j, f := range xs {
		q[j] = uint8(code(f, inv, -n, n-1) + n)
	}
	return d
}

// affineSearch encodes x as d·q + m with d and m that are exact in float16.
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

// round16 returns the number that putScale stores for f.
func round16(f float64) float32 {
	var b [2]byte
	putScale(b[:], float32(f))
	return dtype.F16ToF32(binary.LittleEndian.Uint16(b[:]))
}
