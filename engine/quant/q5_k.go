package quant

// A Q5_K block of 176 bytes holds 256 values. It begins with d, dmin, scales and
// minimums as in Q4_K. Then come 32 bytes of high code bits, where bit k of byte i
// belongs to value 32k+i, and nibbles as in Q4_K. A value is d·s·code - dmin·m.

func decodeQ5_K(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[176]byte)(src), (*[256]float32)(dst)
		d, dmin := half(b[0], b[1]), half(b[2], b[3])
		s, m := scalesK((*[12]byte)(b[4:]))
		h := (*[32]byte)(b[16:])
		for g := range 4 {
			s0, m0 := d*float32(s[2*g]), float32(dmin*float32(m[2*g]))
			s1, m1 := d*float32(s[2*g+1]), float32(dmin*float32(m[2*g+1]))
			q, o := (*[32]byte)(b[48+32*g:]), (*[64]float32)(y[64*g:])
			for j, c := range q {
				hi := h[j] >> (2 * g)
				o[j] = float32(s0*float32(c&15|hi&1<<4)) - m0
				o[j+32] = float32(s1*float32(c>>4|hi&2<<3)) - m1
			}
		}
		dst, src = dst[256:], src[176:]
	}
}

var formQ5K = formK{bytes: 176, group: 32, lo: 0, hi: 31, slo: 0, shi: 63, mins: true}

func encodeQ5_K(dst []byte, src, importance []float32) {
	formQ5K.encode(dst, src, importance, func(dst []byte, b *superblock) {
		b.putScales(dst)
		for i, q := range b.q {
			dst[16+i%32] |= byte(q) >> 4 << (i / 32)
		}
		b.putNibbles(dst[48:])
	})
}
