package quant

// A Q1_0 block of 18 bytes holds 128 values. It begins with d as float16. Then comes
// one bit per value, lowest bit first, where 1 means d and 0 means -d.

func decodeQ1_0(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[18]byte)(src), (*[128]float32)(dst)
		d := half(b[0], b[1])
		v := [2]float32{-d, d}
		for i := range 16 {
			q := b[2+i]
			o := (*[8]float32)(y[8*i:])
			o[0], o[1], o[2], o[3] = v[q&1], v[q>>1&1], v[q>>2&1], v[q>>3&1]
			o[4], o[5], o[6], o[7] = v[q>>4&1], v[q>>5&1], v[q>>6&1], v[q>>7]
		}
		dst, src = dst[128:], src[18:]
	}
}
