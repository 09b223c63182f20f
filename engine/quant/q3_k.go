package quant

import "encoding/binary"

// A Q3_K block of 110 bytes holds 256 values. It begins with 32 bytes of high code
// bits, where bit k of byte i belongs to value 32k+i. Then come 64 bytes of low code
// bits as in Q2_K, 12 bytes of 6-bit scales s, one per 16 values, and d as float16.
// A value is d·(s-32)·(code-4). Byte j of the first 8 bytes of scales holds the low
// nibbles of scales j and j+8. Byte j of the last 4 holds the two high bits of
// scales j, j+4, j+8 and j+12. In both, the lowest bits come first.

func decodeQ3_K(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[110]byte)(src), (*[256]float32)(dst)
		d := half(b[108], b[109])
		s := scalesQ3K((*[12]byte)(b[96:]))
		for g := range 16 {
			scale := float32(d * float32(int32(s[g])-32))
			v := [8]float32{scale * -4, scale * -3, scale * -2, -scale, scale * 0, scale, scale * 2, scale * 3}
			hi, lo := b[16*(g%2):], b[32+32*(g/8)+16*(g%2):]
			for k := 0; k < 16; k += 8 { // eight codes at once
				c := binary.LittleEndian.Uint64(hi[k:]) >> (g / 2) & 0x0101010101010101 << 2
				c |= binary.LittleEndian.Uint64(lo[k:]) >> (g / 2 % 4 * 2) & 0x0303030303030303
				o := (*[8]float32)(y[16*g+k:])
				o[0], o[1], o[2], o[3] = v[c&7], v[c>>8&7], v[c>>16&7], v[c>>24&7]
				o[4], o[5], o[6], o[7] = v[c>>32&7], v[c>>40&7], v[c>>48&7], v[c>>56&7]
			}
		}
		dst, src = dst[256:], src[110:]
	}
}

// scalesQ3K unpacks the 6-bit scales.
func scalesQ3K(b *[12]byte) (s [16]byte) {
	lo := binary.LittleEndian.Uint64(b[:8])
	hi := uint64(binary.LittleEndian.Uint32(b[8:]))
	hi |= hi << 30 // in the upper half, scales j+4 and j+12 have the bit positions of j and j+8
	const nib, two = 0x0f0f0f0f0f0f0f0f, 0x3030303030303030
	binary.LittleEndian.PutUint64(s[:8], lo&nib|hi<<4&two)
	binary.LittleEndian.PutUint64(s[8:], lo>>4&nib|hi&two)
	return s
}

var formQ3K = formK{bytes: 110, group: 16, lo: -4, hi: 3, slo: -32, shi: 31}

func encodeQ3_K(dst []byte, src, importance []float32) {
	formQ3K.encode(dst, src, importance, func(dst []byte, b *superblock) {
		for i, q := range b.q {
			dst[i%32] |= byte(q+4) >> 2 << (i / 32)
		}
		b.putPairs(dst[32:96], 4)
		for g, s := range b.s {
			v := byte(int8(s) + 32)
			dst[96+g%8] |= v & 15 << (g / 8 * 4)
			dst[104+g%4] |= v >> 4 << (g / 4 * 2)
		}
		putScale(dst[108:], b.d)
	})
}
