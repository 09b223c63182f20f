package quant

import "math"

// NVFP4: 64 values in 36 bytes: 4 unsigned E4M3 scales, one for 16 values; for
// each 16 values 8 bytes of E2M1 nibbles, byte j holding values j and j+8. The
// NaN pattern 7f of a scale reads as 0, and the top bit counts as in ggml: it
// is ignored except in telling 0 and 7f apart.

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

// halfUE4M3 is half of an unsigned E4M3 number (bias 7), for the doubled levels.
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
