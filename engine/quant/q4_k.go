package quant

import "encoding/binary"

// Q4_K: 256 values in 144 bytes: d f16; dmin f16; 12 bytes of eight 6-bit scales s
// and eight 6-bit m, one pair for 32 values; 128 bytes of nibbles: byte i of a
// run of 32 holds values i and i+32 of the run's 64, lowest first. A value is
// d·s·code - dmin·m.
//
// Scales 0 to 3 are the low six bits of bytes 0 to 3, m 0 to 3 those of bytes 4
// to 7. Bytes 8 to 11 have the low nibbles of s 4 to 7 below those of m 4 to 7,
// whose high bits are the top two of bytes 0 to 3 and 4 to 7.

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
