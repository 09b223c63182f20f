package quant

import "math"

// An NVFP4 block of 36 bytes holds 64 values. It begins with 4 unsigned E4M3 scales,
// one per 16 values. Then come 8 bytes of E2M1 nibbles per 16 values; byte j holds
// values j and j+8. A scale of 7f, which is NaN, reads as 0. As in ggml, the scale's
// top bit is otherwise ignored, and ff is a number.

func decodeNVFP4(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[36]byte)(src), (*[64]float32)(dst)
		for g := range 4 {
			d := halfUE4M3(b[g])
			q, o := (*[8]byte)(b[4+8*g:]), (*[16]float32)(y[16*g:])
			for j, c := range q {
				o[j] = d * float32(levelsFP4[c&15])
				o[j+8] = d * float32(levelsFP4[c>>4])
			}
		}
		dst, src = dst[64:], src[36:]
	}
}

// halfUE4M3 returns half of an unsigned E4M3 number (bias 7), because the levels are
// doubled.
func halfUE4M3(x byte) float32 {
	if x == 0 || x == 0x7f {
		return 0
	}
	exp, man := uint32(x>>3&15), uint32(x&7)
	if exp == 0 {
		return float32(man) * (1.0 / 1024)
	}
	return math.Float32frombits((exp+119)<<23 | man<<20)
}
