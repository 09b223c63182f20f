package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantize fills blocks of activations. X8 holds the largest magnitude as bits,
// and later the scales. The codes pass through Y9 and Y11.
func quantize(v *vec) {
	v.ld("dst", reg.RDI)
	v.Load(v.Param("x").Base(), reg.RSI)
	v.Load(v.Param("x").Len(), reg.RCX)
	v.MOVL(U32(0x46fe0000), reg.EAX) // actTop
	v.VMOVD(reg.EAX, reg.X7)
	odd, next := v.label("odd"), v.label("next")
	v.repeat(32, func() {
		v.largest()
		v.VMOVD(reg.X8, reg.EAX)
		v.LEAL(at(reg.RAX, -0x07800000), reg.EDX)
		v.CMPL(reg.EDX, U32(0x7f800000-0x07800000))
		v.JCC(LabelRef(odd))
		v.codes()
		v.sums()
		v.Label(next)
		v.ADDQ(imm(128), reg.RSI)
		v.ADDQ(imm(actSize), reg.RDI)
	})
	v.end()

	// This block is too small for a scale, or not finite, so its codes are 0.
	v.Label(odd)
	v.VXORPS(reg.Y9, reg.Y9, reg.Y9)
	for _, off := range []int{0, 32, actSize - 32} {
		v.VMOVDQU(reg.Y9, at(reg.RDI, off))
	}
	v.CMPL(reg.EAX, U32(0x7f800000))
	v.JCS(LabelRef(next))
	v.MOVL(U32(0x7fc00000), at(reg.RDI, actD))
	v.MOVL(U32(0x7fc00000), at(reg.RDI, actS))
	v.JMP(LabelRef(next))
}

// largest leaves the largest magnitude of 32 values in all lanes of X8.
func (v *vec) largest() {
	abs := v.bits("absBits", 0x7fffffff)
	for i := range 32 / v.lanes {
		v.VMOVUPS(at(reg.RSI, i*v.bytes()), v.r(i))
	}
	if v.wide {
		v.VPANDD_BCST(abs, zs[0], zs[8])
		v.VPANDD_BCST(abs, zs[1], zs[9])
		v.VPMAXUD(zs[9], zs[8], zs[8])
		v.VEXTRACTI64X4(imm(1), zs[8], ys[9])
	} else {
		v.VPAND(abs, ys[0], ys[8])
		for i := 1; i < 4; i++ {
			v.VPAND(abs, ys[i], ys[9])
			if i < 3 {
				v.VPMAXUD(ys[9], ys[8], ys[8])
			}
		}
	}
	v.VPMAXUD(reg.Y9, reg.Y8, reg.Y8)
	v.VEXTRACTI128(imm(1), reg.Y8, reg.X9)
	v.VPMAXUD(reg.X9, reg.X8, reg.X8)
	v.VPSHUFD(imm(0x4e), reg.X8, reg.X9)
	v.VPMAXUD(reg.X9, reg.X8, reg.X8)
	v.VPSHUFD(imm(0xb1), reg.X8, reg.X9)
	v.VPMAXUD(reg.X9, reg.X8, reg.X8)
}

// codes stores scale and codes. It leaves the first 16 codes in Y9 and the
// others in Y11. X8 becomes the scale.
func (v *vec) codes() {
	inv := v.r(6)
	v.VDIVSS(reg.X8, reg.X7, reg.X6)
	v.VDIVSS(reg.X7, reg.X8, reg.X8)
	v.VMOVSS(reg.X8, at(reg.RDI, actD))
	v.VBROADCASTSS(reg.X6, inv)
	for i := range 32 / v.lanes {
		v.VMULPS(inv, v.r(i), v.r(i))
		v.VCVTPS2DQ(v.r(i), v.r(i))
	}
	// Swap the middle two of every four words.
	swap := [2]Constant{U64(0x0706030205040100), U64(0x0f0e0b0a0d0c0908)}
	order := v.constant("order", swap[0], swap[1], swap[0], swap[1])
	for i, y := range []reg.Register{reg.Y9, reg.Y11} {
		if v.wide {
			v.VPMOVSDW(zs[i], y)
		} else {
			v.VPACKSSDW(ys[2*i+1], ys[2*i], y)
			v.VPERMQ(imm(0xd8), y, y)
		}
		v.VPSHUFB(order, y, y)
		v.VMOVDQU(y, at(reg.RDI, 32*i))
	}
}

// sums stores the sums of the codes in Y9 and Y11.
func (v *vec) sums() {
	ones := v.fill("ones", 0x00010001)
	v.VPMADDWD(ones, reg.Y9, reg.Y9)
	v.VPMADDWD(ones, reg.Y11, reg.Y11)
	v.VPHADDD(reg.Y11, reg.Y9, reg.Y9)
	v.VEXTRACTI128(imm(1), reg.Y9, reg.X10)
	v.VPADDD(reg.X10, reg.X9, reg.X9)
	v.VPSHUFD(imm(0xb1), reg.X9, reg.X10)
	v.VPADDD(reg.X10, reg.X9, reg.X9)
	v.VMOVD(reg.X9, reg.EAX)
	v.VPEXTRD(imm(2), reg.X9, reg.EDX)
	v.LEAL(mem(reg.RAX, reg.RDX, 1, 0), reg.EBX)
	v.VCVTSI2SSL(reg.EBX, reg.X9, reg.X9)
	v.VMULSS(reg.X8, reg.X9, reg.X9)
	v.VMOVSS(reg.X9, at(reg.RDI, actS))
	v.NEGL(reg.EBX)
	v.MOVL(reg.EBX, at(reg.RDI, actNeg))
	v.NEGL(reg.EAX)
	v.SHLL(imm(5), reg.EAX)
	v.MOVL(reg.EAX, at(reg.RDI, actOff))
	v.NEGL(reg.EDX)
	v.SHLL(imm(5), reg.EDX)
	v.MOVL(reg.EDX, at(reg.RDI, actOff+4))
}
