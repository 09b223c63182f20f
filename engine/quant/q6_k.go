package quant

// A Q6_K block of 210 bytes holds 256 values. It begins with 128 bytes of low
// nibbles, 64 bytes of high code bits, one signed byte s per 16 values, and d as
// float16. A value is d·s·(code-32). Each half of the nibbles and of the high bits
// belongs to 128 values. Byte j of a half's nibbles holds codes j and j+64, for j
// below 64. Byte j of a half's high bits holds those of codes j, j+32, j+64 and
// j+96. In both, the lowest bits come first.

func decodeQ6_K(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[210]byte)(src), (*[256]float32)(dst)
		d := half(b[208], b[209])
		var s [16]float32
		for i := range s {
			s[i] = d * float32(int8(b[192+i]))
		}
		for g := range 4 { // each g computes four groups of 16 values from 16 bytes of high bits
			at := 64*(g/2) + 16*(g%2)
			lo, lo2 := (*[16]byte)(b[at:]), (*[16]byte)(b[at+32:])
			hi := (*[16]byte)(b[128+32*(g/2)+16*(g%2):])
			o := (*[112]float32)(y[128*(g/2)+16*(g%2):])
			k := 8*(g/2) + g%2
			s0, s1, s2, s3 := s[k&15], s[(k+2)&15], s[(k+4)&15], s[(k+6)&15]
			for j, h := range hi {
				l, r := lo[j], lo2[j]
				o[j] = s0 * float32(int32(l&15|h&3<<4)-32)
				o[j+32] = s1 * float32(int32(r&15|h&12<<2)-32)
				o[j+64] = s2 * float32(int32(l>>4|h&48)-32)
				o[j+96] = s3 * float32(int32(r>>4|h&192>>2)-32)
			}
		}
		dst, src = dst[256:], src[210:]
	}
}

var formQ6K = formK{bytes: 210, group: 16, lo: -32, hi: 31, slo: -128, shi: 127}

func encodeQ6_K(dst []byte, src, importance []float32) {
	formQ6K.encode(dst, src, importance, func(dst []byte, b *superblock) {
		for i, q := range b.q {
			c, h, r := byte(q+32), i/128, i%128
			dst[64*h+r%64] |= c & 15 << (r / 64 * 4)
			dst[128+32*h+r%32] |= c >> 4 << (r / 32 * 2)
		}
		for g, s := range b.s {
			dst[192+g] = byte(int8(s))
		}
		putScale(dst[208:], b.d)
	})
}
