package quant

import "encoding/binary"

// The IQ2 formats: eight values share a code of a book of points in
// {8, 25, 43}^8 and have signs beside it; a value is scale·point, the scale
// d·(s+1/2)/4 with a 4-bit s. 256 values a block.
//
// IQ2_XXS, 66 bytes: d f16; for 32 values four bytes of codes and a word of four
// 7-bit sign patterns (see evenSigns) with s on top.
//
// IQ2_XS, 74 bytes: d f16; 32 words, 9 bits of code and 7 of signs; 8 bytes of s,
// a nibble for 16 values.
//
// IQ2_S, 82 bytes: d f16; low bytes of 32 10-bit codes; 32 bytes of signs; 8
// bytes of high code bits, two each; 8 bytes of s as in IQ2_XS.

func decodeIQ2_XXS(dst []float32, src []byte) {
	grid := gridIQ2XXS()
	for len(dst) > 0 {
		b, y := (*[66]byte)(src), (*[256]float32)(dst)
		d := half(b[0], b[1])
		for g := range 8 {
			q := (*[8]byte)(b[2+8*g:])
			aux := binary.LittleEndian.Uint32(q[4:])
			scale := d * (0.5 + float32(aux>>28)) * 0.25
			for l := range 4 {
				put8((*[8]float32)(y[32*g+8*l:]), (*[8]int8)(grid[8*uint(q[l]):]), scale, evenSigns[aux>>(7*l)&127])
			}
		}
		dst, src = dst[256:], src[66:]
	}
}

func decodeIQ2_XS(dst []float32, src []byte) {
	grid := gridIQ2XS()
	for len(dst) > 0 {
		b, y := (*[74]byte)(src), (*[256]float32)(dst)
		d := half(b[0], b[1])
		for i := range 32 {
			q := binary.LittleEndian.Uint16(b[2+2*i:])
			scale := scaleIQ2(d, b[66+i/4]>>(4*(i/2%2)))
			put8((*[8]float32)(y[8*i:]), (*[8]int8)(grid[8*uint(q&511):]), scale, evenSigns[q>>9])
		}
		dst, src = dst[256:], src[74:]
	}
}

func decodeIQ2_S(dst []float32, src []byte) {
	grid := gridIQ2S()
	for len(dst) > 0 {
		b, y := (*[82]byte)(src), (*[256]float32)(dst)
		d := half(b[0], b[1])
		for i := range 32 {
			code := uint(b[2+i]) | uint(b[66+i/4]>>(2*(i%4))&3)<<8
			scale := scaleIQ2(d, b[74+i/4]>>(4*(i/2%2)))
			put8((*[8]float32)(y[8*i:]), (*[8]int8)(grid[8*code:]), scale, b[34+i])
		}
		dst, src = dst[256:], src[82:]
	}
}

func scaleIQ2(d float32, s byte) float32 { return d * (0.5 + float32(s&15)) * 0.25 }
