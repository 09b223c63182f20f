package quant

import (
	"encoding/binary"

	"godwit/engine/dtype"
)

// NotFinite returns the number of the first block of src in which a value, the
// scale or the minimum is NaN or infinite. It returns -1 if there is no such block,
// or if the type has no codec.
//
// It decodes nothing. It reads all bytes of a float type, but only the 1 to 4 bytes
// of a quantised block that hold exponents.
func NotFinite(t dtype.Type, src []byte) int {
	if int(t) >= len(exponents) {
		return -1
	}
	n := t.Bytes()
	if n == 0 {
		return -1
	}
	src = src[:len(src)/n*n]
	damaged := exponents[t]
	if damaged == nil || !damaged(src) {
		return -1
	}
	for i := 0; i < len(src); i += n {
		if damaged(src[i : i+n]) {
			return i / n
		}
	}
	return -1
}

// exponents holds a function for each type. It reports whether any number in whole
// blocks of that type has the exponent of infinity and NaN.
var exponents = [...]func(src []byte) bool{
	dtype.F32:     floats32,
	dtype.F16:     func(src []byte) bool { return floats16(src, 0x0400) },
	dtype.BF16:    func(src []byte) bool { return floats16(src, 0x0080) },
	dtype.Q4_0:    func(src []byte) bool { return halves(src, 18, 0) },
	dtype.Q4_1:    func(src []byte) bool { return pairs(src, 20, 0) },
	dtype.Q5_0:    func(src []byte) bool { return halves(src, 22, 0) },
	dtype.Q5_1:    func(src []byte) bool { return pairs(src, 24, 0) },
	dtype.Q8_0:    func(src []byte) bool { return halves(src, 34, 0) },
	dtype.Q2_K:    func(src []byte) bool { return pairs(src, 84, 80) },
	dtype.Q3_K:    func(src []byte) bool { return halves(src, 110, 108) },
	dtype.Q4_K:    func(src []byte) bool { return pairs(src, 144, 0) },
	dtype.Q5_K:    func(src []byte) bool { return pairs(src, 176, 0) },
	dtype.Q6_K:    func(src []byte) bool { return halves(src, 210, 208) },
	dtype.IQ2_XXS: func(src []byte) bool { return halves(src, 66, 0) },
	dtype.IQ2_XS:  func(src []byte) bool { return halves(src, 74, 0) },
	dtype.IQ2_S:   func(src []byte) bool { return halves(src, 82, 0) },
	dtype.IQ3_XXS: func(src []byte) bool { return halves(src, 98, 0) },
	dtype.IQ3_S:   func(src []byte) bool { return halves(src, 110, 0) },
	dtype.IQ1_S:   func(src []byte) bool { return halves(src, 50, 0) },
	dtype.IQ1_M:   nibblesIQ1M,
	dtype.IQ4_NL:  func(src []byte) bool { return halves(src, 18, 0) },
	dtype.IQ4_XS:  func(src []byte) bool { return halves(src, 136, 0) },
	dtype.TQ1_0:   func(src []byte) bool { return halves(src, 54, 52) },
	dtype.TQ2_0:   func(src []byte) bool { return halves(src, 66, 64) },
	dtype.Q1_0:    func(src []byte) bool { return halves(src, 18, 0) },
	dtype.Q2_0:    func(src []byte) bool { return halves(src, 18, 0) },
	dtype.TQ3_1S:  func(src []byte) bool { return pairs(src, 16, 0) },
	dtype.TQ4_1S:  func(src []byte) bool { return pairs(src, 20, 0) },
	dtype.MXFP4:   bytesMXFP4,
	dtype.NVFP4:   bytesNVFP4,
}

// floats32, floats16, halves and pairs clear the sign of each number and add 1 to
// the exponent. If the exponent is all ones, it overflows into the cleared sign bit.
// It does not overflow into the next number of a word.

