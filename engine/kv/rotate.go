package kv

import (
	"encoding/hex"
	"math"
)

// maxRotation is the largest Rotation.Size. It determines the size of an encoder's
// scratch memory.
const maxRotation = 1024

// wht is the unnormalised in-place Walsh-Hadamard butterfly. len(x) is a power of
// two. The stride ascends, because the order affects the last bits.
func wht(x []float32) {
	for stride := 1; stride < len(x); stride *= 2 {
		for i := 0; i < len(x); i += 2 * stride {
			lo, hi := x[i:i+stride], x[i+stride:i+2*stride]
			for j, a := range lo {
				b := hi[j]
				lo[j], hi[j] = a+b, a-b
			}
		}
	}
}

// mul multiplies x by signs, which may be nil.
func mul(x, signs []float32) {
	if signs == nil {
		return
	}
	signs = signs[:len(x)]
	for i := range x {
		x[i] *= signs[i]
	}
}

// scale multiplies x by c. A c of 0 means 1.
func scale(x []float32, c float32) {
	if c == 0 || c == 1 {
		return
	}
	times(x, c)
}

// forward rotates x, len(x) = Size, as a stored row.
func (r *Rotation) forward(x []float32) { r.rotate(x, r.Forward) }

// query rotates x, len(x) = Size, as a query.
func (r *Rotation) query(x []float32) { r.rotate(x, r.Query) }

func (r *Rotation) rotate(x []float32, c float32) {
	mul(x, r.Pre)
	wht(x)
	if r.Mid != nil {
		mul(x, r.Mid)
		wht(x)
	}
	scale(x, c)
	mul(x, r.Post)
}

// inverse inverts forward.
func (r *Rotation) inverse(x []float32) {
	mul(x, r.Post)
	wht(x)
	scale(x, r.Inverse)
	if r.Mid != nil {
		mul(x, r.Mid)
		wht(x)
		scale(x, r.Inverse)
	}
	mul(x, r.Pre)
}

// signs expands a mask. Element j is -1 if bit j mod 8 of byte j div 8 is set.
func signs(mask string) []float32 {
	b, err := hex.DecodeString(mask)
	if err != nil {
		panic("kv: bad sign mask: " + err.Error())
	}
	s := make([]float32, 8*len(b))
	for j := range s {
		s[j] = 1
		if b[j/8]>>(j%8)&1 == 1 {
			s[j] = -1
		}
	}
	return s
}

// sumSquares adds the squares in index order.
func sumSquares(x []float32) float32 {
	var s float32
	for _, v := range x {
		s += float32(v * v)
	}
	return s
}

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }
