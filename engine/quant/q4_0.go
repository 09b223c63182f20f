package quant

// A Q4_0 block of 18 bytes holds 32 values. It begins with d as float16. Then come 16
// bytes of codes. Byte j holds code j in its low nibble and code j+16 in its high
// nibble. A value is d·(code-8).

func decodeQ4_0(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[18]byte)(src), (*[32]float32)(dst)
		d := half(b[0], b[1])
		for j := range 16 {
			q := int32(b[2+j])
			y[j] = d * float32(q&15-8)
			y[j+16] = d * float32(q>>4-8)
		}
		dst, src = dst[32:], src[18:]
	}
}

func encodeQ4_0(dst []byte, src, importance []float32) {
	for len(src) > 0 {
		b, x := dst[:18], (*[32]float32)(src)
		var q codes32
		var d float32
		if importance == nil {
			d = q.signedRule(x, 8)
		} else {
			d = q.signedSearch(x, (*[32]float32)(importance), 8)
			importance = importance[32:]
		}
		putScale(b, d)
		q.putNibbles(b[2:])
		dst, src = dst[18:], src[32:]
	}
}
