package kv

import "math"

// encodeGroup encodes x, len(x) = group(), into its blocks; x is overwritten.
func (t *Type) encodeGroup(dst []byte, x []float32, at At) (saturated int) {
	switch t.Scale.Rule {
	case CorrectedNorm:
		return t.encodeCorrected(dst, x)
	case RotatedNorm:
		return t.encodeRotatedNorm(dst, x)
	case OuterAmax:
		return t.encodeOuter(dst, x)
	case Norm:
		return t.encodeNorm(dst, x, at)
	case RMS:
		return t.encodeRMS(dst, x)
	case Unbiased:
		return t.encodeTrellis(dst, x)
	}
	if t.Rotation.Size > 0 {
		t.Rotation.forward(x)
	}
	if t.Float {
		return encodeFloats(dst, x, t.Stored)
	}
	for len(x) > 0 {
		saturated += t.encodeStock(dst[:t.Bytes], x[:t.Elems])
		dst, x = dst[t.Bytes:], x[t.Elems:]
	}
	return saturated
}

// encodeCorrected is the rule of turbo. It divides by the length before the
// rotation. Every block of the rotation stores the length divided by the length
// of the chosen levels.
func (t *Type) encodeCorrected(dst []byte, x []float32) int {
	n := sqrt32(sumSquares(x))
	inv := float32(0)
	switch {
	case n > t.Scale.Floor:
		inv = 1 / n
	case t.Scale.ZeroNaN:
		clear(x)
	}
	times(x, inv)
	t.Rotation.forward(x)
	var codes [maxRotation]uint8
	var sum float32
	for i, v := range x {
		codes[i] = t.Codes.code(v)
		l := t.Codes.Levels[codes[i]]
		sum += float32(l * l)
	}
	if m := sqrt32(sum); m > t.Scale.Floor {
		n /= m
	}
	clear(dst)
	saturated := 0
	for first := 0; first < len(x); first += t.Elems {
		t.Codes.pack(dst[:t.Bytes], codes[first:first+t.Elems])
		saturated += putF16(dst, t.Scale.At, n)
		dst = dst[t.Bytes:]
	}
	return saturated
}

// encodeRotatedNorm is the rule of oa-turbo: the length after an unnormalised
// rotation. NaN gets code 0 here.
func (t *Type) encodeRotatedNorm(dst []byte, x []float32) int {
	t.Rotation.forward(x)
	n := sqrt32(sumSquares(x))
	var codes [maxBlock]uint8
	inv := 1 / n
	for i, v := range x {
		switch v = float32(v * inv); {
		case !(n > 0):
			codes[i] = t.Scale.Zero
		case v == v:
			codes[i] = t.Codes.code(v)
		}
	}
	clear(dst)
	t.Codes.pack(dst, codes[:len(x)])
	return putF16(dst, t.Scale.At, n)
}

// encodeOuter is the rule of tq3_0: the largest magnitude gets the outermost
// level. NaN never counts as the largest.
func (t *Type) encodeOuter(dst []byte, x []float32) int {
	t.Rotation.forward(x)
	var amax float32
	for _, v := range x {
		if a := abs32(v); a > amax {
			amax = a
		}
	}
	d := amax / t.Scale.Outer
	var id float32
	if d > 0 {
		id = 1 / d
	}
	var codes, sign [maxBlock]uint8
	for i, v := range x {
		v = float32(v * id)
		codes[i] = t.Codes.code(v)
		if t.Residual != nil && v-t.Codes.Levels[codes[i]] >= 0 {
			sign[i] = 1
		}
	}
	clear(dst)
	t.Codes.pack(dst, codes[:len(x)])
	if t.Residual != nil {
		putStream(dst[t.Residual.Bits:], sign[:len(x)], 1)
	}
	return putF16(dst, t.Scale.At, d)
}

func abs32(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }
