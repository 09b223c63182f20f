package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// roofline512 measures the machine: reading memory, and VPDPBUSD on registers.
func roofline512(a *asm) {
	a.fn("readAVX512", "(p *byte, n int) uint64", "reads n bytes, a multiple of 256, and returns a mix of them.")
	a.ld("p", reg.RSI)
	a.ld("n", reg.RCX)
	for i := range 4 {
		a.VPXORD(zs[i], zs[i], zs[i])
	}
	loop := a.label("loop")
	a.Label(loop)
	for i := range 4 {
		a.VPXORD(at(reg.RSI, 64*i), zs[i], zs[i])
	}
	a.ADDQ(imm(256), reg.RSI)
	a.SUBQ(imm(256), reg.RCX)
	a.JNZ(LabelRef(loop))
	a.VPXORD(zs[1], zs[0], zs[0])
	a.VPXORD(zs[3], zs[2], zs[2])
	a.VPXORD(zs[2], zs[0], zs[0])
	a.VMOVQ(reg.X0, reg.RAX)
	a.Store(reg.RAX, a.ReturnIndex(0))
	a.VZEROUPPER()
	a.RET()

	a.fn("dotPeakAVX512", "(n int)", "does n times 24 independent VPDPBUSD.")
	a.ld("n", reg.RCX)
	loop = a.label("loop")
	a.Label(loop)
	for i := range 24 {
		a.VPDPBUSD(zs[30], zs[31], zs[i])
	}
	a.DECQ(reg.RCX)
	a.JNZ(LabelRef(loop))
	a.VZEROUPPER()
	a.RET()

	a.fn("dotPeakMemAVX512", "(n int, p *byte)", "does n times 24 independent VPDPBUSD.")
	a.ld("n", reg.RCX)
	a.ld("p", reg.RSI)
	a.MOVQ(U32(64), reg.R8)
	loop = a.label("loop")
	a.Label(loop)
	for i := range 24 {
		a.VPDPBUSD_BCST(mem(reg.RSI, reg.R8, 1, i*4), zs[31], zs[i])
	}
	a.DECQ(reg.RCX)
	a.JNZ(LabelRef(loop))
	a.VZEROUPPER()
	a.RET()
}
