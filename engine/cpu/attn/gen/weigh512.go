package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weigh512 makes the kernels for the softmax of a page and the rounding of its
// weights.
func weigh512(a *asm) {
	a.logits()
	a.weights()
	a.round()
}

// The exponential has the steps and constants of kernel.Exp.
var expConsts = map[string]float32{
	"lo": -104, "magic": 12582912,
	"log2e": 1.44269504088896340736, "ln2Hi": -0.693147182464599609375, "ln2Lo": 1.90465429995776804525e-9,
	"one": 1, "exp2": 0.49999994, "exp3": 0.16666521, "exp4": 0.041668385, "exp5": 0.00836871, "exp6": 0.0013814636,
	"largest": math.MaxFloat32, "lowest": -math.MaxFloat32,
}

func (a *asm) k(name string) operand.Mem { return a.float(name, expConsts[name]) }

// logits has the visible cells of a page in K1 to K4.
func (a *asm) logits() {
	a.fn("logitsAVX512", "(s *float32, stride, pages int, factor float32, visible *uint64, top float32) float32",
		"is Logits; stride is in bytes.")
	a.ld("s", reg.RDI)
	a.ld("stride", reg.R8)
	a.ld("pages", reg.RCX)
	a.ld("visible", reg.RDX)
	a.VBROADCASTSS(operand.NewParamAddr("factor", 24), reg.Z16)
	a.VBROADCASTSS(a.k("lowest"), reg.Z17)
	a.VBROADCASTSS(a.k("largest"), reg.Z18)
	a.VBROADCASTSS(operand.NewParamAddr("top", 40), reg.Z19)
	for v := range 4 {
		a.VMOVAPS(reg.Z19, zs[v])
	}
	loop := a.label("loop")
	a.Label(loop)
	a.masks(reg.RDX, reg.RAX)
	for v := range 4 {
		x := zs[4+v]
		a.VMULPS(at(reg.RDI, 64*v), reg.Z16, x)
		a.VMINPS(reg.Z18, x, zs[8+v])
		// NaN counts as the lowest value. It is unordered with itself.
		a.VCMPPS(imm(3), x, x, reg.K5)
		a.VMOVAPS(reg.Z17, reg.K5, zs[8+v])
		a.VMAXPS(reg.Z17, zs[8+v], x)
		a.VMOVUPS(x, at(reg.RDI, 64*v))
		a.VMAXPS(x, zs[v], ks[1+v], zs[v])
	}
	a.ADDQ(imm(8), reg.RDX)
	a.ADDQ(reg.R8, reg.RDI)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.VMAXPS(zs[1], zs[0], zs[0])
	a.VMAXPS(zs[3], zs[2], zs[2])
	a.VMAXPS(zs[2], zs[0], zs[0])
	a.fold(reg.Z0, reg.Z1, a.maxPS)
	a.Store(reg.X0, a.ReturnIndex(0))
	a.end()
}

