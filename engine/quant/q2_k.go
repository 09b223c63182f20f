package quant

// A Q2_K block of 84 bytes holds 256 values. It begins with one byte per 16 values,
// which holds s in its low nibble and m in its high nibble. Then come 64 bytes of
// 2-bit codes, d as float16, and dmin as float16. A value is d·s·code - dmin·m. The
// first 32 bytes of codes belong to the first 128 values, and the others to the
// rest. Byte i of such a half holds its codes i, i+32, i+64 and i+96, lowest bits
// first.

func decodeQ2_K(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[84]byte)(src), (*[256]float32)(dst)
		d, dmin := half(b[80], b[81]), half(b[82], b[83])
		for g := range 16 {
			scale, low := float32(d*float32(b[g]&15)), float32(dmin*float32(b[g]>>4))
			q := (*[16]byte)(b[16+32*(g/8)+16*(g%2):])
			o := (*[16]float32)(y[16*g:])
			shift := uint(g / 2 % 4 * 2)
			v := [4]float32{float32(scale*0) - low, scale - low, float32(scale*2) - low, float32(scale*3) - low}
			for j := range o {
				o[j] = v[q[j]>>(shift&7)&3]
			}
		}
		dst, src = dst[256:], src[84:]
	}
}

var formQ2K = formK{bytes: 84, group: 16, lo: 0, hi: 3, slo: 0, shi: 15, mins: true}

func encodeQ2_K(dst []byte, src, importance []float32) {
	formQ2K.encode(dst, src, importance, func(dst []byte, b *superblock) {
		for g := range 16 {
			dst[g] = byte(b.s[g]) | byte(b.m[g])<<4
		}
		b.putPairs(dst[16:80], 0)
		putScale(dst[80:], b.d)
		putScale(dst[82:], b.dmin)
	})
}
