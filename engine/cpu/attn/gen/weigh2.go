package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weigh2 makes the kernels for the softmax of a page and the rounding of its
// weights.
func weigh2(a *asm) {
	a.logits2()
	a.weights2()
	a.round2()
}

// lane returns a constant with a bit for each of eight lanes.
func (a *asm) lane() operand.Mem {
	var parts []operand.Constant
	for i := range 8 {
		parts = append(parts, operand.U32(1<<i))
	}
	return a.constant("lane", parts...)
}

// seen sets the lanes of dst whose bits are set in the byte at m. Y15 holds
// lane.
func (a *asm) seen(m operand.Mem, dst reg.VecPhysical) {
	a.VPBROADCASTB(m, dst)
	a.VPAND(reg.Y15, dst, dst)
	a.VPCMPEQD(reg.Y15, dst, dst)
}

func (a *asm) logits2() {
	a.fn("logitsAVX2", "(s *float32, stride, pages int, factor float32, visible *uint64, top float32) float32",
		"is Logits; stride is in bytes.")
	a.ld("s", reg.RDI)
	a.ld("stride", reg.R8)
	a.ld("pages", reg.RCX)
	a.ld("visible", reg.RDX)
	a.VMOVDQU(a.lane(), reg.Y15)
	a.VBROADCASTSS(operand.NewParamAddr("factor", 24), reg.Y14)
	a.VBROADCASTSS(a.k("lowest"), reg.Y13)
	a.VBROADCASTSS(a.k("largest"), reg.Y12)
	a.VBROADCASTSS(operand.NewParamAddr("top", 40), reg.Y0)
	a.VMOVAPS(reg.Y0, reg.Y1)
	loop := a.label("loop")
	a.Label(loop)
	for v := range 8 {
		x := ys[2+v%4]
		a.VMULPS(at(reg.RDI, 32*v), reg.Y14, x)
		// VMAXPS returns its second source if an operand is NaN. That is the
		// lowest value here.
		a.VMAXPS(reg.Y13, x, x)
		a.VMINPS(reg.Y12, x, x)
		a.VMOVUPS(x, at(reg.RDI, 32*v))
		a.seen(at(reg.RDX, v), reg.Y6)
		a.VBLENDVPS(reg.Y6, x, ys[v%2], x)
		a.VMAXPS(x, ys[v%2], ys[v%2])
	}
	a.ADDQ(imm(8), reg.RDX)
	a.ADDQ(reg.R8, reg.RDI)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.fold2(reg.Y0, reg.Y1, a.maxPS)
	a.Store(reg.X0, a.ReturnIndex(0))
	a.end()
}

// weights2 adds lanes in the order of 16-lane vectors: vectors v and v+8 of 16
// belong to lanes 0 to 7 if v is even, and to lanes 8 to 15 if v is odd.
func (a *asm) weights2() {
	a.fn("weightsAVX2", "(s *float32, stride, pages int, visible *uint64, top, tau float32, kept *uint64) float32",
		"is Weights; stride is in bytes.")
	a.ld("s", reg.RDI)
	a.ld("stride", reg.R8)
	a.ld("pages", reg.RCX)
	a.ld("visible", reg.RDX)
	a.ld("kept", reg.RSI)
	a.VMOVDQU(a.lane(), reg.Y15)
	a.VXORPS(reg.Y12, reg.Y12, reg.Y12)
	a.VXORPS(reg.Y13, reg.Y13, reg.Y13)
	loop := a.label("loop")
	a.Label(loop)
	for odd := range 2 {
		for pair := range 2 {
			for k := range 2 {
				v := 4*pair + 2*k + odd
				a.VBROADCASTSS(operand.NewParamAddr("top", 32), reg.Y8)
				a.VMOVUPS(at(reg.RDI, 32*v), ys[k])
				a.VSUBPS(reg.Y8, ys[k], ys[k])
			}
			a.exp2()
			for k := range 2 {
				v := 4*pair + 2*k + odd
				a.seen(at(reg.RDX, v), ys[4+k])
				a.VANDPS(ys[4+k], ys[k], ys[k])
			}
			a.VADDPS(reg.Y1, reg.Y0, reg.Y14)
			if pair == 0 {
				a.VMOVAPS(reg.Y14, reg.Y11)
			} else {
				a.VADDPS(reg.Y14, reg.Y11, reg.Y14)
				a.VADDPS(reg.Y14, ys[12+odd], ys[12+odd])
			}
			for k := range 2 {
				v := 4*pair + 2*k + odd
				a.VBROADCASTSS(operand.NewParamAddr("tau", 36), reg.Y8)
				a.VCMPPS(imm(13), reg.Y8, ys[k], reg.Y9)
				a.VANDPS(ys[4+k], reg.Y9, reg.Y9)
				a.VANDPS(reg.Y9, ys[k], ys[k])
				a.VMOVUPS(ys[k], at(reg.RDI, 32*v))
				a.VMOVMSKPS(reg.Y9, reg.EAX)
				a.MOVB(reg.AL, at(reg.RSI, v))
			}
		}
	}
	a.ADDQ(imm(8), reg.RDX)
	a.ADDQ(imm(8), reg.RSI)
	a.ADDQ(reg.R8, reg.RDI)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.fold2(reg.Y12, reg.Y13, a.addPS)
	a.Store(reg.X12, a.ReturnIndex(0))
	a.end()
}

