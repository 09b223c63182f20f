package main

import (
	"github.com/mmcloughlin/avo/reg"
)

func roofline512(a *asm) { roofline(newVec(a, true)) }
func roofline2(a *asm)   { roofline(newVec(a, false)) }

// roofline makes the kernels that measure the machine: reading memory with the
// prefetch distance of matrices, and integer products on registers.
func roofline(v *vec) {
	v.fn("read"+v.tier(), "(p []byte) uint64", "reads p, a multiple of 256 bytes, and returns a mix of it.")
	v.Load(v.Param("p").Base(), reg.RSI)
	v.Load(v.Param("p").Len(), reg.RCX)
	for i := range 4 {
		v.zero(v.r(i))
	}
	v.repeat(256, func() {
		for i := 0; i < 256; i += 64 {
			v.PREFETCHT0(at(reg.RSI, ahead+i))
		}
		for i := 0; i < 256; i += v.bytes() {
			r := v.r(i / v.bytes() % 4)
			v.VXORPS(at(reg.RSI, i), r, r)
		}
		v.ADDQ(imm(256), reg.RSI)
	})
	v.VXORPS(v.r(1), v.r(0), v.r(0))
	v.VXORPS(v.r(3), v.r(2), v.r(2))
	v.VXORPS(v.r(2), v.r(0), v.r(0))
	v.VMOVQ(reg.X0, reg.RAX)
	v.Store(reg.RAX, v.ReturnIndex(0))
	v.end()

	v.fn("peak"+v.tier(), "(n int)", "does n times 12 independent products of words, added to sums.")
	v.ld("n", reg.RCX)
	v.repeat(1, func() {
		for i := range 12 {
			if v.wide {
				v.VPDPWSSD(v.r(13), v.r(14), v.r(i))
			} else {
				v.VPMADDWD(v.r(13), v.r(14), v.r(12))
				v.VPADDD(v.r(12), v.r(i), v.r(i))
			}
		}
	})
	v.end()

	v.fn("prefetch"+v.tier(), "(p *byte, n int)", "prefetches n lines of 64 bytes.")
	v.ld("p", reg.RSI)
	v.ld("n", reg.RCX)
	v.repeat(1, func() {
		v.PREFETCHT1(at(reg.RSI, 0))
		v.ADDQ(imm(64), reg.RSI)
	})
	v.RET()
}
