package quant

// A Q4_1 block of 20 bytes holds 32 values. It begins with d and m as float16. Then
// come nibbles as in Q4_0. A value is d·code + m.

func decodeQ4_1(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[20]byte)(src), (*[32]float32)(dst)
		d, m := half(b[0], b[1]), half(b[2], b[3])
		for j := range 16 {
			q := int32(b[4+j])
			y[j] = float32(d*float32(q&15)) + m
			y[j+16] = float32(d*float32(q>>4)) + m
		}
		dst, src = dst[32:], src[20:]
	}
}

func encodeQ4_1(dst []byte, src, importance []float32) {
	for len(src) > 0 {
		b, x := dst[:20], (*[32]float32)(src)
		var q codes32
		var d, m float32
		if importance == nil {
			d, m = q.affineRule(x, 15)
		} else {
			d, m = q.affineSearch(x, (*[32]float32)(importance), 15)
			importance = importance[32:]
		}
		putScale(b, d)
		putScale(b[2:], m)
		q.putNibbles(b[4:])
		dst, src = dst[20:], src[32:]
	}
}