// exp2 computes e^x of Y0 and Y1, which must not be above 0. It uses Y2 to Y10.
func (a *asm) exp2() {
	each := func(f func(x, n, p, t reg.VecPhysical)) {
		for v := range 2 {
			f(ys[v], ys[2+v], ys[4+v], ys[6+v])
		}
	}
	bc := func(name string) reg.VecPhysical {
		a.VBROADCASTSS(a.k(name), reg.Y8)
		return reg.Y8
	}
	c := bc("lo")
	each(func(x, _, _, _ reg.VecPhysical) { a.VMAXPS(c, x, x) })
	a.VBROADCASTSS(a.k("log2e"), reg.Y9)
	c = bc("magic")
	each(func(x, n, _, _ reg.VecPhysical) {
		a.VMOVAPS(c, n)
		a.VFMADD231PS(reg.Y9, x, n)
		a.VSUBPS(c, n, n)
	})
	for _, name := range []string{"ln2Hi", "ln2Lo"} {
		c = bc(name)
		each(func(x, n, _, _ reg.VecPhysical) { a.VFMADD231PS(c, n, x) })
	}
	c = bc("exp6")
	each(func(_, _, p, _ reg.VecPhysical) { a.VMOVAPS(c, p) })
	for _, name := range []string{"exp5", "exp4", "exp3", "exp2"} {
		c = bc(name)
		each(func(x, _, p, _ reg.VecPhysical) { a.VFMADD213PS(c, x, p) })
	}
	each(func(x, _, p, _ reg.VecPhysical) { a.VMULPS(x, p, p) })
	each(func(x, _, p, _ reg.VecPhysical) { a.VFMADD213PS(x, x, p) })
	c = bc("one")
	each(func(_, _, p, _ reg.VecPhysical) { a.VADDPS(c, p, p) })
	// p·2ⁿ as p·2^(n/2)·2^(n-n/2): only the second product rounds.
	each(func(x, n, p, t reg.VecPhysical) {
		a.VCVTPS2DQ(n, n)
		a.VPSRAD(imm(1), n, t)
		a.VPSUBD(t, n, n)
		a.VPSLLD(imm(23), t, t)
		a.VPADDD(c, t, t)
		a.VMULPS(t, p, p)
		a.VPSLLD(imm(23), n, n)
		a.VPADDD(c, n, n)
		a.VMULPS(n, p, x)
	})
}

func (a *asm) round2() {
	a.fn("roundWeightsAVX2", "(dst *byte, w *float32, scales *byte, flip uint32, n int, amax *float32) (signs uint32)",
		"rounds the products of n rows of 64 weights and scales, with their signs flipped by flip, "+
			"to a 255th of the largest magnitude of the row; negative ones give 0 and set bits of signs.")
	a.ld("dst", reg.RDI)
	a.ld("w", reg.RSI)
	a.ld("scales", reg.RDX)
	a.ld("n", reg.RCX)
	a.ld("amax", reg.R8)
	a.XORL(reg.EBX, reg.EBX)
	a.VBROADCASTSS(operand.NewParamAddr("flip", 24), reg.Y14)
	a.VXORPS(reg.Y15, reg.Y15, reg.Y15)
	a.VBROADCASTSS(a.word("magnitude", 0x7fffffff), reg.Y13)
	loop := a.label("loop")
	a.Label(loop)
	a.VXORPS(reg.Y8, reg.Y8, reg.Y8)
	a.VXORPS(reg.Y9, reg.Y9, reg.Y9)
	for v := range 8 {
		x := ys[v]
		a.VMOVUPS(at(reg.RSI, 32*v), x)
		a.VCVTPH2PS(at(reg.RDX, 16*v), reg.Y10)
		a.VCMPPS(imm(4), reg.Y15, x, reg.Y11)
		a.VMULPS(reg.Y10, x, x)
		a.VANDPS(reg.Y11, x, x)
		a.VXORPS(reg.Y14, x, x)
		a.VANDPS(reg.Y13, x, reg.Y10)
		a.VMAXPS(ys[8+v%2], reg.Y10, ys[8+v%2])
	}
	a.fold2(reg.Y8, reg.Y9, a.maxPS)
	a.VMOVSS(reg.X8, at(reg.R8, 0))
	a.VMAXSS(a.float("tiny", tiny), reg.X8, reg.X8)
	a.VMOVSS(a.float("full", 255), reg.X9)
	a.VDIVSS(reg.X8, reg.X9, reg.X9)
	a.VBROADCASTSS(reg.X9, reg.Y9)
	a.VPXOR(reg.Y8, reg.Y8, reg.Y8)
	for v := range 8 {
		x := ys[v]
		a.VMULPS(reg.Y9, x, x)
		a.VCVTPS2DQ(x, x)
		a.VPOR(x, reg.Y8, reg.Y8)
		a.VPMAXSD(reg.Y15, x, x)
	}
	for v := 0; v < 8; v += 4 {
		// Packing works within the halves of a register. The permutation undoes
		// that.
		a.VPACKUSDW(ys[v+1], ys[v], ys[v])
		a.VPACKUSDW(ys[v+3], ys[v+2], ys[v+2])
		a.VPACKUSWB(ys[v+2], ys[v], ys[v])
		a.VPERMD(ys[v], a.order(), ys[v])
		a.VMOVDQU(ys[v], at(reg.RDI, 8*v))
	}
	a.VMOVMSKPS(reg.Y8, reg.EAX)
	a.ORL(reg.EAX, reg.EBX)
	a.ADDQ(imm(64), reg.RDI)
	a.ADDQ(operand.U32(256), reg.RSI)
	a.ADDQ(imm(4), reg.R8)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.Store(reg.EBX, a.ReturnIndex(0))
	a.end()
}

// order loads the order of dwords after two packs into Y12.
func (a *asm) order() reg.Register {
	var parts []operand.Constant
	for _, i := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		parts = append(parts, operand.U32(i))
	}
	a.VMOVDQU(a.constant("order", parts...), reg.Y12)
	return reg.Y12
}
