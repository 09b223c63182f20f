package quant

// The values of the ternary formats are -d, 0 and d.
//
// A TQ1_0 block of 54 bytes holds 256 values. It begins with 48 bytes of five trits
// each. Then come 4 bytes of four trits each, and d as float16. The trits of a byte
// form a number in base 3, first trit highest, and the byte is 256/243 of that
// number, rounded up. Trit m is therefore the carry of 3·(byte·3^m mod 256). In the
// first 32 bytes, trit m of byte i is value m·32+i. In the next 16 it is value
// 160+m·16+i, and in the last four it is value 240+m·4+i.
//
// A TQ2_0 block of 66 bytes holds 256 values. It begins with 64 bytes of 2-bit codes.
// Then comes d as float16. Codes 0, 1 and 2 mean -d, 0 and d, and 3 reads as 2d. The
// codes are ordered as in Q2_K.

func decodeTQ1_0(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[54]byte)(src), (*[256]float32)(dst)
		d := half(b[52], b[53])
		v := [4]float32{-d, 0 * d, d} // only three entries are used, because a trit is at most 2
		trits(y[:160], b[:32], &v)
		trits(y[160:240], b[32:48], &v)
		trits(y[240:], b[48:52], &v)
		dst, src = dst[256:], src[54:]
	}
}

// trits writes trit m of each byte to part m of dst, which has len(src) values.
func trits(dst []float32, src []byte, v *[4]float32) {
	for pow := byte(1); len(dst) > 0; pow *= 3 {
		run := dst[:len(src)]
		for i, q := range src {
			run[i] = v[uint16(q*pow)*3>>8&3]
		}
		dst = dst[len(src):]
	}
}

func decodeTQ2_0(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[66]byte)(src), (*[256]float32)(dst)
		d := half(b[64], b[65])
		v := [4]float32{-d, 0 * d, d, 2 * d}
		for h := range 2 {
			q, o := (*[32]byte)(b[32*h:]), (*[128]float32)(y[128*h:])
			for i, c := range q {
				o[i], o[i+32], o[i+64], o[i+96] = v[c&3], v[c>>2&3], v[c>>4&3], v[c>>6]
			}
		}
		dst, src = dst[256:], src[66:]
	}
}
