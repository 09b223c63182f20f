package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fusedRows is the most rows for which codes are looked up and multiplied at
// once; with more it is cheaper to store the bytes.
const fusedRows = 4

// fused512 is the integer dot products over planes of codes.
func fused512(a *asm) {
	for _, bits := range []int{2, 3, 4} {
		for n := 1; n <= fusedRows; n++ {
			(&fused{asm: a, bits: bits, n: n, vecs: 4}).tokens()
			(&fused{asm: a, bits: bits, n: n, vecs: 4}).values()
			(&fused{asm: a, bits: bits, n: n, vecs: 2}).values()
		}
	}
}

// fused is one kernel: n rows of vecs vectors of sums. Z16 to Z20 are planes,
// Z21 to Z24 the other operand, Z25 to Z29 free, Z30 the high plane's mask,
// Z31 the table.
type fused struct {
	*asm
	bits, n, vecs int
	high          reg.Register
}

func (f *fused) low() int { return f.bits &^ 1 }

// sets is how many sums a lane has; more hide the latency of few rows.
func (f *fused) sets() int {
	if f.n*f.vecs <= 8 {
		return 2
	}
	return 1
}

func (f *fused) acc(set, i, v int) reg.VecPhysical { return zs[(set*f.n+i)*f.vecs+v] }

func (f *fused) open() {
	f.high = reg.R14
	f.ld("low", reg.RSI)
	f.ld("table", reg.RAX)
	f.VMOVDQU64(at(reg.RAX, 0), reg.Z31)
	f.ld("ahead", reg.R12)
	if f.bits == 3 {
		f.ld("high", reg.R14)
		f.VPBROADCASTD(f.word("high3", 0x04040404), reg.Z30)
	}
}

// load takes the planes of eight steps and asks for those ahead.
func (f *fused) load() {
	for i := range f.low() {
		f.VMOVDQU64(at(reg.RSI, 64*i), zs[17+i])
		f.PREFETCHT0(ix(reg.RSI, reg.R12, 1, 64*i))
	}
	if f.bits == 3 {
		f.VMOVDQU64(at(reg.R14, 0), reg.Z16)
		f.PREFETCHT0(ix(reg.R14, reg.R12, 1, 0))
	}
}

func (f *fused) next() {
	f.ADDQ(imm(64*f.low()), reg.RSI)
	if f.bits == 3 {
		f.ADDQ(imm(64), reg.R14)
	}
}

// step looks up step s of eight.
func (f *fused) step(s int) reg.VecPhysical {
	per := 8 / f.low()
	src, idx := zs[17+s/per], zs[25+s%4]
	shift := s % per * f.low()
	if f.bits == 3 {
		f.shift(shift, src, idx)
		f.shift(s-2, reg.Z16, reg.Z29)
		f.VPTERNLOGD(imm(0xd8), reg.Z30, reg.Z29, idx)
	} else if shift > 0 {
		f.shift(shift, src, idx)
	} else {
		f.VPERMB(reg.Z31, src, idx)
		return idx
	}
	f.VPERMB(reg.Z31, idx, idx)
	return idx
}

func (f *fused) join(i, v int) reg.VecPhysical {
	x := f.acc(0, i, v)
	if f.sets() == 2 {
		f.VPADDD(f.acc(1, i, v), x, x)
	}
	f.VCVTDQ2PS(x, x)
	return x
}

