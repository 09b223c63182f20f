package dtype

import "math"

// F16ToF32 widens an IEEE binary16. The result is exact.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	f := uint32(h&0x7fff)<<13 + 112<<23
	switch h & 0x7c00 {
	case 0: // zero or subnormal: read the bits as 2^-14 + frac·2^-24, then subtract 2^-14
		return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(f+1<<23)-0x1p-14))
	case 0x7c00: // infinity or NaN
		f += 112 << 23
	}
	return math.Float32frombits(sign | f)
}

// F32ToF16 rounds to the nearest binary16, ties to even. It keeps subnormals.
// Overflow gives infinity, and every NaN gives sign|0x7E00.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	abs := b & 0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case abs < 0x38800000: // below the smallest normal, 2^-14
		if abs < 0x33000000 { // below half of the smallest subnormal
			return sign
		}
		shift := 126 - abs>>23
		frac := abs&0x7fffff | 0x800000
		half := uint32(1) << (shift - 1)
		q := frac >> shift
		rest := frac & (1<<shift - 1)
		if rest > half || rest == half && q&1 == 1 {
			q++
		}
		return sign | uint16(q)
	}
	abs += 0xfff + abs>>13&1
	return sign | uint16((abs-0x38000000)>>13)
}

// BF16ToF32 widens a bfloat16. The result is exact.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to the nearest bfloat16, ties to even. A NaN keeps its upper
// half, with bit 0x40 set.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
