package quant

import "encoding/binary"

// In the IQ1 formats, eight values share an 11-bit code. The code book has 2048
// points in {-1, 0, 1}^8. A value is scale·(coordinate ± 1/8), and the scale is
// d·(2s+1) with a float16 d and a 3-bit s.
//
// An IQ1_S block of 50 bytes holds 256 values. It begins with d and the low bytes
// of the 32 codes. Then comes one 16-bit word per 32 values. A word holds the 3 high
// bits of each of its four codes, then s, then the sign of the shift.
//
// An IQ1_M block of 56 bytes holds 256 values. It begins with the low bytes of the
// 32 codes. Then comes one nibble per code, which holds the code's 3 high bits and
// the sign of the shift. The last 4 words hold one s per 16 values, four in each
// word. Their top nibbles hold d, lowest nibble first.

const shiftIQ1 = 0.125

func decodeIQ1_S(dst []float32, src []byte) {
	grid := gridIQ1()
	for len(dst) > 0 {
		b, y := (*[50]byte)(src), (*[256]float32)(dst)
		d := half(b[0], b[1])
		for g := range 8 {
			qh := binary.LittleEndian.Uint16(b[34+2*g:])
			scale := d * float32(2*(qh>>12&7)+1)
			shift := flip(shiftIQ1, uint32(qh)<<16)
			for l := range 4 {
				code := uint(b[2+4*g+l]) | uint(qh>>(3*l)&7)<<8
				putShifted((*[8]float32)(y[32*g+8*l:]), (*[8]int8)(grid[8*code:]), scale, shift)
			}
		}
		dst, src = dst[256:], src[50:]
	}
}

func decodeIQ1_M(dst []float32, src []byte) {
	grid := gridIQ1()
	for len(dst) > 0 {
		b, y := (*[56]byte)(src), (*[256]float32)(dst)
		var sc [4]uint16
		for i := range sc {
			sc[i] = binary.LittleEndian.Uint16(b[48+2*i:])
		}
		h := sc[0]>>12 | sc[1]>>12<<4 | sc[2]>>12<<8 | sc[3]>>12<<12
		d := half(byte(h), byte(h>>8))
		for i := range 32 {
			qh := b[32+i/2] >> (4 * (i % 2))
			scale := d * float32(2*(sc[i/8]>>(3*(i/2%4))&7)+1)
			code := uint(b[i]) | uint(qh&7)<<8
			putShifted((*[8]float32)(y[8*i:]), (*[8]int8)(grid[8*code:]), scale, flip(shiftIQ1, uint32(qh)<<28))
		}
		dst, src = dst[256:], src[56:]
	}
}

// putShifted writes scale·(p+shift). The sum is exact.
func putShifted(dst *[8]float32, p *[8]int8, scale, shift float32) {
	dst[0] = scale * (float32(p[0]) + shift)
	dst[1] = scale * (float32(p[1]) + shift)
	dst[2] = scale * (float32(p[2]) + shift)
	dst[3] = scale * (float32(p[3]) + shift)
	dst[4] = scale * (float32(p[4]) + shift)
	dst[5] = scale * (float32(p[5]) + shift)
	dst[6] = scale * (float32(p[6]) + shift)
	dst[7] = scale * (float32(p[7]) + shift)
}
