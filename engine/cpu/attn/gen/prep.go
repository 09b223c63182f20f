package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wide is one of the two register widths, for kernels that are otherwise the
// same.
type wide struct {
	*asm
	tier  string
	lanes int
	r     []reg.VecPhysical
}

func wide512(a *asm) *wide { return &wide{a, "AVX512", 16, zs[:]} }
func wide256(a *asm) *wide { return &wide{a, "AVX2", 8, ys[:]} }

// prep512 and prep2 make the kernels for rotating and rounding, which run once
// per row.
func prep512(a *asm) { wide512(a).prep() }

func prep2(a *asm) {
	wide256(a).prep()
	scatterTokens(a)
}

func (w *wide) prep() {
	w.hadamard()
	w.maxAbs()
	w.roundInt8()
	w.roundAway()
	w.remainder()
	w.toHalf()
	w.codesOf()
	w.scatter()
}

func (w *wide) bytes() int { return 4 * w.lanes }

// loop runs body for counter n in steps of step.
func (w *wide) loop(n reg.Register, step int, body func()) {
	l := w.label("loop")
	w.Label(l)
	body()
	w.SUBQ(imm(step), n)
	w.JNZ(operand.LabelRef(l))
}

// hadamard processes the lanes of a register first, then pairs of registers in
// memory, with ascending strides.
func (w *wide) hadamard() {
	w.fn("hadamard"+w.tier, "(x *float32, n int, pre, post *float32, c float32)",
		"rotates n values, a power of two from 32 up: times pre, transform, times c and post.")
	w.ld("x", reg.RDI)
	w.ld("n", reg.R8)
	w.ld("pre", reg.RSI)
	x, y := w.r[0], w.r[1]
	strides := []int{1, 2, 4, 8}[:map[int]int{16: 4, 8: 3}[w.lanes]]
	for i, stride := range strides {
		var parts []operand.Constant
		for lane := range w.lanes {
			sign := uint32(0)
			if lane&stride != 0 {
				sign = 1 << 31
			}
			parts = append(parts, operand.U32(sign))
		}
		w.VMOVUPS(w.constant(fmt.Sprintf("odd%d", stride), parts...), w.r[8+i])
	}
	w.MOVQ(reg.R8, reg.RCX)
	w.MOVQ(reg.RDI, reg.RDX)
	w.loop(reg.RCX, w.lanes, func() {
		w.VMOVUPS(at(reg.RDX, 0), x)
		w.VMULPS(at(reg.RSI, 0), x, x)
		for i, stride := range strides {
			switch {
			case stride == 1:
				w.VPERMILPS(imm(0xb1), x, y)
			case stride == 2:
				w.VPERMILPS(imm(0x4e), x, y)
			case w.lanes == 8:
				w.VPERM2F128(imm(1), x, x, y)
			case stride == 4:
				w.VSHUFF32X4(imm(0xb1), x, x, y)
			default:
				w.VSHUFF32X4(imm(0x4e), x, x, y)
			}
			w.VXORPS(w.r[8+i], x, x)
			w.VADDPS(x, y, x)
		}
		w.VMOVUPS(x, at(reg.RDX, 0))
		w.ADDQ(imm(w.bytes()), reg.RSI)
		w.ADDQ(imm(w.bytes()), reg.RDX)
	})
	w.strides()
	w.ld("post", reg.RSI)
	w.VBROADCASTSS(operand.NewParamAddr("c", 32), w.r[8])
	w.loop(reg.R8, w.lanes, func() {
		w.VMULPS(at(reg.RDI, 0), w.r[8], x)
		w.VMULPS(at(reg.RSI, 0), x, x)
		w.VMOVUPS(x, at(reg.RDI, 0))
		w.ADDQ(imm(w.bytes()), reg.RSI)
		w.ADDQ(imm(w.bytes()), reg.RDI)
	})
	w.end()
}

