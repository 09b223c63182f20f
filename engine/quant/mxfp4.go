package quant

import "math"

// An MXFP4 block (OCP Microscaling 1.0) of 17 bytes holds 32 values. It begins with
// an exponent byte e, which means the scale 2^(e-127). Then come E2M1 numbers in
// nibbles ordered as in Q4_0. As in ggml, e = 255 is a scale like the others.

// levelsFP4 holds the E2M1 numbers, doubled.
var levelsFP4 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func decodeMXFP4(dst []float32, src []byte) {
	for len(dst) > 0 {
		b := (*[17]byte)(src)
		putLevels((*[32]float32)(dst), (*[16]byte)(b[1:]), &levelsFP4, halfE8M0(b[0]))
		dst, src = dst[32:], src[17:]
	}
}

// halfE8M0 returns half of the scale, 2^(e-128), because the levels are doubled.
func halfE8M0(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(1 << 21 << e) // subnormal
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// encodeMXFP4 uses the exponent that puts the value with the largest magnitude
// between the levels 4 and 8, as in the OCP specification. If importance is not nil,
// it also tries the exponents below and above and takes the best one.
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

// exponentMX returns the scale byte of floor(log2 |x|) - 2. It returns at most 252,
// with which the largest level is still finite in float32.
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

// codeFP4 returns the code of the nearest doubled E2M1 number. If two are equally
// near, it returns the one with the lower magnitude.
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
