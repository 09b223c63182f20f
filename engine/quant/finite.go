package quant

import (
	"encoding/binary"

	"godwit/engine/dtype"
)

// NotFinite looks for the first block of src whose values, or whose scale or
// minimum, are NaN or infinite. It returns the block's number, or -1 if every
// block is sound. A type without a codec has no such blocks.
//
// The bits of every exponent are looked at and nothing is decoded: 2 to 4 bytes
// of a block of a quantised type, all bytes of a float type.
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

// exponents report, by type, whether an exponent in whole blocks is that of
// infinity and NaN.
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

// An exponent of all ones overflows into the sign's place when one is added to
// it. Lanes of a word do not meet, since the sign is taken out before.

// floats32 looks at float32 values.
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

// floats16 looks at 16-bit values whose exponent has that lowest bit.
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

// halves looks at the float16 at an offset in each block of n bytes.
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

// pairs looks at the two float16 from an offset on in each block of n bytes.
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

// nibblesIQ1M looks at the float16 in the top nibbles of a block's last four words.
func nibblesIQ1M(src []byte) bool {
	for ; len(src) >= 56; src = src[56:] {
		if src[55]>>4&7 == 7 && src[53]>>4 >= 12 {
			return true
		}
	}
	return false
}

// bytesMXFP4 looks at the E8M0 exponents. 255 is NaN in the OCP specification, and
// 2^126 times the largest level, 6, is infinite as are those above.
func bytesMXFP4(src []byte) bool {
	for ; len(src) >= 17; src = src[17:] {
		if src[0] >= 253 {
			return true
		}
	}
	return false
}

// bytesNVFP4 looks at the four E4M3 scales, of which 7f is NaN.
func bytesNVFP4(src []byte) bool {
	for ; len(src) >= 36; src = src[36:] {
		if src[0] == 0x7f || src[1] == 0x7f || src[2] == 0x7f || src[3] == 0x7f {
			return true
		}
	}
	return false
}
