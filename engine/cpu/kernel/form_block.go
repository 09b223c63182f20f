package kernel

import "math"

// A block of the 32-column types has a scale, in some types a minimum, and codes.

var formQ4_0 = form{
	elems: 32, subs: 1,
	first: 32, grp: 256, codes: nibblesOf, offset: 8,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			copy16(dst, s, r)
			nibbles(dst[32:], s[2:], r)
		}
	},
	scales: func(blk []byte, _, row int) scales { return scales{d: same(f16(blk, row))} },
}

var formQ4_1 = form{
	elems: 32, subs: 1, mins: true,
	first: 64, grp: 256, codes: nibblesOf,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			copy16(dst, s, r)
			copy16(dst[32:], s[2:], r)
			nibbles(dst[64:], s[4:], r)
		}
	},
	scales: blockMin,
}

var formQ5_0 = form{
	elems: 32, subs: 1,
	first: 32, grp: 320, codes: nibblesOf, at: 64, bit: 4, offset: 16,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			copy16(dst, s, r)
			put32(dst[32+4*r:], plane(u32(s[2:])))
			nibbles(dst[96:], s[6:], r)
		}
	},
	scales: func(blk []byte, _, row int) scales { return scales{d: same(f16(blk, row))} },
}

var formQ5_1 = form{
	elems: 32, subs: 1, mins: true,
	first: 64, grp: 320, codes: nibblesOf, at: 64, bit: 4,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			copy16(dst, s, r)
			copy16(dst[32:], s[2:], r)
			put32(dst[64+4*r:], plane(u32(s[4:])))
			nibbles(dst[128:], s[8:], r)
		}
	},
	scales: blockMin,
}

var formQ8_0 = form{
	elems: 32, subs: 1,
	first: 32, grp: 512, codes: bytesOf, offset: -128,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			copy16(dst, s, r)
			for j := range 8 {
				put32(dst[32+64*j+4*r:], u32(s[2+4*j:])^0x80808080)
			}
		}
	},
	scales: func(blk []byte, _, row int) scales { return scales{d: same(f16(blk, row))} },
}

var formIQ4_NL = form{
	elems: 32, subs: 1,
	first: 32, grp: 256, codes: nibblesOf, levels: &levelsNL,
	pack:   formQ4_0.pack,
	scales: func(blk []byte, _, row int) scales { return scales{d: same(f16(blk, row))} },
}

var formMXFP4 = form{
	elems: 32, subs: 1,
	first: 16, grp: 256, codes: nibblesOf, levels: &levelsMX,
	pack: func(dst, src []byte, stride, n int) {
		for r := range n {
			s := src[r*stride:]
			dst[r] = s[0]
			nibbles(dst[16:], s[1:], r)
		}
	},
	scales: func(blk []byte, _, row int) scales { return scales{d: same(halfE8M0(blk[row]))} },
}

func blockMin(blk []byte, _, row int) scales {
	return scales{d: same(f16(blk, row)), m: same(f16(blk, 16+row))}
}

// levelsNL are the 16 levels of IQ4_NL and IQ4_XS in ggml.
var levelsNL = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// levelsMX are twice the values of FP4 (E2M1): OCP Microscaling Formats 1.0, table 5.
var levelsMX = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// halfE8M0 returns half of the scale 2^(e-127), so that doubled levels fit. For
// e = 255, which is NaN in the OCP text, it returns 2^127, as ggml does.
func halfE8M0(e uint8) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}