func (f *fused) tokens() {
	f.fn(fmt.Sprintf("tokens%dbits%dAVX512", f.n, f.bits),
		"(dst *float32, low, high, table *byte, q *int8, qscale *float32, init *int32, scales *byte, blocks, chunks, ahead int)",
		"adds the scores of %d queries with codes of %d bits; chunks are those of 32 values of a block.", f.n, f.bits)
	f.ld("dst", reg.RDI)
	f.ld("q", reg.RDX)
	f.ld("qscale", reg.R8)
	f.ld("init", reg.R9)
	f.ld("scales", reg.R10)
	f.ld("blocks", reg.R11)
	f.open()
	block, chunk, loop := f.label("block"), f.label("chunk"), f.label("loop")
	f.Label(block)
	f.ld("chunks", reg.RCX)
	for i := range f.n {
		f.VPBROADCASTD(at(reg.R9, 4*i), f.acc(0, i, 0))
		for v := 1; v < 4; v++ {
			f.VMOVDQA64(f.acc(0, i, 0), f.acc(0, i, v))
		}
		for v := range 4 * (f.sets() - 1) {
			f.VPXORD(f.acc(1, i, v), f.acc(1, i, v), f.acc(1, i, v))
		}
	}
	f.Label(chunk)
	f.MOVQ(operand.U32(4), reg.RBX)
	f.Label(loop)
	f.load()
	for g := range 2 {
		for i := range f.n {
			f.VPBROADCASTD(at(reg.RDX, 32*i+4*g), zs[21+i])
		}
		for v := range 4 {
			c := f.step(4*g + v)
			for i := range f.n {
				f.VPDPBUSD(zs[21+i], c, f.acc(g%f.sets(), i, v))
			}
		}
	}
	f.next()
	f.ADDQ(imm(8), reg.RDX)
	f.DECQ(reg.RBX)
	f.JNZ(operand.LabelRef(loop))
	f.ADDQ(imm(32*(panel-1)), reg.RDX)
	f.DECQ(reg.RCX)
	f.JNZ(operand.LabelRef(chunk))
	for v := range 4 {
		f.VCVTPH2PS(at(reg.R10, 32*v), zs[21+v])
	}
	for i := range f.n {
		for v := range 4 {
			x := f.join(i, v)
			f.VMULPS_BCST(at(reg.R8, 4*i), zs[21+v], reg.Z29)
			f.VMULPS(reg.Z29, x, x)
			f.VADDPS(at(reg.RDI, 256*i+64*v), x, x)
			f.VMOVUPS(x, at(reg.RDI, 256*i+64*v))
		}
	}
	f.ADDQ(imm(4*panel), reg.R8)
	f.ADDQ(imm(4*panel), reg.R9)
	f.ADDQ(imm(128), reg.R10)
	f.DECQ(reg.R11)
	f.JNZ(operand.LabelRef(block))
	f.end()
}

func (f *fused) values() {
	f.fn(fmt.Sprintf("values%dx%dbits%dAVX512", f.n, f.vecs, f.bits),
		"(acc *float32, ld int, low, high, table, w *byte, scale *float32, groups uint64, ahead int)",
		"adds %d values of %d bits weighted for %d rows, ld bytes apart.", 16*f.vecs, f.bits, f.n)
	f.ld("acc", reg.RDI)
	f.ld("ld", reg.R8)
	f.ld("w", reg.RDX)
	f.ld("scale", reg.R9)
	f.ld("groups", reg.RCX)
	f.open()
	for s := range f.sets() {
		for i := range f.n {
			for v := range f.vecs {
				f.VPXORD(f.acc(s, i, v), f.acc(s, i, v), f.acc(s, i, v))
			}
		}
	}
	groups := 8 / f.vecs
	loop, skip := f.label("loop"), f.label("skip")
	f.MOVQ(operand.U32(uint32(16/groups)), reg.RBX)
	f.Label(loop)
	f.TESTQ(operand.U32(1<<groups-1), reg.RCX)
	f.JZ(operand.LabelRef(skip))
	f.load()
	for g := range groups {
		for i := range f.n {
			f.VPBROADCASTD(at(reg.RDX, 64*i+4*g), zs[21+i])
		}
		for v := range f.vecs {
			c := f.step(f.vecs*g + v)
			for i := range f.n {
				f.VPDPBUSD(c, zs[21+i], f.acc(g%f.sets(), i, v))
			}
		}
	}
	f.Label(skip)
	f.next()
	f.SHRQ(imm(groups), reg.RCX)
	f.ADDQ(imm(4*groups), reg.RDX)
	f.DECQ(reg.RBX)
	f.JNZ(operand.LabelRef(loop))
	for i := range f.n {
		f.VBROADCASTSS(at(reg.R9, 4*i), reg.Z29)
		for v := range f.vecs {
			x := f.join(i, v)
			f.VMULPS(reg.Z29, x, x)
			f.VADDPS(at(reg.RDI, 64*v), x, x)
			f.VMOVUPS(x, at(reg.RDI, 64*v))
		}
		f.ADDQ(reg.R8, reg.RDI)
	}
	f.end()
}
