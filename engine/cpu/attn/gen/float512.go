package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// float512 makes the float arithmetic: multiply and add rows, and rows times
// f16.
func float512(a *asm) {
	for _, t := range []string{"F16", "BF16", "F32"} {
		for n := 1; n <= panel; n++ {
			a.mulAdd512(t, n, false)
			if t != "F16" {
				a.mulAdd512(t, n, true)
			}
		}
	}
	for _, t := range []string{"F16", "BF16", "F32"} {
		a.transposeFloats512(t)
	}
	a.halves512()
}

// mulAdd512 keeps n rows of 64 sums in registers.
func (a *asm) mulAdd512(stored string, n int, finite bool) {
	name, note := "mulAdd"+stored, ""
	if finite {
		name, note = name+"Finite", ", read as finite"
	}
	a.fn(name+"x"+string(rune('0'+n))+"AVX512", "(acc *float32, ld int, x *byte, pitch int, coef *float32, steps, lanes uint64, ahead int)",
		"adds steps of x, %s%s, to %d rows, ld bytes apart; steps is not 0.", stored, note, n)
	a.ld("acc", reg.RDI)
	a.ld("ld", reg.R8)
	a.ld("x", reg.RSI)
	a.ld("pitch", reg.R9)
	a.ld("coef", reg.RDX)
	a.ld("steps", reg.RCX)
	a.masks(operand.NewParamAddr("lanes", 48), reg.RAX)
	a.ld("ahead", reg.R11)
	acc := func(i, v int) reg.VecPhysical { return zs[4*i+v] }
	a.MOVQ(reg.RDI, reg.R10)
	for i := range n {
		for v := range 4 {
			a.VMOVUPS_Z(at(reg.R10, 64*v), ks[1+v], acc(i, v))
		}
		a.ADDQ(reg.R8, reg.R10)
	}
	if finite {
		a.VBROADCASTSS(a.float("largest", math.MaxFloat32), reg.Z30)
		a.VBROADCASTSS(a.float("lowest", -math.MaxFloat32), reg.Z31)
	}
	loop := a.label("loop")
	a.Label(loop)
	a.TZCNTQ(reg.RCX, reg.RAX)
	a.BLSRQ(reg.RCX, reg.RCX)
	a.LEAQ(ix(reg.RDX, reg.RAX, 4, 0), reg.RBX)
	a.IMULQ(reg.R9, reg.RAX)
	for v := range 4 {
		x := zs[24+v]
		switch stored {
		case "F16":
			a.VCVTPH2PS_Z(ix(reg.RSI, reg.RAX, 1, 32*v), ks[1+v], x)
		case "BF16":
			a.VPMOVZXWD_Z(ix(reg.RSI, reg.RAX, 1, 32*v), ks[1+v], x)
			a.VPSLLD(imm(16), x, x)
		default:
			a.VMOVUPS_Z(ix(reg.RSI, reg.RAX, 1, 64*v), ks[1+v], x)
		}
		if finite {
			a.VMINPS(reg.Z30, x, x)
			a.VMAXPS(reg.Z31, x, x)
		}
	}
	lines := 2
	if stored == "F32" {
		lines = 4
	}
	a.ADDQ(reg.RSI, reg.RAX)
	a.prefetch(reg.R11, reg.RAX, lines)
	for i := range n {
		a.VBROADCASTSS(at(reg.RBX, 256*i), reg.Z28)
		for v := range 4 {
			a.VFMADD231PS(zs[24+v], reg.Z28, acc(i, v))
		}
	}
	a.TESTQ(reg.RCX, reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	for i := range n {
		for v := range 4 {
			a.VMOVUPS(acc(i, v), ks[1+v], at(reg.RDI, 64*v))
		}
		if i < n-1 {
			a.ADDQ(reg.R8, reg.RDI)
		}
	}
	a.end()
}

// transposeFloats512 scatters one line of 64 tokens at a time.
func (a *asm) transposeFloats512(stored string) {
	a.fn("transpose"+stored+"AVX512", "(dst, x *byte, width int)", "transposes [width][64] %s to [64][width] float32.", stored)
	a.ld("dst", reg.RDI)
	a.ld("x", reg.RSI)
	a.ld("width", reg.RCX)
	var parts []operand.Constant
	for i := range 16 {
		parts = append(parts, operand.U32(i))
	}
	a.MOVQ(reg.RCX, reg.R8)
	a.SHLQ(imm(2), reg.R8)
	a.VPBROADCASTD(reg.R8L, reg.Z31)
	a.VPMULLD(a.constant("count", parts...), reg.Z31, reg.Z31) // stride of tokens
	a.SHLQ(imm(4), reg.R8)                                     // the next 16 tokens
	loop := a.label("loop")
	a.Label(loop)
	a.MOVQ(reg.RDI, reg.RDX)
	for v := range 4 {
		x, bytes := zs[v], 32
		switch stored {
		case "F16":
			a.VCVTPH2PS(at(reg.RSI, 32*v), x)
		case "BF16":
			a.VPMOVZXWD(at(reg.RSI, 32*v), x)
			a.VPSLLD(imm(16), x, x)
		default:
			bytes = 64
			a.VMOVUPS(at(reg.RSI, 64*v), x)
		}
		a.KXNORW(reg.K1, reg.K1, reg.K1)
		a.VSCATTERDPS(x, reg.K1, operand.Mem{Base: reg.RDX, Index: reg.Z31, Scale: 1})
		a.ADDQ(reg.R8, reg.RDX)
		if v == 3 {
			a.ADDQ(operand.U32(uint32(4*bytes)), reg.RSI)
		}
	}
	a.ADDQ(imm(4), reg.RDI)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.end()
}

// halves512 multiplies rows of 64 floats by one row of 64 f16.
func (a *asm) halves512() {
	a.fn("addHalfAVX512", "(dst *float32, x *byte, f float32)", "adds f·x.")
	a.ld("dst", reg.RDI)
	a.ld("x", reg.RSI)
	a.VBROADCASTSS(operand.NewParamAddr("f", 16), reg.Z31)
	for v := range 4 {
		a.VCVTPH2PS(at(reg.RSI, 32*v), zs[v])
		a.VMULPS(reg.Z31, zs[v], zs[v])
		a.VADDPS(at(reg.RDI, 64*v), zs[v], zs[v])
		a.VMOVUPS(zs[v], at(reg.RDI, 64*v))
	}
	a.end()

	for _, zero := range []bool{false, true} {
		name, doc := "addScaledAVX512", "adds raw·x to n rows."
		if zero {
			name, doc = "mulHalfAVX512", "makes raw·x of n rows; where raw is 0 so is the product."
		}
		a.fn(name, "(dst, raw *float32, x *byte, n int)", doc)
		a.ld("dst", reg.RDI)
		a.ld("raw", reg.RSI)
		a.ld("x", reg.RAX)
		a.ld("n", reg.RCX)
		for v := range 4 {
			a.VCVTPH2PS(at(reg.RAX, 32*v), zs[8+v])
		}
		a.VPXORD(reg.Z31, reg.Z31, reg.Z31)
		loop := a.label("loop")
		a.Label(loop)
		for v := range 4 {
			x := zs[v]
			a.VMOVUPS(at(reg.RSI, 64*v), x)
			if zero {
				a.VCMPPS(imm(4), reg.Z31, x, reg.K1)
				a.VMULPS_Z(zs[8+v], x, reg.K1, x)
			} else {
				a.VMULPS(zs[8+v], x, x)
				a.VADDPS(at(reg.RDI, 64*v), x, x)
			}
			a.VMOVUPS(x, at(reg.RDI, 64*v))
		}
		a.ADDQ(imm(256), reg.RSI)
		a.ADDQ(imm(256), reg.RDI)
		a.DECQ(reg.RCX)
		a.JNZ(operand.LabelRef(loop))
		a.end()
	}

	a.fn("dotHalfAVX512", "(w *float32, x *byte) float32", "is Σ w·x; a zero of w contributes nothing.")
	a.ld("w", reg.RSI)
	a.ld("x", reg.RAX)
	a.VPXORD(reg.Z31, reg.Z31, reg.Z31)
	a.VPXORD(reg.Z8, reg.Z8, reg.Z8)
	for v := range 4 {
		a.VMOVUPS(at(reg.RSI, 64*v), reg.Z0)
		a.VCVTPH2PS(at(reg.RAX, 32*v), reg.Z1)
		a.VCMPPS(imm(4), reg.Z31, reg.Z0, reg.K1)
		a.VMULPS_Z(reg.Z1, reg.Z0, reg.K1, reg.Z0)
		a.VADDPS(reg.Z0, reg.Z8, reg.Z8)
	}
	a.fold(reg.Z8, reg.Z31, a.addPS)
	a.Store(reg.X8, a.ReturnIndex(0))
	a.end()
}

func (a *asm) addPS(x, y reg.VecPhysical) { a.VADDPS(x, y, y) }
func (a *asm) maxPS(x, y reg.VecPhysical) { a.VMAXPS(x, y, y) }

// fold combines all lanes in the first lane of x, by combining upper and lower
// halves.
func (a *asm) fold(x, tmp reg.VecPhysical, op func(x, y reg.VecPhysical)) {
	a.VEXTRACTF64X4(imm(1), x, tmp.AsY())
	op(tmp.AsY().(reg.VecPhysical), x.AsY().(reg.VecPhysical))
	a.VEXTRACTF32X4(imm(1), x.AsY(), tmp.AsX())
	op(tmp.AsX().(reg.VecPhysical), x.AsX().(reg.VecPhysical))
	a.VSHUFPS(imm(0xee), x.AsX(), x.AsX(), tmp.AsX())
	op(tmp.AsX().(reg.VecPhysical), x.AsX().(reg.VecPhysical))
	a.VSHUFPS(imm(0x55), x.AsX(), x.AsX(), tmp.AsX())
	op(tmp.AsX().(reg.VecPhysical), x.AsX().(reg.VecPhysical))
}
