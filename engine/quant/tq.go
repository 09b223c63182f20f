package quant

import "math"

// A TQ3_1S or TQ4_1S block (TheTom/llama-cpp-turboquant) of 16 or 20 bytes holds 32
// values. It begins with d0 and d1 as float16. Then come 32 codes of 3 or 4 bits,
// packed from the lowest bit. A code selects a level for a unit Gaussian. The
// product of the level with d0 in the first half, or with d1 in the second, is a
// rotated value. The rotated values of x are r = WHT(S·x)/√32, where S is a fixed
// sign pattern and WHT is the unnormalised Walsh-Hadamard transform.

// formTQ holds the differences between the two formats.
type formTQ struct {
	bits   uint
	bytes  int
	levels []float32
	bounds []float32 // a value equal to a bound takes the upper code
}

var formTQ3 = formTQ{
	bits: 3, bytes: 16,
	levels: []float32{-1.996684, -1.291398, -0.740341, -0.247508, 0.230106, 0.725222, 1.277503, 1.988943},
	bounds: []float32{-1.644041, -1.015870, -0.493925, -0.008701, 0.477664, 1.001363, 1.633223},
}

var formTQ4 = formTQ{
	bits: 4, bytes: 20,
	levels: []float32{
		-2.732590, -2.069017, -1.618046, -1.256231, -0.942340, -0.656759, -0.388048, -0.128395,
		0.128395, 0.388048, 0.656759, 0.942340, 1.256231, 1.618046, 2.069017, 2.732590,
	},
	bounds: []float32{
		-2.400804, -1.843532, -1.437139, -1.099286, -0.799550, -0.522404, -0.258222, 0,
		0.258222, 0.522404, 0.799550, 1.099286, 1.437139, 1.843532, 2.400804,
	},
}

const (
	signsTQ  = 0x696b4b4a // bit j: value j is negated
	normTQ   = 0.17677669529663688
	floorTQ  = 1e-10 // scales and denominators up to this count as 0
	roundsTQ = 6
)

// factorsTQ lists the scales that scales tries, as multiples of the root mean
// square of a half.
var factorsTQ = [...]float32{0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5}

func decodeTQ3_1S(dst []float32, src []byte) { formTQ3.decode(dst, src) }

func decodeTQ4_1S(dst []float32, src []byte) { formTQ4.decode(dst, src) }

func encodeTQ3_1S(dst []byte, src, _ []float32) { formTQ3.encode(dst, src) }

func encodeTQ4_1S(dst []byte, src, _ []float32) { formTQ4.encode(dst, src) }

func (f *formTQ) decode(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := src[:f.bytes], (*[32]float32)(dst)
		var v [2][16]float32
		for h := range v {
			d := half(b[2*h], b[2*h+1])
			for i, l := range f.levels {
				v[h][i] = l * d
			}
		}
		if f.bits == 4 {
			q := (*[16]byte)(b[4:])
			for j, c := range q {
				d := &v[j/8]
				y[2*j], y[2*j+1] = d[c&15], d[c>>4]
			}
		} else {
			for g := range 4 { // eight codes in three bytes
				c := uint32(b[4+3*g]) | uint32(b[5+3*g])<<8 | uint32(b[6+3*g])<<16
				d, o := &v[g/2], (*[8]float32)(y[8*g:])
				o[0], o[1], o[2], o[3] = d[c&7], d[c>>3&7], d[c>>6&7], d[c>>9&7]
				o[4], o[5], o[6], o[7] = d[c>>12&7], d[c>>15&7], d[c>>18&7], d[c>>21&7]
			}
		}
		wht32(y)
		for j := range y {
			y[j] *= signedNormTQ[j]
		}
		dst, src = dst[32:], src[f.bytes:]
	}
}

func (f *formTQ) encode(dst []byte, src []float32) {
	for len(src) > 0 {
		var r [32]float32
		for j, x := range src[:32] {
			r[j] = flip(x, signsTQ>>j<<31)
		}
		wht32(&r)
		for j := range r {
			r[j] *= normTQ
		}
		d := f.scales(&r)
		putScale(dst, d[0])
		putScale(dst[2:], d[1])
		f.putCodes(dst[4:f.bytes], &r, d)
		dst, src = dst[f.bytes:], src[32:]
	}
}

// scales chooses d0 and d1. It starts with the best common multiple of the two root
// mean squares. Then it alternately computes new codes and the least-squares scale
// for them.
func (f *formTQ) scales(r *[32]float32) (d [2]float32) {
	var rms [2]float32
	for h := range rms {
		var sum float32
		for _, x := range r[16*h : 16*h+16] {
			sum += float32(x * x)
		}
		rms[h] = float32(math.Sqrt(float64(sum / 16)))
	}
	best := float32(math.Inf(1))
	d = rms
	for _, k := range factorsTQ {
		try := [2]float32{rms[0] * k, rms[1] * k}
		var err float32
		for j, x := range r {
			s := try[j/16]
			e := x - float32(f.levels[f.code(x*inverse(s))]*s)
			err += float32(e * e)
		}
		if err < best {
			best, d = err, try
		}
	}
	for range roundsTQ {
		for h := range d {
			inv := inverse(d[h])
			var num, den float32
			for _, x := range r[16*h : 16*h+16] {
				l := f.levels[f.code(x*inv)]
				num += float32(x * l)
				den += float32(l * l)
			}
			if den > floorTQ {
				d[h] = num / den
			}
		}
	}
	return d
}

func inverse(d float32) float32 {
	if d > floorTQ {
		return 1 / d
	}
	return 0
}

// code returns the number of the first bound above x. It returns the last code if no
// bound is above x, or if x is NaN.
func (f *formTQ) code(x float32) int {
	for i, b := range f.bounds {
		if x < b {
			return i
		}
	}
	return len(f.bounds)
}

func (f *formTQ) putCodes(dst []byte, r *[32]float32, d [2]float32) {
	clear(dst)
	for j, x := range r {
		c := uint16(f.code(x * inverse(d[j/16])))
		at := uint(j) * f.bits
		c <<= at % 8
		dst[at/8] |= byte(c)
		if c > 255 {
			dst[at/8+1] |= byte(c >> 8)
		}
	}
}

// signedNormTQ holds 1/√32 with the signs of S.
var signedNormTQ = func() (t [32]float32) {
	for j := range t {
		t[j] = flip(normTQ, signsTQ>>j<<31)
	}
	return t
}()

// wht32 computes the unnormalised Walsh-Hadamard transform. It uses strides 1, 2 and
// 4 within each eight values, then strides 8 and 16.
func wht32(x *[32]float32) {
	for i := 0; i < 32; i += 8 {
		wht8((*[8]float32)(x[i:]))
	}
	for j := range 8 {
		a, b, c, d := x[j], x[j+8], x[j+16], x[j+24]
		a, b, c, d = a+b, a-b, c+d, c-d
		x[j], x[j+8], x[j+16], x[j+24] = a+c, b+d, a-c, b-d
	}
}

func wht8(x *[8]float32) {
	a, b, c, d := x[0]+x[1], x[0]-x[1], x[2]+x[3], x[2]-x[3]
	e, f, g, h := x[4]+x[5], x[4]-x[5], x[6]+x[7], x[6]-x[7]
	a, b, c, d = a+c, b+d, a-c, b-d
	e, f, g, h = e+g, f+h, e-g, f-h
	x[0], x[1], x[2], x[3] = a+e, b+f, c+g, d+h
	x[4], x[5], x[6], x[7] = a-e, b-f, c-g, d-h
}