// strides does the stages whose pairs are whole registers. RDI points at R8
// values.
func (w *wide) strides() {
	stage, block, pair, done := w.label("stage"), w.label("block"), w.label("pair"), w.label("done")
	w.MOVQ(operand.U32(uint32(w.bytes())), reg.R9) // stride in bytes
	w.MOVQ(reg.R8, reg.R10)
	w.SHLQ(imm(2), reg.R10)
	w.LEAQ(ix(reg.RDI, reg.R10, 1, 0), reg.R11) // the end
	w.Label(stage)
	w.CMPQ(reg.R9, reg.R10)
	w.JGE(operand.LabelRef(done))
	w.MOVQ(reg.RDI, reg.RDX)
	w.Label(block)
	w.MOVQ(reg.R9, reg.RCX)
	w.Label(pair)
	w.VMOVUPS(at(reg.RDX, 0), w.r[0])
	w.VMOVUPS(ix(reg.RDX, reg.R9, 1, 0), w.r[1])
	w.VADDPS(w.r[1], w.r[0], w.r[2])
	w.VSUBPS(w.r[1], w.r[0], w.r[3])
	w.VMOVUPS(w.r[2], at(reg.RDX, 0))
	w.VMOVUPS(w.r[3], ix(reg.RDX, reg.R9, 1, 0))
	w.ADDQ(imm(w.bytes()), reg.RDX)
	w.SUBQ(imm(w.bytes()), reg.RCX)
	w.JNZ(operand.LabelRef(pair))
	w.ADDQ(reg.R9, reg.RDX)
	w.CMPQ(reg.RDX, reg.R11)
	w.JLT(operand.LabelRef(block))
	w.SHLQ(imm(1), reg.R9)
	w.JMP(operand.LabelRef(stage))
	w.Label(done)
}

func (w *wide) maxAbs() {
	w.fn("maxAbs"+w.tier, "(x *float32, n int) float32", "is the largest magnitude of n values, a multiple of 32, ignoring NaN.")
	w.ld("x", reg.RSI)
	w.ld("n", reg.RCX)
	w.VBROADCASTSS(w.word("magnitude", 0x7fffffff), w.r[8])
	w.VXORPS(w.r[0], w.r[0], w.r[0])
	w.VXORPS(w.r[1], w.r[1], w.r[1])
	w.loop(reg.RCX, 2*w.lanes, func() {
		for i := range 2 {
			w.VANDPS(at(reg.RSI, i*w.bytes()), w.r[8], w.r[2])
			w.VMAXPS(w.r[i], w.r[2], w.r[i])
		}
		w.ADDQ(imm(2*w.bytes()), reg.RSI)
	})
	if w.lanes == 16 {
		w.VMAXPS(w.r[1], w.r[0], w.r[0])
		w.fold(w.r[0], w.r[1], w.maxPS)
	} else {
		w.fold2(w.r[0], w.r[1], w.maxPS)
	}
	w.Store(reg.X0, w.ReturnIndex(0))
	w.end()
}

// roundInt8 stores 32 values and skips the values of other rows.
func (w *wide) roundInt8() {
	w.fn("roundInt8"+w.tier, "(dst *int8, x *float32, n int, inv float32) int32",
		"rounds n values, a multiple of 32, times inv, at most 127 each, and returns their sum; NaN gives 0.")
	w.ld("dst", reg.RDI)
	w.ld("x", reg.RSI)
	w.ld("n", reg.RCX)
	w.VBROADCASTSS(operand.NewParamAddr("inv", 24), w.r[8])
	w.VPXORx(w.r[9])
	w.loop(reg.RCX, 32, func() {
		for i := range 32 / w.lanes {
			x := w.r[i]
			w.VMULPS(at(reg.RSI, i*w.bytes()), w.r[8], x)
			if w.lanes == 16 {
				w.VCMPPS(imm(7), x, x, reg.K1) // ordered
				w.VCVTPS2DQ_Z(x, reg.K1, x)
				w.VPMOVSDB(x, at(reg.RDI, 16*i))
			} else {
				w.VCMPPS(imm(7), x, x, w.r[10])
				w.VCVTPS2DQ(x, x)
				w.VPAND(w.r[10], x, x)
			}
			w.VPADDD(x, w.r[9], w.r[9])
		}
		if w.lanes == 8 {
			w.VPACKSSDW(w.r[1], w.r[0], w.r[0])
			w.VPACKSSDW(w.r[3], w.r[2], w.r[2])
			w.VPACKSSWB(w.r[2], w.r[0], w.r[0])
			w.VPERMD(w.r[0], w.order(), w.r[0])
			w.VMOVDQU(w.r[0], at(reg.RDI, 0))
		}
		w.ADDQ(imm(32*panel), reg.RDI)
		w.ADDQ(imm(128), reg.RSI)
	})
	x, y := w.r[9], w.r[10]
	add := func(m, n reg.VecPhysical) { w.VPADDD(m, n, n) }
	if w.lanes == 16 {
		w.VEXTRACTI64X4(imm(1), x, y.AsY())
		add(y.AsY().(reg.VecPhysical), x.AsY().(reg.VecPhysical))
	}
	lo, tmp := x.AsX().(reg.VecPhysical), y.AsX().(reg.VecPhysical)
	w.VEXTRACTI128(imm(1), x.AsY(), tmp)
	add(tmp, lo)
	w.VPSHUFD(imm(0xee), lo, tmp)
	add(tmp, lo)
	w.VPSHUFD(imm(0x55), lo, tmp)
	add(tmp, lo)
	w.VMOVD(lo, reg.EAX)
	w.Store(reg.EAX, w.ReturnIndex(0))
	w.end()
}

// roundAway rounds to the nearest integer. Values halfway between two integers
// are rounded away from zero.
func (w *wide) roundAway() {
	w.fn("roundAway"+w.tier, "(dst *int8, x *float32, n int, inv float32)",
		"rounds n values, a multiple of 32, times inv, at most 127 each, halves away from zero.")
	w.ld("dst", reg.RDI)
	w.ld("x", reg.RSI)
	w.ld("n", reg.RCX)
	w.VBROADCASTSS(operand.NewParamAddr("inv", 24), w.r[8])
	w.VBROADCASTSS(w.word("signBit", 1<<31), w.r[9])
	w.VBROADCASTSS(w.float("middle", 0.5), w.r[10])
	w.VBROADCASTSS(w.float("away", 1), w.r[11])
	w.loop(reg.RCX, 32, func() {
		for i := range 32 / w.lanes {
			x, r, sign := w.r[i], w.r[4], w.r[5]
			w.VMULPS(at(reg.RSI, i*w.bytes()), w.r[8], x)
			w.VANDPS(x, w.r[9], sign)
			if w.lanes == 16 {
				w.VRNDSCALEPS(imm(0), x, r)
			} else {
				w.VROUNDPS(imm(0), x, r)
			}
			w.VSUBPS(r, x, x)
			w.VORPS(w.r[10], sign, w.r[6])
			w.VORPS(w.r[11], sign, w.r[7])
			if w.lanes == 16 {
				w.VCMPPS(imm(0), w.r[6], x, reg.K1)
				w.VADDPS(w.r[7], r, reg.K1, r)
				w.VCVTPS2DQ(r, r)
				w.VPMOVSDB(r, at(reg.RDI, 16*i))
			} else {
				w.VCMPPS(imm(0), w.r[6], x, w.r[6])
				w.VANDPS(w.r[7], w.r[6], w.r[6])
				w.VADDPS(w.r[6], r, r)
				w.VCVTPS2DQ(r, x)
			}
		}
		if w.lanes == 8 {
			w.VPACKSSDW(w.r[1], w.r[0], w.r[0])
			w.VPACKSSDW(w.r[3], w.r[2], w.r[2])
			w.VPACKSSWB(w.r[2], w.r[0], w.r[0])
			w.VPERMD(w.r[0], w.order(), w.r[0])
			w.VMOVDQU(w.r[0], at(reg.RDI, 0))
		}
		w.ADDQ(imm(32), reg.RDI)
		w.ADDQ(imm(128), reg.RSI)
	})
	w.end()
}

// remainder computes the rounding error.
func (w *wide) remainder() {
	w.fn("remainder"+w.tier, "(dst, x *float32, n int, inv, step float32)",
		"makes x less step times x·inv rounded to even, of n values, a multiple of 16.")
	w.ld("dst", reg.RDI)
	w.ld("x", reg.RSI)
	w.ld("n", reg.RCX)
	w.VBROADCASTSS(operand.NewParamAddr("inv", 24), w.r[8])
	w.VBROADCASTSS(operand.NewParamAddr("step", 28), w.r[9])
	w.loop(reg.RCX, w.lanes, func() {
		w.VMOVUPS(at(reg.RSI, 0), w.r[0])
		w.VMULPS(w.r[8], w.r[0], w.r[1])
		if w.lanes == 16 {
			w.VRNDSCALEPS(imm(0), w.r[1], w.r[1])
		} else {
			w.VROUNDPS(imm(0), w.r[1], w.r[1])
		}
		w.VMULPS(w.r[9], w.r[1], w.r[1])
		w.VSUBPS(w.r[1], w.r[0], w.r[0])
		w.VMOVUPS(w.r[0], at(reg.RDI, 0))
		w.ADDQ(imm(w.bytes()), reg.RSI)
		w.ADDQ(imm(w.bytes()), reg.RDI)
	})
	w.end()
}

// VPXORx clears a register.
func (w *wide) VPXORx(r reg.VecPhysical) {
	if w.lanes == 16 {
		w.VPXORD(r, r, r)
	} else {
		w.VPXOR(r, r, r)
	}
}

// toHalf clamps to the largest value. Infinity has the bits 0x7c00, one above
// those of the largest value.
func (w *wide) toHalf() {
	w.fn("toHalf"+w.tier, "(dst *byte, x *float32, n int)",
		"rounds n values, a multiple of 8, to f16; too large values become the largest one, NaN becomes 0.")
	w.ld("dst", reg.RDI)
	w.ld("x", reg.RSI)
	w.ld("n", reg.RCX)
	w.VPBROADCASTD(w.word("half", 0x7fff7fff), reg.X8)
	w.VPBROADCASTD(w.word("halfInf", 0x7c007c00), reg.X9)
	w.loop(reg.RCX, 8, func() {
		w.VMOVUPS(at(reg.RSI, 0), reg.Y0)
		w.VCVTPS2PH(imm(0), reg.Y0, reg.X0)
		w.VPAND(reg.X8, reg.X0, reg.X1)
		w.VPCMPEQW(reg.X9, reg.X1, reg.X2)
		w.VPADDW(reg.X2, reg.X0, reg.X0)
		w.VPCMPGTW(reg.X9, reg.X1, reg.X2)
		w.VPANDN(reg.X0, reg.X2, reg.X0)
		w.VMOVDQU(reg.X0, at(reg.RDI, 0))
		w.ADDQ(imm(16), reg.RDI)
		w.ADDQ(imm(32), reg.RSI)
	})
	w.end()
}

// codesOf counts the boundaries at or below a value.
func (w *wide) codesOf() {
	w.fn("codesOf"+w.tier, "(dst *byte, x *float32, n int, boundaries *float32, count int)",
		"stores the codes of n values, a multiple of 32: how many of the ascending boundaries are not above; all for a NaN.")
	w.ld("dst", reg.RDI)
	w.ld("x", reg.RSI)
	w.ld("n", reg.RCX)
	w.ld("count", reg.R8)
	if w.lanes == 16 {
		w.VPBROADCASTD(w.word("unit", 1), w.r[8])
	}
	w.loop(reg.RCX, 32, func() {
		n := 32 / w.lanes
		for i := range n {
			w.VMOVUPS(at(reg.RSI, i*w.bytes()), w.r[i])
			w.VPXORx(w.r[4+i])
		}
		w.ld("boundaries", reg.RDX)
		w.MOVQ(reg.R8, reg.RAX)
		w.loop(reg.RAX, 1, func() {
			w.VBROADCASTSS(at(reg.RDX, 0), w.r[9])
			for i := range n {
				if w.lanes == 16 {
					w.VCMPPS(imm(0x15), w.r[9], w.r[i], reg.K1) // not less
					w.VPADDD(w.r[8], w.r[4+i], reg.K1, w.r[4+i])
				} else {
					w.VCMPPS(imm(0x15), w.r[9], w.r[i], w.r[10])
					w.VPSUBD(w.r[10], w.r[4+i], w.r[4+i])
				}
			}
			w.ADDQ(imm(4), reg.RDX)
		})
		if w.lanes == 16 {
			w.VPMOVDB(w.r[4], at(reg.RDI, 0))
			w.VPMOVDB(w.r[5], at(reg.RDI, 16))
		} else {
			w.VPACKUSDW(w.r[5], w.r[4], w.r[4])
			w.VPACKUSDW(w.r[7], w.r[6], w.r[6])
			w.VPACKUSWB(w.r[6], w.r[4], w.r[4])
			w.VPERMD(w.r[4], w.order(), w.r[4])
			w.VMOVDQU(w.r[4], at(reg.RDI, 0))
		}
		w.ADDQ(imm(32), reg.RDI)
		w.ADDQ(imm(128), reg.RSI)
	})
	w.end()
}
