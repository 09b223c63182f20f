package quant

// A Q8_0 block of 34 bytes holds 32 values. It begins with d as float16. Then come 32
// signed bytes. A value is d·code.

func decodeQ8_0(dst []float32, src []byte) {
	for len(dst) > 0 {
		b, y := (*[34]byte)(src), (*[32]float32)(dst)
		d := half(b[0], b[1])
		for j := range y {
			y[j] = d * float32(int8(b[2+j]))
		}
		dst, src = dst[32:], src[34:]
	}
}

func encodeQ8_0(dst []byte, src, _ []float32) {
	for len(src) > 0 {
		b, x := (*[34]byte)(dst), (*[32]float32)(src)
		d := widest(x) / 127
		d = max(d, -d)
		id := inverse32(d)
		putScale(b[:], d)
		for j, f := range x {
			b[2+j] = byte(round8(float32(f * id)))
		}
		dst, src = dst[34:], src[32:]
	}
}

// round8 rounds to the nearest whole number, ties away from zero. It returns 0 for
// numbers that an int8 cannot hold.
func round8(f float32) int8 {
	if !(f > -129 && f < 128) {
		return 0
	}
	q := int32(f)
	switch r := f - float32(q); {
	case r >= 0.5:
		q++
	case r <= -0.5:
		q--
	}
	return int8(q)
}
