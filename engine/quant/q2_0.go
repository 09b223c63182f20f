package quant

// A Q2_0 block of 18 bytes holds 64 values. It begins with d as float16. Then come
// 2-bit codes, four per byte, lowest bits first. A value is (code-1)·d.

func decodeQ2_0(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[18]byte)(src), (*[64]float32)(dst)
		d := half(b[0], b[1])
		v := [4]float32{-d, 0 * d, d, 2 * d}
		for i := range 16 {
			q := b[2+i]
			o := (*[4]float32)(y[4*i:])
			o[0], o[1], o[2], o[3] = v[q&3], v[q>>2&3], v[q>>4&3], v[q>>6]
		}
		dst, src = dst[64:], src[18:]
	}
}
