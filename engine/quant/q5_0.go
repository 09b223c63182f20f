package quant

import "encoding/binary"

// A Q5_0 block of 22 bytes holds 32 values. It begins with d as float16. Then come
// the high bit of each code, lowest bit first, and nibbles as in Q4_0. A value is
// d·(code-16).

func decodeQ5_0(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[22]byte)(src), (*[32]float32)(dst)
		d := half(b[0], b[1])
		h := binary.LittleEndian.Uint32(b[2:])
		for j := range 16 {
			q := uint32(b[6+j])
			y[j] = d * float32(int32(q&15|h>>j<<4&16)-16)
			y[j+16] = d * float32(int32(q>>4|h>>(j+12)&16)-16)
		}
		dst, src = dst[32:], src[22:]
	}
}

func encodeQ5_0(dst []byte, src, importance []float32) {
	for len(src) > 0 {
		b, x := dst[:22], (*[32]float32)(src)
		var q codes32
		var d float32
		if importance == nil {
			d = q.signedRule(x, 16)
		} else {
			d = q.signedSearch(x, (*[32]float32)(importance), 16)
			importance = importance[32:]
		}
		putScale(b, d)
		q.putHigh(b[2:])
		q.putNibbles(b[6:])
		dst, src = dst[22:], src[32:]
	}
}
