package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// encode512 makes the parts of a trellis encoder before and after its search,
// and the reading of exact rows and normalised channels.
func encode512(a *asm) {
	e := &encode{a}
	e.sums()
	e.targets()
	e.rowsOfK()
	e.rowsOfV()
	e.dots()
	e.quotients()
}

type encode struct{ *asm }

// reduce adds up the 16 float64 in Z0 and Z1 and leaves the sum in X0. It first
// adds the values that are farthest apart.
func (e *encode) reduce() {
	e.VADDPD(reg.Z1, reg.Z0, reg.Z0)
	e.VEXTRACTF64X4(imm(1), reg.Z0, reg.Y1)
	e.VADDPD(reg.Y1, reg.Y0, reg.Y0)
	e.VEXTRACTF128(imm(1), reg.Y0, reg.X1)
	e.VADDPD(reg.X1, reg.X0, reg.X0)
	e.VPERMILPD(imm(1), reg.X0, reg.X1)
	e.VADDSD(reg.X1, reg.X0, reg.X0)
}

// sums adds squares, and products with levels. The product of a float32 and a
// number with no more digits is exact in float64, so a fused sum has the same
// bits as a plain one.
func (e *encode) sums() {
	e.fn("energyAVX512", "(x *float32, n int) float64", "adds n squares, a multiple of 32.")
	e.ld("x", reg.RSI)
	e.ld("n", reg.RCX)
	e.VPXORQ(reg.Z0, reg.Z0, reg.Z0)
	e.VPXORQ(reg.Z1, reg.Z1, reg.Z1)
	loop := e.label("loop")
	e.Label(loop)
	for i := range 4 {
		x := zs[2+i]
		e.VCVTPS2PD(at(reg.RSI, 32*i), x)
		e.VFMADD231PD(x, x, zs[i%2])
	}
	e.ADDQ(imm(128), reg.RSI)
	e.SUBQ(imm(32), reg.RCX)
	e.JNZ(operand.LabelRef(loop))
	e.reduce()
	e.Store(reg.X0, e.ReturnIndex(0))
	e.end()

	e.fn("levelsAVX512", "(x *float32, w *byte, table *int8, n int) float64",
		"adds the products of n values, a multiple of 32, with the levels of their windows; 64 windows are read at a time.")
	e.ld("x", reg.RSI)
	e.ld("w", reg.RDX)
	e.ld("table", reg.RAX)
	e.ld("n", reg.RCX)
	for i := range 4 {
		e.VMOVDQU64(at(reg.RAX, 64*i), zs[28+i])
	}
	e.VPXORQ(reg.Z0, reg.Z0, reg.Z0)
	e.VPXORQ(reg.Z1, reg.Z1, reg.Z1)
	loop, done := e.label("loop"), e.label("done")
	e.Label(loop)
	e.VMOVDQU64(at(reg.RDX, 0), reg.Z2)
	e.VPMOVB2M(reg.Z2, reg.K3)
	e.VMOVDQA64(reg.Z2, reg.Z3)
	e.VPERMI2B(reg.Z29, reg.Z28, reg.Z2)
	e.VPERMI2B(reg.Z31, reg.Z30, reg.Z3)
	e.VMOVDQU8(reg.Z3, reg.K3, reg.Z2)
	for half := range 2 {
		if half == 1 {
			e.VEXTRACTI64X4(imm(1), reg.Z2, reg.Y2)
		}
		for quarter := range 2 {
			from := reg.X2
			if quarter == 1 {
				e.VEXTRACTI128(imm(1), reg.Y2, reg.X3)
				from = reg.X3
			}
			e.VPMOVSXBD(from, reg.Z4)
			e.VEXTRACTI64X4(imm(1), reg.Z4, reg.Y5)
			for i, l := range []reg.VecPhysical{reg.Y4, reg.Y5} {
				wide := zs[6+2*i]
				e.VCVTDQ2PD(l, wide)
				e.VCVTPS2PD(at(reg.RSI, 64*quarter+32*i), zs[7+2*i])
				e.VFMADD231PD(zs[7+2*i], wide, zs[i])
			}
		}
		e.ADDQ(imm(128), reg.RSI)
		e.SUBQ(imm(32), reg.RCX)
		if half == 0 {
			e.JZ(operand.LabelRef(done))
		}
	}
	e.ADDQ(imm(64), reg.RDX)
	e.TESTQ(reg.RCX, reg.RCX)
	e.JNZ(operand.LabelRef(loop))
	e.Label(done)
	e.reduce()
	e.Store(reg.X0, e.ReturnIndex(0))
	e.end()
}

