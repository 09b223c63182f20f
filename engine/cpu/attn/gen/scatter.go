package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scatter writes the codes of a row into the planes of a page. Step s of a
// plane is in line s>>log, shifted left by (s & last)·bits.
func (w *wide) scatter() {
	w.fn("scatterValues"+w.tier, "(plane, codes *byte, steps, step, log, bits, shift, first int)",
		"writes bits of 16 codes per step, from bit first on, into bytes 4 apart, from byte shift/8 on.")
	w.ld("plane", reg.RDI)
	w.ld("codes", reg.RSI)
	w.ld("steps", reg.R8)
	w.ld("step", reg.R9)
	w.ld("log", reg.R10)
	w.ld("bits", reg.R11)
	w.ld("shift", reg.R12)
	w.ld("first", reg.RAX)
	first, place, mask, count := reg.X15, reg.X14, w.r[13], w.r[12]
	w.VMOVQ(reg.RAX, first)
	w.MOVQ(operand.U32(1), reg.RAX)
	w.SHLXQ(reg.R11, reg.RAX, reg.RAX)
	w.DECQ(reg.RAX)
	w.VMOVQ(reg.RAX, mask.AsX())
	w.VPBROADCASTD(mask.AsX(), mask)
	w.MOVQ(operand.U32(1), reg.R13)
	w.SHLXQ(reg.R10, reg.R13, reg.R13)
	w.DECQ(reg.R13) // last
	w.loop(reg.R8, 1, func() {
		w.MOVQ(reg.R9, reg.RAX)
		w.ANDQ(reg.R13, reg.RAX)
		w.IMULQ(reg.R11, reg.RAX)
		w.ADDQ(reg.R12, reg.RAX)
		w.VMOVQ(reg.RAX, place)
		w.SHRXQ(reg.R10, reg.R9, reg.RAX)
		w.SHLQ(imm(6), reg.RAX)
		w.VPSLLD(place, mask, count)
		for i := range 16 / w.lanes {
			x, m := w.r[i], ix(reg.RDI, reg.RAX, 1, i*w.bytes())
			w.VPMOVZXBD(at(reg.RSI, i*w.lanes), x)
			w.VPSRLD(first, x, x)
			if w.lanes == 16 {
				w.VPANDD(mask, x, x)
				w.VPSLLD(place, x, x)
				w.VPANDND(m, count, w.r[4])
				w.VPORD(w.r[4], x, x)
				w.VMOVDQU64(x, m)
			} else {
				w.VPAND(mask, x, x)
				w.VPSLLD(place, x, x)
				w.VPANDN(m, count, w.r[4])
				w.VPOR(w.r[4], x, x)
				w.VMOVDQU(x, m)
			}
		}
		w.INCQ(reg.R9)
		w.ADDQ(imm(16), reg.RSI)
	})
	w.end()
}

// scatterTokens needs no vectors. It needs only the shifts that came with AVX2.
func scatterTokens(a *asm) {
	a.fn("scatterTokensBMI2", "(plane, codes *byte, groups, step, log, bits, first int)",
		"writes bits of 4 codes per group, from bit first on, into every fourth step.")
	a.ld("plane", reg.RDI)
	a.ld("codes", reg.RSI)
	a.ld("groups", reg.R8)
	a.ld("step", reg.R9)
	a.ld("log", reg.R10)
	a.ld("bits", reg.R11)
	a.ld("first", reg.R12)
	a.MOVQ(operand.U32(1), reg.RAX)
	a.SHLXQ(reg.R11, reg.RAX, reg.RAX)
	a.DECQ(reg.RAX)
	a.IMUL3Q(operand.U32(0x01010101), reg.RAX, reg.RBX) // mask
	a.MOVQ(operand.U32(1), reg.R13)
	a.SHLXQ(reg.R10, reg.R13, reg.R13)
	a.DECQ(reg.R13) // last
	loop := a.label("loop")
	a.Label(loop)
	a.MOVQ(reg.R9, reg.RCX)
	a.ANDQ(reg.R13, reg.RCX)
	a.IMULQ(reg.R11, reg.RCX)
	a.SHRXQ(reg.R10, reg.R9, reg.RDX)
	a.SHLQ(imm(6), reg.RDX)
	a.MOVL(at(reg.RSI, 0), reg.EAX)
	a.SHRXL(reg.R12L, reg.EAX, reg.EAX)
	a.ANDL(reg.EBX, reg.EAX)
	a.SHLXL(reg.ECX, reg.EAX, reg.EAX)
	a.SHLXL(reg.ECX, reg.EBX, reg.ECX)
	a.ANDNL(ix(reg.RDI, reg.RDX, 1, 0), reg.ECX, reg.ECX)
	a.ORL(reg.ECX, reg.EAX)
	a.MOVL(reg.EAX, ix(reg.RDI, reg.RDX, 1, 0))
	a.ADDQ(imm(4), reg.R9)
	a.ADDQ(imm(4), reg.RSI)
	a.DECQ(reg.R8)
	a.JNZ(operand.LabelRef(loop))
	a.RET()

	a.fn("spreadHalvesBMI2", "(dst, src *byte, n int)", "writes n 16-bit words one line of f16 in a page apart; n is even.")
	a.ld("dst", reg.RDI)
	a.ld("src", reg.RSI)
	a.ld("n", reg.RCX)
	loop = a.label("loop")
	a.Label(loop)
	a.MOVL(at(reg.RSI, 0), reg.EAX)
	a.MOVW(reg.AX, at(reg.RDI, 0))
	a.SHRL(imm(16), reg.EAX)
	a.MOVW(reg.AX, at(reg.RDI, 128))
	a.ADDQ(operand.U32(256), reg.RDI)
	a.ADDQ(imm(4), reg.RSI)
	a.SUBQ(imm(2), reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.RET()
}
