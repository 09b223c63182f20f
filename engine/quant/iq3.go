package quant

import "encoding/binary"

// In the IQ3 formats, four values share a code, and their signs are stored
// separately. The coordinates of the code books' points have eight levels. A value
// is ±scale·coordinate. Each block holds 256 values and begins with a float16 d.
//
// An IQ3_XXS block has 98 bytes. After d come 64 codes of 8 bits. Then comes one
// 32-bit word per 32 values, which holds four 7-bit sign patterns (see evenSigns)
// for eight values each and then a 4-bit s. The scale is d·(s+1/2)/2.
//
// An IQ3_S block has 110 bytes. After d come the low bytes of 64 9-bit codes, 8
// bytes of high code bits, and 32 bytes of signs. The last 4 bytes hold one 4-bit s
// per 32 values. The scale is d·(2s+1).

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