func (a *asm) weights() {
	a.fn("weightsAVX512", "(s *float32, stride, pages int, visible *uint64, top, tau float32, kept *uint64) float32",
		"is Weights; stride is in bytes.")
	a.ld("s", reg.RDI)
	a.ld("stride", reg.R8)
	a.ld("pages", reg.RCX)
	a.ld("visible", reg.RDX)
	a.ld("kept", reg.RSI)
	a.VBROADCASTSS(operand.NewParamAddr("top", 32), reg.Z29)
	a.VBROADCASTSS(operand.NewParamAddr("tau", 36), reg.Z30)
	a.VPXORD(reg.Z12, reg.Z12, reg.Z12)
	a.expConsts()
	loop := a.label("loop")
	a.Label(loop)
	a.masks(reg.RDX, reg.RAX)
	for v := range 4 {
		a.VMOVUPS(at(reg.RDI, 64*v), zs[v])
		a.VSUBPS(reg.Z29, zs[v], zs[v])
	}
	a.exp()
	for v := range 4 {
		a.VMOVAPS_Z(zs[v], ks[1+v], zs[v])
	}
	a.VADDPS(zs[1], zs[0], reg.Z8)
	a.VADDPS(zs[3], zs[2], reg.Z9)
	a.VADDPS(reg.Z9, reg.Z8, reg.Z8)
	a.VADDPS(reg.Z8, reg.Z12, reg.Z12)
	for v := 3; v >= 0; v-- {
		a.VCMPPS(imm(13), reg.Z30, zs[v], ks[1+v], reg.K5)
		a.VMOVAPS_Z(zs[v], reg.K5, zs[v])
		a.VMOVUPS(zs[v], at(reg.RDI, 64*v))
		a.KMOVW(reg.K5, at(reg.RSI, 2*v))
	}
	a.ADDQ(imm(8), reg.RDX)
	a.ADDQ(imm(8), reg.RSI)
	a.ADDQ(reg.R8, reg.RDI)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.fold(reg.Z12, reg.Z13, a.addPS)
	a.Store(reg.X12, a.ReturnIndex(0))
	a.end()
}

// expConsts loads the constants of exp.
func (a *asm) expConsts() {
	for i, name := range []string{"lo", "log2e", "magic", "ln2Hi", "ln2Lo", "exp6", "exp5", "exp4", "exp3", "exp2", "one"} {
		a.VBROADCASTSS(a.k(name), zs[16+i])
	}
}

// exp computes e^x of Z0 to Z3, which must not be above 0.
func (a *asm) exp() {
	each := func(f func(v int)) {
		for v := range 4 {
			f(v)
		}
	}
	x := func(v int) reg.VecPhysical { return zs[v] }
	n := func(v int) reg.VecPhysical { return zs[4+v] }
	p := func(v int) reg.VecPhysical { return zs[8+v] }
	each(func(v int) { a.VMAXPS(reg.Z16, x(v), x(v)) })
	each(func(v int) {
		a.VMOVAPS(reg.Z18, n(v))
		a.VFMADD231PS(reg.Z17, x(v), n(v))
		a.VSUBPS(reg.Z18, n(v), n(v))
	})
	each(func(v int) { a.VFMADD231PS(reg.Z19, n(v), x(v)) })
	each(func(v int) { a.VFMADD231PS(reg.Z20, n(v), x(v)) })
	each(func(v int) { a.VMOVAPS(reg.Z21, p(v)) })
	for _, z := range []reg.VecPhysical{reg.Z22, reg.Z23, reg.Z24, reg.Z25} {
		each(func(v int) { a.VFMADD213PS(z, x(v), p(v)) })
	}
	each(func(v int) { a.VMULPS(x(v), p(v), p(v)) })
	each(func(v int) { a.VFMADD213PS(x(v), x(v), p(v)) })
	each(func(v int) { a.VADDPS(reg.Z26, p(v), p(v)) })
	each(func(v int) { a.VSCALEFPS(n(v), p(v), x(v)) })
}

// roundConsts loads the constants for rounding a row of 64 weights. Z16 to Z19
// are the scales of the tokens, Z24 is zero, Z25 the mask of a magnitude, Z26
// the order of packed bytes. Z27 is free.

func (a *asm) roundConsts() {
	a.VPXORD(reg.Z24, reg.Z24, reg.Z24)
	a.VPBROADCASTD(a.word("magnitude", 0x7fffffff), reg.Z25)
	var parts []operand.Constant // dwords of bytes of each vector's tokens, by token
	for i := range 16 {
		parts = append(parts, operand.U32(i%4*4+i/4))
	}
	a.VMOVDQU64(a.constant("transposed", parts...), reg.Z26)
}