func (e *encode) targets() {
	e.fn("targetsAVX512", "(z *int16, x *float32, n, reach int, inv float64)",
		"rounds n values times inv, a multiple of 32, to integers no larger than reach.")
	e.ld("z", reg.RDI)
	e.ld("x", reg.RSI)
	e.ld("n", reg.RCX)
	e.ld("reach", reg.RAX)
	e.VPBROADCASTD(reg.EAX, reg.Z6)
	e.NEGQ(reg.RAX)
	e.VPBROADCASTD(reg.EAX, reg.Z7)
	e.ld("inv", reg.X5)
	e.VBROADCASTSD(reg.X5, reg.Z5)
	loop := e.label("loop")
	e.Label(loop)
	for i := range 2 {
		e.VCVTPS2PD(at(reg.RSI, 64*i), reg.Z0)
		e.VCVTPS2PD(at(reg.RSI, 64*i+32), reg.Z1)
		e.VMULPD(reg.Z5, reg.Z0, reg.Z0)
		e.VMULPD(reg.Z5, reg.Z1, reg.Z1)
		e.VCVTPD2DQ(reg.Z0, reg.Y0)
		e.VCVTPD2DQ(reg.Z1, reg.Y1)
		e.VINSERTI64X4(imm(1), reg.Y1, reg.Z0, reg.Z0)
		e.VPMINSD(reg.Z6, reg.Z0, reg.Z0)
		e.VPMAXSD(reg.Z7, reg.Z0, reg.Z0)
		e.VPMOVDW(reg.Z0, at(reg.RDI, 32*i))
	}
	e.ADDQ(imm(128), reg.RSI)
	e.ADDQ(imm(64), reg.RDI)
	e.SUBQ(imm(32), reg.RCX)
	e.JNZ(operand.LabelRef(loop))
	e.end()
}

const rowsArgs = "(dst *float32, ld int, codes, scales *byte, blocks int)"

// scales leaves the four scales of a block in Z12 to Z15.
func (e *encode) scales() {
	e.VCVTPH2PS(at(reg.RDX, 0), reg.X8)
	for row := range 4 {
		e.VPERMILPS(imm(0x55*row), reg.X8, reg.X9)
		e.VBROADCASTSS(reg.X9, zs[12+row])
	}
	e.ADDQ(imm(2*64), reg.RDX)
}

// open leaves the stride of two rows in R8 and of four in R9.
func (e *encode) open() {
	e.ld("dst", reg.RDI)
	e.ld("ld", reg.R8)
	e.ld("codes", reg.RSI)
	e.ld("scales", reg.RDX)
	e.ld("blocks", reg.RCX)
	e.LEAQ(ix(reg.R8, reg.R8, 2, 0), reg.R9)
}

// to returns the address of values of a row.
func (e *encode) to(row, disp int) operand.Mem {
	switch row {
	case 0:
		return at(reg.RDI, disp)
	case 3:
		return ix(reg.RDI, reg.R9, 1, disp)
	}
	return ix(reg.RDI, reg.R8, uint8(row), disp)
}

// rowsOfK reads the bytes of four tokens from 16 lanes of four values each.
func (e *encode) rowsOfK() {
	e.fn("rowsOfKAVX512", rowsArgs, "reads the values of four tokens of a page of K whose codes are bytes: blocks of 32.")
	e.open()
	for row := range 4 {
		var parts []operand.Constant
		for g := range 16 {
			parts = append(parts, operand.U32(uint32(4*g+row)&31))
		}
		e.VMOVDQU64(e.constant("lanesOf"+string(rune('0'+row)), parts...), zs[16+row])
	}
	e.VPBROADCASTD(e.word("flip", 0x80808080), reg.Z20)
	loop := e.label("loop")
	e.Label(loop)
	e.scales()
	for half := range 2 {
		z := zs[half]
		e.VMOVDQU(at(reg.RSI, 1024*half), z.(reg.Vec).AsX())
		for g := 1; g < 4; g++ {
			e.VINSERTI32X4(imm(g), at(reg.RSI, 1024*half+256*g), z, z)
		}
		e.VPXORQ(reg.Z20, z, z)
	}
	for row := range 4 {
		e.VMOVDQA64(zs[16+row], reg.Z2)
		e.VPERMI2D(reg.Z1, reg.Z0, reg.Z2)
		e.VEXTRACTI128(imm(1), reg.Y2, reg.X3)
		for half, from := range []reg.VecPhysical{reg.X2, reg.X3} {
			e.VPMOVSXBD(from, zs[4+half])
			e.VCVTDQ2PS(zs[4+half], zs[4+half])
			e.VMULPS(zs[12+row], zs[4+half], zs[4+half])
			e.VMOVUPS(zs[4+half], e.to(row, 64*half))
		}
	}
	e.ADDQ(imm(8*256), reg.RSI)
	e.ADDQ(imm(128), reg.RDI)
	e.DECQ(reg.RCX)
	e.JNZ(operand.LabelRef(loop))
	e.end()
}

