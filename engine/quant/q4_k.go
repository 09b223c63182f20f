package quant

import "encoding/binary"

// A Q4_K block of 144 bytes holds 256 values. It begins with d and dmin as float16.
// Then come 12 bytes with a 6-bit scale s and a 6-bit minimum m per 32 values, and
// 128 bytes of codes. A value is d·s·code - dmin·m. Each 32 bytes of codes belong to
// 64 values. Byte i of them holds code i in its low nibble and code i+32 in its high
// nibble.
//
// The low six bits of bytes 0 to 3 of the 12 hold scales 0 to 3, and those of bytes
// 4 to 7 hold minimums 0 to 3. The low nibbles of bytes 8 to 11 hold the low nibbles
// of scales 4 to 7, and the high nibbles those of minimums 4 to 7. Their high bits
// are the top two bits of bytes 0 to 3 and of bytes 4 to 7.

func decodeQ4_K(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[144]byte)(src), (*[256]float32)(dst)
		d, dmin := half(b[0], b[1]), half(b[2], b[3])
		s, m := scalesK((*[12]byte)(b[4:]))
		for g := range 4 {
			s0, m0 := d*float32(s[2*g]), float32(dmin*float32(m[2*g]))
			s1, m1 := d*float32(s[2*g+1]), float32(dmin*float32(m[2*g+1]))
			q, o := (*[32]byte)(b[16+32*g:]), (*[64]float32)(y[64*g:])
			for j, c := range q {
				o[j] = float32(s0*float32(c&15)) - m0
				o[j+32] = float32(s1*float32(c>>4)) - m1
			}
		}
		dst, src = dst[256:], src[144:]
	}
}

// scalesK unpacks the scales and minimums of Q4_K and Q5_K.
func scalesK(b *[12]byte) (s, m [8]byte) {
	x := binary.LittleEndian.Uint32(b[:])
	y := binary.LittleEndian.Uint32(b[4:])
	z := binary.LittleEndian.Uint32(b[8:])
	binary.LittleEndian.PutUint32(s[:], x&0x3f3f3f3f)
	binary.LittleEndian.PutUint32(m[:], y&0x3f3f3f3f)
	binary.LittleEndian.PutUint32(s[4:], z&0x0f0f0f0f|x>>2&0x30303030)
	binary.LittleEndian.PutUint32(m[4:], z>>4&0x0f0f0f0f|y>>2&0x30303030)
	return s, m
}

var formQ4K = formK{bytes: 144, group: 32, lo: 0, hi: 15, slo: 0, shi: 63, mins: true}

func encodeQ4_K(dst []byte, src, importance []float32) {
	formQ4K.encode(dst, src, importance, func(dst []byte, b *superblock) {
		b.putScales(dst)
		b.putNibbles(dst[16:])
	})
}

// putScales stores d, dmin and the packed scales and minimums.
func (b *superblock) putScales(dst []byte) {
	putScale(dst, b.d)
	putScale(dst[2:], b.dmin)
	for g := range 4 {
		s0, s1, m0, m1 := byte(b.s[g]), byte(b.s[g+4]), byte(b.m[g]), byte(b.m[g+4])
		dst[4+g] = s0 | s1>>4<<6
		dst[8+g] = m0 | m1>>4<<6
		dst[12+g] = s1&15 | m1<<4
	}
}