// floats32 reports whether a float32 is NaN or infinite.
func floats32(src []byte) bool {
	const low, one, high = 0x7fffffff_7fffffff, 0x00800000_00800000, 0x80000000_80000000
	var a, b, c, d uint64
	for len(src) >= 32 {
		a |= binary.LittleEndian.Uint64(src)&low + one
		b |= binary.LittleEndian.Uint64(src[8:])&low + one
		c |= binary.LittleEndian.Uint64(src[16:])&low + one
		d |= binary.LittleEndian.Uint64(src[24:])&low + one
		src = src[32:]
	}
	for len(src) >= 4 {
		a |= uint64(binary.LittleEndian.Uint32(src)&0x7fffffff + 0x00800000)
		src = src[4:]
	}
	return (a|b|c|d)&high != 0
}

// floats16 reports whether a 16-bit float is NaN or infinite. bit is the lowest bit
// of its exponent.
func floats16(src []byte, bit uint64) bool {
	const low, high, each = 0x7fff7fff_7fff7fff, 0x80008000_80008000, 0x00010001_00010001
	one := bit * each
	var a, b, c, d uint64
	for len(src) >= 32 {
		a |= binary.LittleEndian.Uint64(src)&low + one
		b |= binary.LittleEndian.Uint64(src[8:])&low + one
		c |= binary.LittleEndian.Uint64(src[16:])&low + one
		d |= binary.LittleEndian.Uint64(src[24:])&low + one
		src = src[32:]
	}
	for len(src) >= 2 {
		a |= uint64(binary.LittleEndian.Uint16(src))&0x7fff + bit
		src = src[2:]
	}
	return (a|b|c|d)&high != 0
}

// halves reports whether the float16 at an offset in any block of n bytes is NaN or
// infinite.
func halves(src []byte, n, at int) bool {
	var a, b uint32
	for len(src) >= 2*n {
		a |= uint32(binary.LittleEndian.Uint16(src[at:]))&0x7fff + 0x0400
		b |= uint32(binary.LittleEndian.Uint16(src[n+at:]))&0x7fff + 0x0400
		src = src[2*n:]
	}
	if len(src) >= n {
		a |= uint32(binary.LittleEndian.Uint16(src[at:]))&0x7fff + 0x0400
	}
	return (a|b)&0x8000 != 0
}

// pairs reports whether one of the two float16 numbers that start at an offset in
// any block of n bytes is NaN or infinite.
func pairs(src []byte, n, at int) bool {
	var a, b uint32
	for len(src) >= 2*n {
		a |= binary.LittleEndian.Uint32(src[at:])&0x7fff7fff + 0x04000400
		b |= binary.LittleEndian.Uint32(src[n+at:])&0x7fff7fff + 0x04000400
		src = src[2*n:]
	}
	if len(src) >= n {
		a |= binary.LittleEndian.Uint32(src[at:])&0x7fff7fff + 0x04000400
	}
	return (a|b)&0x80008000 != 0
}

// nibblesIQ1M reports whether the scale of an IQ1_M block is NaN or infinite. The
// scale is a float16 in the top nibbles of the block's last four words.
func nibblesIQ1M(src []byte) bool {
	for ; len(src) >= 56; src = src[56:] {
		if src[55]>>4&7 == 7 && src[53]>>4 >= 12 {
			return true
		}
	}
	return false
}

// bytesMXFP4 reports whether the E8M0 scale of a block is 253 or more. From 253,
// which means 2^126, the product of the scale and the largest level, 6, is infinite.
// 255 is NaN in the OCP specification.
func bytesMXFP4(src []byte) bool {
	for ; len(src) >= 17; src = src[17:] {
		if src[0] >= 253 {
			return true
		}
	}
	return false
}

// bytesNVFP4 reports whether one of the four E4M3 scales of a block is 7f, which is
// NaN.
func bytesNVFP4(src []byte) bool {
	for ; len(src) >= 36; src = src[36:] {
		if src[0] == 0x7f || src[1] == 0x7f || src[2] == 0x7f || src[3] == 0x7f {
			return true
		}
	}
	return false
}
