package quant

import "math"

// MXFP4 (OCP Microscaling 1.0): 32 values in 17 bytes: an exponent byte e, the
// scale 2^(e-127); nibbles as in Q4_0, E2M1 numbers. As in ggml, e = 255 is a
// scale like the others.

// levelsFP4 are the E2M1 numbers, doubled.
var levelsFP4 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func decodeMXFP4(dst []float32, src []byte) {
	for len(dst) > 0 {
		b := (*[17]byte)(src)
		putLevels((*[32]float32)(dst), (*[16]byte)(b[1:]), &levelsFP4, halfE8M0(b[0]))
		dst, src = dst[32:], src[17:]
	}
}

// halfE8M0 is 2^(e-128), half of the scale, for the doubled levels.
func halfE8M0(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(1 << 21 << e) // subnormal
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// encodeMXFP4 takes the exponent that puts the widest value between the levels
// 4 and 8 of the OCP document; with an importance it tries the two exponents
// beside it as well.
func encodeMXFP4(dst []byte, src, importance []float32) {
	for len(src) > 0 {
		b, x := (*[17]byte)(dst), (*[32]float32)(src)
		e := exponentMX(widest(x))
		if importance != nil {
			e = searchMX(x, (*[32]float32)(importance), e)
			importance = importance[32:]
		}
		var q codes32
		scale := float64(halfE8M0(e))
		for j, f := range x {
			q[j] = codeFP4(float64(f) / scale)
		}
		b[0] = e
		q.putNibbles(b[1:])
		dst, src = dst[17:], src[32:]
	}
}

// exponentMX is floor(log2 |x|) - 2 as a scale byte, at most 252, where the
// largest level still is a float32.
func exponentMX(x float32) byte {
	exp := int(math.Float32bits(x) >> 23 & 255)
	return byte(min(max(exp-2, 0), 252))
}

func searchMX(x, w *[32]float32, e byte) byte {
	xs, ws := widen32(x, w)
	best, least := e, math.Inf(1)
	for _, try := range [3]int{int(e), int(e) - 1, int(e) + 1} {
		if try < 0 || try > 252 {
			continue
		}
		scale, err := float64(halfE8M0(byte(try))), 0.0
		for j, f := range xs {
			r := f - float64(scale*float64(levelsFP4[codeFP4(f/scale)]))
			err += float64(ws[j] * float64(r*r))
		}
		if err < least {
			best, least = byte(try), err
		}
	}
	return best
}

// codeFP4 is the code of the nearest doubled E2M1 number, the lower magnitude
// of two.
func codeFP4(x float64) uint8 {
	var sign uint8
	if x < 0 {
		x, sign = -x, 8
	}
	for i := range uint8(7) {
		if !(x > 0.5*(float64(levelsFP4[i])+float64(levelsFP4[i+1]))) {
			return i + sign*min(i, 1)
		}
	}
	return 7 + sign
}