// rowsOfV reads the bytes of four tokens from 16 lanes of one value each.
func (e *encode) rowsOfV() {
	e.fn("rowsOfVAVX512", rowsArgs, "reads the values of four tokens of a page of V likewise.")
	e.open()
	loop := e.label("loop")
	e.Label(loop)
	e.scales()
	for half := range 2 {
		e.VMOVDQU64(at(reg.RSI, 64*half), zs[half])
	}
	for row := range 4 {
		for half := range 2 {
			v := zs[4+half]
			e.VPSLLD(imm(24-8*row), zs[half], v)
			e.VPSRAD(imm(24), v, v)
			e.VCVTDQ2PS(v, v)
			e.VMULPS(zs[12+row], v, v)
			e.VMOVUPS(v, e.to(row, 64*half))
		}
	}
	e.ADDQ(imm(16*128), reg.RSI)
	e.ADDQ(imm(128), reg.RDI)
	e.DECQ(reg.RCX)
	e.JNZ(operand.LabelRef(loop))
	e.end()
}

// dots adds in the order of kernel.Dot: 32 sums, folded in halves.
func (e *encode) dots() {
	e.fn("dotsAVX512", "(dst *float32, step int, q, x *float32, values, n int)",
		"adds the dot products of n queries with four rows, of so many values, a multiple of 32, one after another.")
	e.ld("dst", reg.RDI)
	e.ld("step", reg.R8)
	e.ld("q", reg.RSI)
	e.ld("x", reg.RDX)
	e.ld("values", reg.RBX)
	e.ld("n", reg.RCX)
	e.SHLQ(imm(2), reg.RBX)
	e.LEAQ(ix(reg.RBX, reg.RBX, 2, 0), reg.R9)
	e.VMOVDQU64(e.constant("firsts", operand.U32(0), operand.U32(4), operand.U32(8), operand.U32(12),
		operand.U64(0), operand.U64(0), operand.U64(0), operand.U64(0), operand.U64(0), operand.U64(0)), reg.Z16)
	query, loop := e.label("query"), e.label("loop")
	e.Label(query)
	for i := range 8 {
		e.VPXORQ(zs[8+i], zs[8+i], zs[8+i])
	}
	e.MOVQ(reg.RDX, reg.R10)
	e.MOVQ(reg.RBX, reg.R11)
	e.Label(loop)
	for half := range 2 {
		e.VMOVUPS(at(reg.RSI, 64*half), zs[half])
		for row, from := range []operand.Mem{at(reg.R10, 64*half), ix(reg.R10, reg.RBX, 1, 64*half), ix(reg.R10, reg.RBX, 2, 64*half), ix(reg.R10, reg.R9, 1, 64*half)} {
			e.VFMADD231PS(from, zs[half], zs[8+2*row+half])
		}
	}
	e.ADDQ(imm(128), reg.RSI)
	e.ADDQ(imm(128), reg.R10)
	e.SUBQ(imm(128), reg.R11)
	e.JNZ(operand.LabelRef(loop))
	for row := range 4 {
		e.VADDPS(zs[9+2*row], zs[8+2*row], zs[8+2*row])
	}
	fold := func(a, b reg.VecPhysical, low, high int) {
		e.VSHUFF32X4(imm(high), b, a, reg.Z0)
		e.VSHUFF32X4(imm(low), b, a, a)
		e.VADDPS(reg.Z0, a, a)
	}
	fold(reg.Z8, reg.Z10, 0x44, 0xee)
	fold(reg.Z12, reg.Z14, 0x44, 0xee)
	fold(reg.Z8, reg.Z12, 0x88, 0xdd)
	for _, swap := range []int{0x4e, 0xb1} {
		e.VPERMILPS(imm(swap), reg.Z8, reg.Z0)
		e.VADDPS(reg.Z0, reg.Z8, reg.Z8)
	}
	e.VPERMPS(reg.Z8, reg.Z16, reg.Z8)
	e.VADDPS(at(reg.RDI, 0), reg.X8, reg.X8)
	e.VMOVUPS(reg.X8, at(reg.RDI, 0))
	e.ADDQ(reg.R8, reg.RDI)
	e.DECQ(reg.RCX)
	e.JNZ(operand.LabelRef(query))
	e.end()
}

func (e *encode) quotients() {
	e.fn("quotientsAVX512", "(dst, x, y *float32, n int)", "divides n values, a multiple of 32.")
	e.ld("dst", reg.RDI)
	e.ld("x", reg.RSI)
	e.ld("y", reg.RDX)
	e.ld("n", reg.RCX)
	loop := e.label("loop")
	e.Label(loop)
	for i := range 2 {
		e.VMOVUPS(at(reg.RSI, 64*i), zs[i])
		e.VDIVPS(at(reg.RDX, 64*i), zs[i], zs[i])
		e.VMOVUPS(zs[i], at(reg.RDI, 64*i))
	}
	for _, p := range []reg.GPPhysical{reg.RDI, reg.RSI, reg.RDX} {
		e.ADDQ(imm(128), p)
	}
	e.SUBQ(imm(32), reg.RCX)
	e.JNZ(operand.LabelRef(loop))
	e.end()
}
