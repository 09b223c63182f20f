package kv

import "math"

// encodeStock encodes one block by the plain reference of the stock formats.
// Source: spec kv-formats.md section 10.
func (t *Type) encodeStock(block []byte, x []float32) int {
	switch t.Scale.Rule {
	case StockAmax:
		return t.encodeAmax(block, x)
	case StockSigned:
		return t.encodeSigned(block, x)
	case StockMinStep:
		return t.encodeMinStep(block, x)
	case StockFitted:
		return t.encodeFitted(block, x)
	}
	panic("kv: type " + t.Name + " has no encoder")
}

// encodeAmax encodes x/(amax/127), rounded with halves away from zero. NaN restarts
// the running maximum, as in the reference.
func (t *Type) encodeAmax(block []byte, x []float32) int {
	var amax float32
	for _, v := range x {
		if a := abs32(v); !(amax > a) {
			amax = a
		}
	}
	d := amax / 127
	var id float32
	if d != 0 {
		id = 1 / d
	}
	var codes [maxBlock]uint8
	for i, v := range x {
		codes[i] = uint8(toInt(float32(math.Round(float64(v * id)))))
	}
	t.Codes.pack(block, codes[:len(x)])
	return putF16(block, t.Scale.At, d)
}

// encodeSigned scales x so that the value of largest magnitude, the first among
// equals, gets the lowest level -2^(bits-1).
func (t *Type) encodeSigned(block []byte, x []float32) int {
	m := extreme(x)
	half := float32(int(1) << (t.Codes.Bits - 1))
	top := int32(1)<<t.Codes.Bits - 1
	d := m / -half
	var id float32
	if d != 0 {
		id = 1 / d
	}
	var codes [maxBlock]uint8
	for i, v := range x {
		codes[i] = uint8(min(top, int32(int8(toInt(float32(v*id)+(half+0.5))))))
	}
	t.Codes.pack(block, codes[:len(x)])
	return putF16(block, t.Scale.At, d)
}

// encodeMinStep encodes steps above the minimum. A block of NaN has neither minimum
// nor step. Both are stored as 0, and the block counts as saturated.
func (t *Type) encodeMinStep(block []byte, x []float32) (saturated int) {
	lo, hi := float32(math.MaxFloat32), float32(-math.MaxFloat32)
	for _, v := range x {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	top := int32(1)<<t.Codes.Bits - 1
	if hi < lo {
		lo, hi, saturated = 0, 0, 1
	}
	d := (hi - lo) / float32(top)
	var id float32
	if d != 0 {
		id = 1 / d
	}
	var codes [maxBlock]uint8
	for i, v := range x {
		codes[i] = uint8(min(top, int32(int8(toInt(float32((v-lo)*id)+0.5)))))
	}
	t.Codes.pack(block, codes[:len(x)])
	return max(saturated, putF16(block, t.Scale.At, d), putF16(block, t.Scale.Min, lo))
}

// encodeFitted first encodes to the nearest levels, with the scale that puts
// the extreme value on the first level. It then fits the scale to these codes,
// weighting each value by x².
func (t *Type) encodeFitted(block []byte, x []float32) int {
	m := extreme(x)
	if abs32(m) < t.Scale.Floor {
		clear(block)
		return 0
	}
	id := 1 / (m / t.Codes.Levels[0])
	var codes [maxBlock]uint8
	var sumLX, sumLL float32
	for i, v := range x {
		codes[i] = nearest(t.Codes.Levels, float32(v*id))
		l := t.Codes.Levels[codes[i]]
		w := float32(v * v)
		sumLX += float32(float32(w*l) * v)
		sumLL += float32(float32(w*l) * l)
	}
	t.Codes.pack(block, codes[:len(x)])
	return putF16(block, t.Scale.At, sumLX/sumLL)
}

// extreme returns the value of largest magnitude, the first among equals.
func extreme(x []float32) (m float32) {
	var amax float32
	for _, v := range x {
		if a := abs32(v); a > amax {
			amax, m = a, v
		}
	}
	return m
}

// nearest returns the index of the level nearest to v. Ties go up, values out
// of range are clamped, and NaN gets the last level.
func nearest(levels []float32, v float32) uint8 {
	for i := range len(levels) - 1 {
		if v-levels[i] < levels[i+1]-v {
			return uint8(i)
		}
	}
	return uint8(len(levels) - 1)
}

// toInt truncates to int32. Values that do not fit, and NaN, give the lowest
// int32, as on x86.
func toInt(v float32) int32 {
	if v >= -2147483648 && v < 2147483648 {
		return int32(v)
	}
	return math.MinInt32
}
