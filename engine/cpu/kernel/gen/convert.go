package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// blockOps process whole vectors only, and package kernel does the rest in Go.
// The length of the first slice is a multiple of vector (see step).
var blockOps = []elemOp{
	{"ropePairs", "x, cos, sin []float32", "", "turns adjacent pairs, 16 values at once with AVX-512 and 8 with AVX2.", ropePairs},
	{"fromF16", "dst []float32, x []uint16", "", "widens binary16.", fromF16},
	{"toF16", "dst []uint16, x []float32", "", "rounds to binary16.", toF16},
	{"fromBF16", "dst []float32, x []uint16", "", "widens bfloat16.", fromBF16},
	{"toBF16", "dst []uint16, x []float32", "", "rounds to bfloat16.", toBF16},
	{"maximum", "x []float32", "float32", "finds the largest value, ignoring NaN.", maximum},
	{"index", "x []float32, f float32", "int", "finds the first f, or returns -1.", index},
	{"quantize", "dst *byte, x []float32", "", "fills blocks of 32 activations.", quantize},
}

func convert512(a *asm) { blocks(newVec(a, true)) }
func convert2(a *asm)   { blocks(newVec(a, false)) }

func blocks(v *vec) {
	for _, o := range blockOps {
		v.fn(o.name+v.tier(), "("+o.sig+") "+o.ret, o.doc)
		o.emit(v)
	}
}

// end returns from the function.
func (v *vec) end() {
	v.VZEROUPPER()
	v.RET()
}

// half returns the lower half of register i.
func (v *vec) half(i int) reg.Register {
	if v.wide {
		return ys32[i]
	}
	return xs[i]
}

var (
	ys32 = [8]reg.Register{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7}
	xs   = [8]reg.Register{reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7}
)

// repeat runs body while CX, counted down by step, is positive.
func (v *vec) repeat(step int, body func()) {
	again := v.label("again")
	v.Label(again)
	body()
	v.SUBQ(imm(step), reg.RCX)
	v.JNZ(LabelRef(again))
}

func ropePairs(v *vec) {
	v.slices("x", "cos", "sin")
	var parts []Constant
	for i := range v.lanes {
		parts = append(parts, U32(uint32(i/2)))
	}
	x, cos, sin, swap, twice := v.r(0), v.r(1), v.r(2), v.r(3), v.r(4)
	v.VMOVUPS(v.constant("twice", parts...), twice)
	v.repeat(v.lanes, func() {
		v.VMOVUPS(at(reg.RDI, 0), x)
		v.VMOVUPS(at(reg.RSI, 0), v.half(1))
		v.VMOVUPS(at(reg.RDX, 0), v.half(2))
		v.VPERMPS(cos, twice, cos)
		v.VPERMPS(sin, twice, sin)
		v.VPERMILPS(imm(0xb1), x, swap)
		v.VMULPS(sin, swap, swap)
		v.VFMADDSUB213PS(swap, cos, x)
		v.VMOVUPS(x, at(reg.RDI, 0))
		v.ADDQ(imm(v.bytes()), reg.RDI)
		v.ADDQ(imm(v.bytes()/2), reg.RSI)
		v.ADDQ(imm(v.bytes()/2), reg.RDX)
	})
	v.end()
}

// convert emits a loop over dst and x, in which the elements of one side are half as
// wide. widen makes dst the wide side.
func (v *vec) convert(widen bool, body func()) {
	v.slices("dst", "x")
	v.repeat(v.lanes, func() {
		body()
		dst, src := v.bytes(), v.bytes()/2
		if !widen {
			dst, src = src, dst
		}
		v.ADDQ(imm(dst), reg.RDI)
		v.ADDQ(imm(src), reg.RSI)
	})
	v.end()
}

func fromF16(v *vec) {
	v.convert(true, func() {
		v.VCVTPH2PS(at(reg.RSI, 0), v.r(0))
		v.VMOVUPS(v.r(0), at(reg.RDI, 0))
	})
}

func fromBF16(v *vec) {
	v.convert(true, func() {
		v.VPMOVZXWD(at(reg.RSI, 0), v.r(0))
		v.VPSLLD(imm(16), v.r(0), v.r(0))
		v.VMOVUPS(v.r(0), at(reg.RDI, 0))
	})
}

