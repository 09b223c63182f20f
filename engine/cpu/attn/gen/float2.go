package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// float2 makes the float arithmetic: multiply and add rows, and rows times f16.
func float2(a *asm) {
	for _, t := range []string{"F16", "BF16", "F32"} {
		for _, shape := range [][2]int{{1, 4}, {2, 4}, {1, 1}, {2, 1}} {
			a.mulAdd2(t, shape[0], shape[1], false)
			if t != "F16" {
				a.mulAdd2(t, shape[0], shape[1], true)
			}
		}
	}
	a.halves2()
}

// mulAdd2 keeps n rows of 8·vecs sums in registers.
func (a *asm) mulAdd2(stored string, n, vecs int, finite bool) {
	name, note := "mulAdd"+stored, ""
	if finite {
		name, note = name+"Finite", ", read as finite"
	}
	a.fn(fmt.Sprintf("%s%dx%dAVX2", name, n, vecs), "(acc *float32, ld int, x *byte, pitch int, coef *float32, steps uint64, ahead int)",
		"adds steps of %d values of x, %s%s, to %d rows, ld bytes apart; steps is not 0.", 8*vecs, stored, note, n)
	a.ld("acc", reg.RDI)
	a.ld("ld", reg.R8)
	a.ld("x", reg.RSI)
	a.ld("pitch", reg.R9)
	a.ld("coef", reg.RDX)
	a.ld("steps", reg.RCX)
	a.ld("ahead", reg.R11)
	acc := func(i, v int) reg.VecPhysical { return ys[4*i+v] }
	a.MOVQ(reg.RDI, reg.R10)
	for i := range n {
		for v := range vecs {
			a.VMOVUPS(at(reg.R10, 32*v), acc(i, v))
		}
		a.ADDQ(reg.R8, reg.R10)
	}
	if finite {
		a.VBROADCASTSS(a.float("largest", math.MaxFloat32), reg.Y14)
		a.VBROADCASTSS(a.float("lowest", -math.MaxFloat32), reg.Y15)
	}
	loop := a.label("loop")
	a.Label(loop)
	a.TZCNTQ(reg.RCX, reg.RAX)
	a.BLSRQ(reg.RCX, reg.RCX)
	a.LEAQ(ix(reg.RDX, reg.RAX, 4, 0), reg.RBX)
	a.IMULQ(reg.R9, reg.RAX)
	a.ADDQ(reg.RSI, reg.RAX)
	lines := 1
	if stored == "F32" && vecs == 4 {
		lines = 2
	}
	a.prefetch(reg.R11, reg.RAX, lines)
	for v := range vecs {
		x := ys[8+v]
		switch stored {
		case "F16":
			a.VCVTPH2PS(at(reg.RAX, 16*v), x)
		case "BF16":
			a.VPMOVZXWD(at(reg.RAX, 16*v), x)
			a.VPSLLD(imm(16), x, x)
		default:
			a.VMOVUPS(at(reg.RAX, 32*v), x)
		}
		if finite {
			a.VMINPS(reg.Y14, x, x)
			a.VMAXPS(reg.Y15, x, x)
		}
	}
	for i := range n {
		a.VBROADCASTSS(at(reg.RBX, 256*i), ys[12+i])
		for v := range vecs {
			a.VFMADD231PS(ys[8+v], ys[12+i], acc(i, v))
		}
	}
	a.TESTQ(reg.RCX, reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	for i := range n {
		for v := range vecs {
			a.VMOVUPS(acc(i, v), at(reg.RDI, 32*v))
		}
		if i < n-1 {
			a.ADDQ(reg.R8, reg.RDI)
		}
	}
	a.end()
}

// halves2 multiplies rows of 64 floats by one row of 64 f16.
func (a *asm) halves2() {
	a.fn("addHalfAVX2", "(dst *float32, x *byte, f float32)", "adds f·x.")
	a.ld("dst", reg.RDI)
	a.ld("x", reg.RSI)
	a.VBROADCASTSS(operand.NewParamAddr("f", 16), reg.Y15)
	for v := range 8 {
		a.VCVTPH2PS(at(reg.RSI, 16*v), ys[v])
		a.VMULPS(reg.Y15, ys[v], ys[v])
		a.VADDPS(at(reg.RDI, 32*v), ys[v], ys[v])
		a.VMOVUPS(ys[v], at(reg.RDI, 32*v))
	}
	a.end()

	for _, zero := range []bool{false, true} {
		name, doc := "addScaledAVX2", "adds raw·x to n rows."
		if zero {
			name, doc = "mulHalfAVX2", "makes raw·x of n rows; where raw is 0 so is the product."
		}
		a.fn(name, "(dst, raw *float32, x *byte, n int)", doc)
		a.ld("dst", reg.RDI)
		a.ld("raw", reg.RSI)
		a.ld("x", reg.RAX)
		a.ld("n", reg.RCX)
		a.VXORPS(reg.Y15, reg.Y15, reg.Y15)
		for v := range 8 {
			a.VCVTPH2PS(at(reg.RAX, 16*v), ys[v])
		}
		loop := a.label("loop")
		a.Label(loop)
		for v := range 8 {
			x := ys[8+v%4]
			a.VMOVUPS(at(reg.RSI, 32*v), x)
			if zero {
				a.VCMPPS(imm(4), reg.Y15, x, reg.Y14)
				a.VMULPS(ys[v], x, x)
				a.VANDPS(reg.Y14, x, x)
			} else {
				a.VMULPS(ys[v], x, x)
				a.VADDPS(at(reg.RDI, 32*v), x, x)
			}
			a.VMOVUPS(x, at(reg.RDI, 32*v))
		}
		a.ADDQ(operand.U32(256), reg.RSI)
		a.ADDQ(operand.U32(256), reg.RDI)
		a.DECQ(reg.RCX)
		a.JNZ(operand.LabelRef(loop))
		a.end()
	}

	a.fn("dotHalfAVX2", "(w *float32, x *byte) float32", "is Σ w·x; a zero of w contributes nothing.")
	a.ld("w", reg.RSI)
	a.ld("x", reg.RAX)
	a.VXORPS(reg.Y15, reg.Y15, reg.Y15)
	a.VXORPS(reg.Y8, reg.Y8, reg.Y8)
	a.VXORPS(reg.Y9, reg.Y9, reg.Y9)
	for v := range 8 {
		a.VMOVUPS(at(reg.RSI, 32*v), reg.Y0)
		a.VCVTPH2PS(at(reg.RAX, 16*v), reg.Y1)
		a.VCMPPS(imm(4), reg.Y15, reg.Y0, reg.Y2)
		a.VMULPS(reg.Y1, reg.Y0, reg.Y0)
		a.VANDPS(reg.Y2, reg.Y0, reg.Y0)
		a.VADDPS(reg.Y0, ys[8+v%2], ys[8+v%2])
	}
	a.fold2(reg.Y8, reg.Y9, a.addPS)
	a.Store(reg.X8, a.ReturnIndex(0))
	a.end()
}

// fold2 combines the 16 lanes of x and y in the first lane of x, by combining
// upper and lower halves.
func (a *asm) fold2(x, y reg.VecPhysical, op func(x, y reg.VecPhysical)) {
	lo, tmp := x.AsX().(reg.VecPhysical), y.AsX().(reg.VecPhysical)
	op(y, x)
	a.VEXTRACTF128(imm(1), x, tmp)
	op(tmp, lo)
	a.VSHUFPS(imm(0xee), lo, lo, tmp)
	op(tmp, lo)
	a.VSHUFPS(imm(0x55), lo, lo, tmp)
	op(tmp, lo)
}
