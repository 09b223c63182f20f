package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// codes512 turns codes into bytes, bytes into floats, and transposes chunks
// from the order of K to that of V.
func codes512(a *asm) {
	for _, bits := range []int{1, 2, 3, 4, 5} {
		a.expand512(bits)
	}
	for _, vecs := range []int{4, 2} {
		a.decode512(vecs, true)
		a.decode512(vecs, false)
		a.turn512(vecs)
	}
}

// shift shifts src to the right, or to the left if n is negative.
func (a *asm) shift(n int, src operand.Op, dst reg.Register) {
	switch {
	case n > 0:
		a.VPSRLD(imm(n), src, dst)
	case n < 0:
		a.VPSLLD(imm(-n), src, dst)
	default:
		a.VMOVDQU64(src, dst)
	}
}

// expand512 looks up levels. A byte permute reads six bits of an index, and the
// table is repeated. The bits that a shift leaves above a code therefore do no
// harm.
func (a *asm) expand512(bits int) {
	low := bits &^ 1
	if bits == 1 {
		low = 1
	}
	a.fn("expand"+string(rune('0'+bits))+"AVX512", "(dst, low, high, table *byte, steps, ahead int)",
		"looks up codes of %d bits; steps is a multiple of %d. Prefetches at distance ahead.", bits, stepsOf(bits, low))
	a.ld("dst", reg.RDI)
	a.ld("low", reg.RSI)
	if bits > low {
		a.ld("high", reg.RDX)
		a.VPBROADCASTD(a.word("high"+string(rune('0'+bits)), 0x01010101<<low), reg.Z30)
	}
	a.ld("table", reg.RAX)
	a.VMOVDQU64(at(reg.RAX, 0), reg.Z31)
	a.ld("steps", reg.RCX)
	a.ld("ahead", reg.R11)
	loop := a.label("loop")
	a.Label(loop)
	n := stepsOf(bits, low)
	per := 8 / low
	if bits > low {
		a.VMOVDQU64(at(reg.RDX, 0), reg.Z16)
		a.PREFETCHT0(ix(reg.RDX, reg.R11, 1, 0))
		a.ADDQ(imm(64), reg.RDX)
	}
	for s := range n {
		src, idx := zs[17+s/per], zs[s]
		if s%per == 0 {
			a.VMOVDQU64(at(reg.RSI, s/per*64), src)
			a.PREFETCHT0(ix(reg.RSI, reg.R11, 1, s/per*64))
		}
		if bits > low {
			a.shift(s%per*low, src, idx)
			a.shift(s-low, reg.Z16, reg.Z29)
			// Take the high plane where the mask is set, and the low plane
			// elsewhere.
			a.VPTERNLOGD(imm(0xd8), reg.Z30, reg.Z29, idx)
		} else if s%per > 0 {
			a.shift(s%per*low, src, idx)
		} else {
			idx = src
		}
		a.VPERMB(reg.Z31, idx, zs[s])
		a.VMOVDQU64(zs[s], at(reg.RDI, 64*s))
	}
	a.ADDQ(imm(n/per*64), reg.RSI)
	a.ADDQ(imm(n*64), reg.RDI)
	a.SUBQ(imm(n), reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.end()
}

// stepsOf returns the number of steps that fill whole loads.
func stepsOf(bits, low int) int {
	if bits > low {
		return 8
	}
	return 8 / low
}

func (a *asm) decode512(vecs int, exact bool) {
	name, what := "decodeTable", "looks up levels of codes below 16"
	if exact {
		name, what = "decodeInt", "widens bytes, after xoring them with flip,"
	}
	a.fn(name+string(rune('0'+vecs))+"AVX512", "(dst, codes *byte, groups int, table *float32, flip uint32)",
		"%s of %d steps per group.", what, vecs)
	a.ld("dst", reg.RDI)
	a.ld("codes", reg.RSI)
	a.ld("groups", reg.RCX)
	if exact {
		a.ld("flip", reg.EAX)
		a.VPBROADCASTD(reg.EAX, reg.Z31)
	} else {
		a.ld("table", reg.RAX)
		a.VMOVUPS(at(reg.RAX, 0), reg.Z31)
	}
	loop := a.label("loop")
	a.Label(loop)
	for v := range vecs {
		if exact {
			a.VPXORD(at(reg.RSI, 64*v), reg.Z31, reg.Z0)
		} else {
			a.VMOVDQU64(at(reg.RSI, 64*v), reg.Z0)
		}
		for j := range 4 {
			x := zs[1+j]
			if exact {
				a.shift(8*j-24, reg.Z0, x)
				a.VPSRAD(imm(24), x, x)
				a.VCVTDQ2PS(x, x)
			} else {
				a.shift(8*j, reg.Z0, x)
				a.VPERMPS(reg.Z31, x, x)
			}
			a.VMOVUPS(x, at(reg.RDI, 64*(j*vecs+v)))
		}
	}
	a.ADDQ(imm(64*vecs), reg.RSI)
	a.ADDQ(imm(256*vecs), reg.RDI)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.end()
}

// turn512 moves 128-bit lanes, which are four values of four tokens each, to
// the group of their tokens and transposes them there.
func (a *asm) turn512(vecs int) {
	a.fn("transpose"+string(rune('0'+vecs))+"AVX512", "(dst, codes *byte, flip uint32)", "transposes a chunk of %d values.", 16*vecs)
	a.ld("dst", reg.RDI)
	a.ld("codes", reg.RSI)
	a.ld("flip", reg.EAX)
	a.VPBROADCASTD(reg.EAX, reg.Z31)
	var parts []operand.Constant
	for i := range 16 {
		parts = append(parts, operand.U8(i%4*4+i/4))
	}
	a.VBROADCASTI32X4(a.constant("transpose", parts...), reg.Z30)
	for v := range vecs {
		for t := range 4 {
			for g := range 4 {
				a.VMOVDQU64(at(reg.RSI, ((4*v+g)*4+t)*64), zs[g])
			}
			a.VSHUFI32X4(imm(0x88), zs[1], zs[0], zs[4])
			a.VSHUFI32X4(imm(0xdd), zs[1], zs[0], zs[5])
			a.VSHUFI32X4(imm(0x88), zs[3], zs[2], zs[6])
			a.VSHUFI32X4(imm(0xdd), zs[3], zs[2], zs[7])
			a.VSHUFI32X4(imm(0x88), zs[6], zs[4], zs[8])
			a.VSHUFI32X4(imm(0x88), zs[7], zs[5], zs[9])
			a.VSHUFI32X4(imm(0xdd), zs[6], zs[4], zs[10])
			a.VSHUFI32X4(imm(0xdd), zs[7], zs[5], zs[11])
			for g := range 4 {
				x := zs[8+g]
				a.VPSHUFB(reg.Z30, x, x)
				a.VPXORD(reg.Z31, x, x)
				a.VMOVDQU64(x, at(reg.RDI, ((4*t+g)*vecs+v)*64))
			}
		}
	}
	a.end()
}
