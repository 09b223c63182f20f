package quant

// The ternary formats, values -d, 0 and d.
//
// TQ1_0: 256 values in 54 bytes: 48 bytes of five trits, 4 bytes of four, d f16.
// A byte is ceil(256/243 · the number in base 3), first trit highest, so that
// trit m is the carry out of 3·(byte·3^m mod 256). The first 32 bytes hold
// values m·32+i, the next 16 values 160+m·16+i, the last four 240+m·4+i.
//
// TQ2_0: 256 values in 66 bytes: 2-bit codes 0, 1, 2 (3 reads as 2d), d f16;
// byte i of a half holds the half's values i, i+32, i+64, i+96, lowest first.

func decodeTQ1_0(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[54]byte)(src), (*[256]float32)(dst)
		d := half(b[52], b[53])
		v := [4]float32{-d, 0 * d, d} // a trit is at most 2
		trits(y[:160], b[:32], &v)
		trits(y[160:240], b[32:48], &v)
		trits(y[240:], b[48:52], &v)
		dst, src = dst[256:], src[54:]
	}
}

// trits writes the m-th trit of each byte to the m-th run of len(src) values.
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