// products leaves in x the weights at base+disp times the scales, with 0 for a
// weight of 0. top receives their largest magnitudes, in which NaN counts as 0.
func (a *asm) products(x func(v int) reg.VecPhysical, base reg.Register, disp int, top reg.VecPhysical) {
	for v := range 4 {
		a.VMOVUPS(at(base, disp+64*v), x(v))
		a.VCMPPS(imm(4), reg.Z24, x(v), ks[1+v])
		a.VMULPS_Z(zs[16+v], x(v), ks[1+v], x(v))
	}
	for v := range 4 {
		a.VPANDD(reg.Z25, x(v), reg.Z27)
		if v == 0 {
			a.VMAXPS(reg.Z24, reg.Z27, top)
		} else {
			a.VMAXPS(top, reg.Z27, top)
		}
	}
}

// inverse broadcasts 255 divided by the largest magnitude, which is the first
// lane of top.
func (a *asm) inverse(top, tmp reg.VecPhysical) {
	m := top.AsX()
	a.VMAXSS(a.float("tiny", tiny), m, m)
	a.VMOVSS(a.float("full", 255), tmp)
	a.VDIVSS(m, tmp, m)
	a.VBROADCASTSS(m, top)
}

// bytes rounds x·inv to 64 bytes at dst, with negative values as 0. For each
// negative value it sets the highest bit of a lane of signs.
func (a *asm) bytes(x func(v int) reg.VecPhysical, inv reg.VecPhysical, dst operand.Mem, signs reg.VecPhysical) {
	for v := range 4 {
		a.VMULPS(inv, x(v), x(v))
		a.VCVTPS2DQ(x(v), x(v))
	}
	a.VPTERNLOGD(imm(0xfe), x(0), x(1), signs)
	a.VPTERNLOGD(imm(0xfe), x(2), x(3), signs)
	a.VPACKUSDW(x(1), x(0), x(0))
	a.VPACKUSDW(x(3), x(2), x(2))
	a.VPACKUSWB(x(2), x(0), x(0))
	a.VPERMD(x(0), reg.Z26, x(0))
	a.VMOVDQU64(x(0), dst)
}

// tiny is the same constant as in package attn: a row whose largest magnitude
// is smaller is rounded as if it were tiny.
const tiny = 1e-35

func (a *asm) round() {
	a.fn("roundWeightsAVX512", "(dst *byte, w *float32, scales *byte, flip uint32, n int, amax *float32) (signs uint32)",
		"rounds the products of n rows of 64 weights and scales, with their signs flipped by flip, "+
			"to a 255th of the largest magnitude of the row; negative ones give 0 and set bits of signs.")
	a.ld("dst", reg.RDI)
	a.ld("w", reg.RSI)
	a.ld("scales", reg.RDX)
	a.ld("flip", reg.EAX)
	a.ld("n", reg.RCX)
	a.ld("amax", reg.R8)
	a.VPBROADCASTD(reg.EAX, reg.Z30)
	a.roundConsts()
	for v := range 4 {
		a.VCVTPH2PS(at(reg.RDX, 32*v), zs[16+v])
		a.VPXORD(reg.Z30, zs[16+v], zs[16+v])
	}
	a.VPXORD(reg.Z29, reg.Z29, reg.Z29)
	loop := a.label("loop")
	a.Label(loop)
	x := func(v int) reg.VecPhysical { return zs[v] }
	a.products(x, reg.RSI, 0, reg.Z8)
	a.fold(reg.Z8, reg.Z9, a.maxPS)
	a.VMOVSS(reg.X8, at(reg.R8, 0))
	a.inverse(reg.Z8, reg.X9)
	a.bytes(x, reg.Z8, at(reg.RDI, 0), reg.Z29)
	a.ADDQ(imm(64), reg.RDI)
	a.ADDQ(operand.U32(256), reg.RSI)
	a.ADDQ(imm(4), reg.R8)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.VPMOVD2M(reg.Z29, reg.K1)
	a.KMOVW(reg.K1, reg.EAX)
	a.Store(reg.EAX, a.ReturnIndex(0))
	a.end()
}
