package quant

import (
	"math"
	"math/bits"
)

// evenSigns completes a 7-bit sign pattern to 8 bits with an even number of ones. A
// one in bit j negates value j. IQ2_XXS, IQ2_XS and IQ3_XXS store only the first
// seven bits.
var evenSigns = func() (t [128]byte) {
	for i := range t {
		t[i] = byte(i) | byte(bits.OnesCount8(uint8(i))&1)<<7
	}
	return t
}()

// put8 writes scale·p. It negates value j if bit j of signs is set.
func put8(dst *[8]float32, p *[8]int8, scale float32, signs byte) {
	s := uint32(signs)
	dst[0] = flip(scale*float32(p[0]), s<<31)
	dst[1] = flip(scale*float32(p[1]), s<<30)
	dst[2] = flip(scale*float32(p[2]), s<<29)
	dst[3] = flip(scale*float32(p[3]), s<<28)
	dst[4] = flip(scale*float32(p[4]), s<<27)
	dst[5] = flip(scale*float32(p[5]), s<<26)
	dst[6] = flip(scale*float32(p[6]), s<<25)
	dst[7] = flip(scale*float32(p[7]), s<<24)
}

// put4 is like put8, for four values.
func put4(dst *[4]float32, p *[4]int8, scale float32, signs byte) {
	s := uint32(signs)
	dst[0] = flip(scale*float32(p[0]), s<<31)
	dst[1] = flip(scale*float32(p[1]), s<<30)
	dst[2] = flip(scale*float32(p[2]), s<<29)
	dst[3] = flip(scale*float32(p[3]), s<<28)
}

// flip negates x if the highest bit of s is set.
func flip(x float32, s uint32) float32 {
	return math.Float32frombits(math.Float32bits(x) ^ s&(1<<31))
}