// toF16 clears the payload of a NaN, which the hardware keeps.
func toF16(v *vec) {
	v.convert(false, func() {
		x, h, nan := v.r(0), v.half(1), v.half(2)
		v.VMOVUPS(at(reg.RSI, 0), x)
		v.VCVTPS2PH(imm(0), x, h)
		if v.wide {
			v.VCMPPS(imm(3), x, x, reg.K1)
			v.VPANDD_BCST(v.word("payload", 0xfe00fe00), h, nan)
			v.VPBLENDMW(nan, h, reg.K1, h)
		} else {
			v.VCMPPS(imm(3), x, x, v.r(2))
			v.VEXTRACTI128(imm(1), v.r(2), reg.X3)
			v.VPACKSSDW(reg.X3, nan, nan)
			v.VPAND(v.fill("payload", 0x01ff01ff), nan, nan)
			v.VPANDN(h, nan, h)
		}
		v.VMOVDQU(h, at(reg.RDI, 0))
	})
}

func toBF16(v *vec) {
	v.convert(false, func() {
		x, top, odd := v.r(0), v.r(1), v.r(2)
		v.VMOVUPS(at(reg.RSI, 0), x)
		v.VPSRLD(imm(16), x, top)
		if v.wide {
			v.VCMPPS(imm(3), x, x, reg.K1)
			v.VPANDD_BCST(v.word("bit", 1), top, odd)
			v.VPADDD(x, odd, odd)
			v.VPADDD_BCST(v.word("round", 0x7fff), odd, odd)
			v.VPSRLD(imm(16), odd, odd)
			v.VPORD_BCST(v.word("quiet", 0x40), top, reg.K1, odd)
			v.VPMOVDW(odd, at(reg.RDI, 0))
			return
		}
		v.VPAND(v.fill("bit", 1), top, odd)
		v.VPADDD(x, odd, odd)
		v.VPADDD(v.fill("round", 0x7fff), odd, odd)
		v.VPSRLD(imm(16), odd, odd)
		v.VPOR(v.fill("quiet", 0x40), top, top)
		v.VCMPPS(imm(3), x, x, x)
		v.VBLENDVPS(x, top, odd, odd)
		v.VEXTRACTI128(imm(1), odd, reg.X3)
		v.VPACKUSDW(reg.X3, reg.X2, reg.X2)
		v.VMOVDQU(reg.X2, at(reg.RDI, 0))
	})
}

// maximum keeps its value if it meets NaN, because the value is the second
// source.
func maximum(v *vec) {
	v.slices("x")
	top := v.r(8)
	v.set(v.bits("lowest", 0xff800000), top)
	v.repeat(v.lanes, func() {
		v.VMOVUPS(at(reg.RDI, 0), v.r(0))
		v.VMAXPS(top, v.r(0), top)
		v.ADDQ(imm(v.bytes()), reg.RDI)
	})
	if v.wide {
		v.VEXTRACTF32X8(imm(1), reg.Z8, reg.Y9)
		v.VMAXPS(reg.Y9, reg.Y8, reg.Y8)
	}
	v.VEXTRACTF128(imm(1), reg.Y8, reg.X9)
	v.VMAXPS(reg.X9, reg.X8, reg.X8)
	v.VMOVHLPS(reg.X8, reg.X8, reg.X9)
	v.VMAXPS(reg.X9, reg.X8, reg.X8)
	v.VMOVSHDUP(reg.X8, reg.X9)
	v.VMAXSS(reg.X9, reg.X8, reg.X8)
	v.Store(reg.X8, v.ReturnIndex(0))
	v.end()
}

func index(v *vec) {
	v.slices("x")
	v.scalar("f", v.r(1))
	v.MOVQ(reg.RDI, reg.RSI)
	found := v.label("found")
	v.repeat(v.lanes, func() {
		if v.wide {
			v.VCMPPS(imm(0), at(reg.RDI, 0), v.r(1), reg.K1)
			v.KMOVW(reg.K1, reg.EAX)
		} else {
			v.VCMPPS(imm(0), at(reg.RDI, 0), v.r(1), v.r(0))
			v.VMOVMSKPS(v.r(0), reg.EAX)
		}
		v.TESTL(reg.EAX, reg.EAX)
		v.JNZ(LabelRef(found))
		v.ADDQ(imm(v.bytes()), reg.RDI)
	})
	v.MOVQ(I32(-1), reg.RAX)
	v.Store(reg.RAX, v.ReturnIndex(0))
	v.end()
	v.Label(found)
	v.BSFL(reg.EAX, reg.EAX)
	v.SUBQ(reg.RSI, reg.RDI)
	v.SHRQ(imm(2), reg.RDI)
	v.ADDQ(reg.RDI, reg.RAX)
	v.Store(reg.RAX, v.ReturnIndex(0))
	v.end()
}
