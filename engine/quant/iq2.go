package quant

import "encoding/binary"

// In the IQ2 formats, eight values share a code, and their signs are stored
// separately. The code books have points in {8, 25, 43}^8. A value is
// ±scale·coordinate, and the scale is d·(s+1/2)/4 with a float16 d and a 4-bit s.
// Each block holds 256 values and begins with d.
//
// An IQ2_XXS block has 66 bytes. Each 32 values have four bytes of codes and a
// 32-bit word, which holds four 7-bit sign patterns (see evenSigns) and then s.
//
// An IQ2_XS block has 74 bytes. After d come 32 words of 16 bits, each with a 9-bit
// code and a 7-bit sign pattern. Then come 8 bytes with one s per 16 values.
//
// An IQ2_S block has 82 bytes. After d come the low bytes of 32 10-bit codes, 32
// bytes of signs, and 8 bytes with the 2 high bits of each code. The last 8 bytes
// hold s as in IQ2_XS.

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
