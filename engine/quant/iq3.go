package quant

import "encoding/binary"

// The IQ3 formats: four values share a code of a book of points of eight odd
// magnitudes and have signs beside it; a value is scale·point. 256 values a
// block.
//
// IQ3_XXS, 98 bytes: d f16; 64 codes of 8 bits; a word for 32 values: four 7-bit
// sign patterns for eight values each (see evenSigns), then 4 bits s; the
// scale is d·(s+1/2)/2.
//
// IQ3_S, 110 bytes: d f16; low bytes of 64 9-bit codes; 8 bytes of high code bits;
// 32 bytes of signs; 4 bytes of s, a nibble for 32 values; the scale is
// d·(2s+1).

func decodeIQ3_XXS(dst []float32, src []byte) {
	grid := gridIQ3XXS()
	for len(dst) > 0 {
		b, y := (*[98]byte)(src), (*[256]float32)(dst)
		d := half(b[0], b[1])
		for g := range 8 {
			q := (*[8]byte)(b[2+8*g:])
			aux := binary.LittleEndian.Uint32(b[66+4*g:])
			scale := d * (0.5 + float32(aux>>28)) * 0.5
			for l := range 4 {
				o := (*[8]float32)(y[32*g+8*l:])
				signs := evenSigns[aux>>(7*l)&127]
				put4((*[4]float32)(o[:4]), (*[4]int8)(grid[4*uint(q[2*l]):]), scale, signs)
				put4((*[4]float32)(o[4:]), (*[4]int8)(grid[4*uint(q[2*l+1]):]), scale, signs>>4)
			}
		}
		dst, src = dst[256:], src[98:]
	}
}

func decodeIQ3_S(dst []float32, src []byte) {
	grid := gridIQ3S()
	for len(dst) > 0 {
		b, y := (*[110]byte)(src), (*[256]float32)(dst)
		d := half(b[0], b[1])
		for g := range 8 {
			q, qh := (*[8]byte)(b[2+8*g:]), uint(b[66+g])
			scale := d * float32(1+2*(b[106+g/2]>>(4*(g%2))&15))
			for l := range 4 {
				o := (*[8]float32)(y[32*g+8*l:])
				signs := b[74+4*g+l]
				lo := uint(q[2*l]) | qh>>(2*l)&1<<8
				hi := uint(q[2*l+1]) | qh>>(2*l+1)&1<<8
				put4((*[4]float32)(o[:4]), (*[4]int8)(grid[4*lo:]), scale, signs)
				put4((*[4]float32)(o[4:]), (*[4]int8)(grid[4*hi:]), scale, signs>>4)
			}
		}
		dst, src = dst[256:], src[110:]
	}
}
