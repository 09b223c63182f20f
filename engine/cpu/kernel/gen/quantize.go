package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantize fills blocks of activations. X8 holds the largest magnitude as
// bits, then the scales; the codes go through Y9.
func quantize(v *vec) {
	v.ld("dst", reg.RDI)
	v.Load(v.Param("x").Base(), reg.RSI)
	v.Load(v.Param("x").Len(), reg.RCX)
	v.MOVL(U32(0x42fe0000), reg.EAX) // 127
	v.VMOVD(reg.EAX, reg.X7)
	odd, next := v.label("odd"), v.label("next")
	v.repeat(32, func() {
		v.largest()
		v.VMOVD(reg.X8, reg.EAX)
		v.LEAL(at(reg.RAX, -0x03800000), reg.EDX)
		v.CMPL(reg.EDX, U32(0x7f800000-0x03800000))
		v.JCC(LabelRef(odd))
		v.codes()
		v.sums()
		v.Label(next)
		v.ADDQ(imm(128), reg.RSI)
		v.ADDQ(imm(actSize), reg.RDI)
	})
	v.end()

	// Too small for a scale, or not finite: no codes.
	v.Label(odd)
	v.VXORPS(reg.Y9, reg.Y9, reg.Y9)
	v.VMOVDQU(reg.Y9, at(reg.RDI, 0))
	v.VMOVDQU(reg.Y9, at(reg.RDI, actSize-32))
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

// codes stores the scale and leaves the codes in Y9; X8 becomes the scale.
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
	if v.wide {
		v.VPMOVSDB(zs[0], reg.X9)
		v.VPMOVSDB(zs[1], reg.X10)
		v.VINSERTI128(imm(1), reg.X10, reg.Y9, reg.Y9)
	} else {
		v.VPACKSSDW(ys[1], ys[0], ys[0])
		v.VPACKSSDW(ys[3], ys[2], ys[2])
		v.VPACKSSWB(ys[2], ys[0], ys[0])
		v.VMOVDQU(v.constant("order", U32(0), U32(4), U32(1), U32(5), U32(2), U32(6), U32(3), U32(7)), ys[1])
		v.VPERMD(ys[0], ys[1], ys[9])
	}
	v.VMOVDQU(reg.Y9, at(reg.RDI, 0))
}

// sums stores the sums of the codes in Y9: one lane of 128 bits is half a block.
func (v *vec) sums() {
	v.VMOVDQU(v.fill("ones8", 0x01010101), reg.Y10)
	v.VPMADDUBSW(reg.Y9, reg.Y10, reg.Y9)
	v.VPMADDWD(v.fill("ones", 0x00010001), reg.Y9, reg.Y9)
	v.VPSHUFD(imm(0x4e), reg.Y9, reg.Y10)
	v.VPADDD(reg.Y10, reg.Y9, reg.Y9)
	v.VPSHUFD(imm(0xb1), reg.Y9, reg.Y10)
	v.VPADDD(reg.Y10, reg.Y9, reg.Y9)
	v.VEXTRACTI128(imm(1), reg.Y9, reg.X10)
	v.VMOVD(reg.X9, reg.EAX)
	v.VMOVD(reg.X10, reg.EDX)
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
