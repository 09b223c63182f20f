package quant

import "encoding/binary"

// A Q5_1 block of 24 bytes holds 32 values. It begins with d and m as float16. Then
// come the high bit of each code, lowest bit first, and nibbles as in Q4_0. A value
// is d·code + m.

func decodeQ5_1(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[24]byte)(src), (*[32]float32)(dst)
		d, m := half(b[0], b[1]), half(b[2], b[3])
		h := binary.LittleEndian.Uint32(b[4:])
		for j := range 16 {
			q := uint32(b[8+j])
			y[j] = float32(d*float32(int32(q&15|h>>j<<4&16))) + m
			y[j+16] = float32(d*float32(int32(q>>4|h>>(j+12)&16))) + m
		}
		dst, src = dst[32:], src[24:]
	}
}

func encodeQ5_1(dst []byte, src, importance []float32) {
	for len(src) > 0 {
		b, x := dst[:24], (*[32]float32)(src)
		var q codes32
		var d, m float32
		if importance == nil {
			d, m = q.affineRule(x, 31)
		} else {
			d, m = q.affineSearch(x, (*[32]float32)(importance), 31)
			importance = importance[32:]
		}
		putScale(b, d)
		putScale(b[2:], m)
		q.putHigh(b[4:])
		q.putNibbles(b[8:])
		dst, src = dst[24:], src[32:]
	}
}
