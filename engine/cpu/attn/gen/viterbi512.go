package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// viterbi512 makes the kernels that add values to the paths of the trellis
// encoder and trace them back.
func viterbi512(a *asm) {
	for _, bits := range []int{2, 3, 4} {
		walkBack(a, bits)
	}
	for _, bits := range []int{2, 3, 4} {
		for _, rows := range []int{1, viterbiRows} {
			(&viterbi{asm: a, bits: bits, rows: rows}).run()
		}
		(&viterbi{asm: a, bits: bits, rows: viterbiRows, blind: true}).run()
	}
}

// The number of rows that a kernel processes together, and their strides in
// bytes, as in type paths of package attn.
const (
	viterbiRows    = 4
	viterbiCosts   = 2 * 64
	viterbiMost    = 2 * 32
	viterbiKept    = 2 * 64 * (24 + 256) / 4
	viterbiValues  = 2 * 256
	viterbiNumbers = 64 * (24 + 256)
	squaresRow     = 9 // log2 of the bytes of 256 squares
)

const viterbiDoc = "adds groups of four values, from z down, to the paths of %s, and stores the metrics after each."

const viterbiArgs = "(cost, most, kept *uint16, from *byte, z *int16, squares *uint16, groups int)"

// viterbi is the encoder for one number of bits, as kv.Trellis describes it.
// Vector v of eight holds the windows from 32·v on, with high bits x and states
// s:
//
//	2 bits   x = v/2, s from 32·(v%2), so there are two sets of states
//	3 bits   x = v, s = 0 to 31
//	4 bits   x = 2·v and 2·v+1, s = 0 to 15 for each
//
// A row spends most of its time waiting for its own metrics, so several rows
// fill each other's gaps. Z0 to Z7 are free, and so are Z12 to Z15, except with
// two bits. The metrics of the states of every row are in Z8 and up. The high
// bits of the windows, shifted into place, are in Z16 or Z17 and up. The states
// that lead to them are in Z24 and up.
type viterbi struct {
	*asm
	bits, rows int
	blind      bool // computes the metrics without recording the paths
}

// window returns the high bits and the state of lane i of vector v.
func (y *viterbi) window(v, i int) (x, s int) {
	w := 32*v + i
	return w >> (8 - y.bits), w & (1<<(8-y.bits) - 1)
}

// words makes a constant of 32 words.
func (y *viterbi) words(name string, f func(lane int) int) operand.Mem {
	var parts []operand.Constant
	for i := range 32 {
		parts = append(parts, operand.U16(uint16(f(i))))
	}
	return y.constant(name, parts...)
}

// cost returns the metrics of a row; with two bits they take two registers.
func (y *viterbi) cost(row, set int) reg.VecPhysical {
	if y.bits == 2 {
		return []reg.VecPhysical{reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z16}[2*row+set]
	}
	return zs[8+row]
}

// number returns the register with the high bits of vector v, shifted into
// place. With two bits, two vectors share a register.
func (y *viterbi) number(v int) reg.VecPhysical {
	if y.bits == 2 {
		return zs[17+v/2]
	}
	return zs[16+v]
}

func (y *viterbi) lead(v int) reg.VecPhysical {
	if y.bits == 2 {
		return zs[24+v%4]
	}
	return zs[24+v]
}

// squares returns the register that indexes the squares of a value of a row.
func (y *viterbi) squares(row int) reg.GPPhysical {
	return []reg.GPPhysical{reg.R8, reg.R9, reg.R10, reg.R11}[row]
}

func (y *viterbi) sets() int {
	if y.bits == 2 {
		return 2
	}
	return 1
}

func (y *viterbi) run() {
	switch {
	case y.blind:
		y.fn(fmt.Sprintf("viterbiBlind%dx%dAVX512", y.bits, y.rows), viterbiArgs, "is viterbi%dx%dAVX512 without the paths: it computes the metrics only.", y.bits, y.rows)
	case y.rows > 1:
		y.fn(fmt.Sprintf("viterbi%dx%dAVX512", y.bits, y.rows), viterbiArgs, viterbiDoc, fmt.Sprint(y.rows, " rows"))
	default:
		y.fn(fmt.Sprintf("viterbi%dx1AVX512", y.bits), viterbiArgs, viterbiDoc, "a row")
	}
	y.ld("cost", reg.RDI)
	y.ld("most", reg.RBX)
	y.ld("kept", reg.R12)
	y.ld("from", reg.RSI)
	y.ld("z", reg.RDX)
	y.ld("squares", reg.RAX)
	y.ld("groups", reg.RCX)
	for v := range 8 {
		y.VMOVDQU64(y.words(fmt.Sprintf("lead%d_%d", y.bits, v), func(lane int) int {
			x, s := y.window(v, lane)
			return (x<<(8-y.bits) | s) >> y.bits
		}), y.lead(v))
		y.VMOVDQU64(y.words(fmt.Sprintf("number%d_%d", y.bits, v), func(lane int) int {
			x, _ := y.window(v, lane)
			return x << (8 - y.bits)
		}), y.number(v))
	}
	y.metrics(func(c reg.VecPhysical, m operand.Mem) { y.move(m, c) })
	loop := y.label("loop")
	y.Label(loop)
	for k := range 4 {
		for row := range y.rows {
			y.step(k, row)
		}
	}
	for row := range y.rows {
		y.normalise(row)
	}
	y.SUBQ(imm(8), reg.RDX)
	y.ADDQ(imm(4*256>>y.bits), reg.RSI)
	y.ADDQ(imm(2*256>>y.bits), reg.R12)
	y.DECQ(reg.RCX)
	y.JNZ(operand.LabelRef(loop))
	y.metrics(func(c reg.VecPhysical, m operand.Mem) { y.move(c, m) })
	y.end()
}

// metrics moves the metrics of all rows.
func (y *viterbi) metrics(move func(c reg.VecPhysical, m operand.Mem)) {
	for row := range y.rows {
		for set := range y.sets() {
			move(y.cost(row, set), at(reg.RDI, viterbiCosts*row+64*set))
		}
	}
}

// move loads or stores metrics. With four bits they fill half a register, and
// the other half is zero.
func (y *viterbi) move(from, to operand.Op) {
	if y.bits < 4 {
		y.VMOVDQU64(from, to)
		return
	}
	half := func(o operand.Op) operand.Op {
		if r, ok := o.(reg.Vec); ok {
			return r.AsY()
		}
		return o
	}
	y.VMOVDQU(half(from), half(to))
}

// step adds value k of a group of four to the paths of a row.
func (y *viterbi) step(k, row int) {
	squares := y.squares(row)
	y.MOVWQSX(at(reg.RDX, viterbiValues*row-2*k), squares)
	y.SHLQ(imm(squaresRow), squares)
	y.ADDQ(reg.RAX, squares)
	to := func(half int) operand.Mem {
		return at(reg.RSI, viterbiNumbers*row+256>>y.bits*k+32*half)
	}
	switch y.bits {
	case 2:
		for set := range 2 {
			// The metrics before this step are needed to its end; the new ones
			// wait in Z0 and Z5.
			sum, which := zs[5*set], reg.Z2
			y.pair(row, set, set+2, sum, which)
			y.pair(row, set+4, set+6, reg.Z1, reg.Z3)
			y.better(sum, reg.Z1, which, reg.Z3)
			y.bytes(which, to(set))
		}
		y.VMOVDQA64(reg.Z0, y.cost(row, 0))
		y.VMOVDQA64(reg.Z5, y.cost(row, 1))
	default:
		for v := range 8 {
			y.sum(row, v, zs[v])
		}
		for i := range 4 {
			y.lesser(zs[2*i], zs[2*i+1], y.number(2*i), y.number(2*i+1), zs[12+i])
		}
		y.better(reg.Z0, reg.Z2, reg.Z12, reg.Z13)
		y.better(reg.Z4, reg.Z6, reg.Z14, reg.Z15)
		y.better(reg.Z0, reg.Z4, reg.Z12, reg.Z14)
		if y.bits == 3 {
			y.VMOVDQA64(reg.Z0, y.cost(row, 0))
			y.bytes(reg.Z12, to(0))
			return
		}
		// Compare even high bits with odd ones. On a tie the lower wins.
		y.VEXTRACTI64X4(imm(1), reg.Z0, reg.Y2)
		if !y.blind {
			y.VEXTRACTI64X4(imm(1), reg.Z12, reg.Y3)
			y.VPCMPEQW(reg.Y2, reg.Y0, reg.K1)
			y.VPCMPUW(imm(1), reg.Y12, reg.Y3, reg.K1, reg.K1)
			y.VPCMPUW(imm(1), reg.Y0, reg.Y2, reg.K2)
			y.KORW(reg.K1, reg.K2, reg.K1)
			y.VPBLENDMW(reg.Y3, reg.Y12, reg.K1, reg.Y12)
			y.VPMOVWB(reg.Y12, to(0))
		}
		y.VPMINUW(reg.Y2, reg.Y0, y.cost(row, 0).(reg.Vec).AsY())
	}
}

// pair computes the sums of two vectors and leaves the smaller ones, with their
// high bits.
func (y *viterbi) pair(row, a, b int, sum, which reg.VecPhysical) {
	y.sum(row, a, sum)
	y.sum(row, b, reg.Z7)
	y.lesser(sum, reg.Z7, y.number(a), y.number(b), which)
}

// sum computes the metrics of vector v.
func (y *viterbi) sum(row, v int, to reg.VecPhysical) {
	set := 0
	if y.bits == 2 {
		set = v / 4
	}
	y.VPERMW(y.cost(row, set), y.lead(v), to)
	y.VPADDUSW(at(y.squares(row), 64*v), to, to)
}

// better leaves the smaller sums of a and b in a, and their high bits in highA.
func (y *viterbi) better(a, b, highA, highB reg.VecPhysical) { y.lesser(a, b, highA, highB, highA) }

func (y *viterbi) lesser(a, b, highA, highB, to reg.VecPhysical) {
	if y.blind {
		y.VPMINUW(b, a, a)
		return
	}
	y.VPCMPUW(imm(1), a, b, reg.K1)
	y.VPMINUW(b, a, a)
	y.VPBLENDMW(highB, highA, reg.K1, to)
}

// bytes stores the high bits of the best windows.
func (y *viterbi) bytes(high reg.VecPhysical, to operand.Mem) {
	if !y.blind {
		y.VPMOVWB(high, to)
	}
}

// normalise subtracts the smallest metric of a row from all of its metrics, and
// records the largest.
func (y *viterbi) normalise(row int) {
	a, b := y.cost(row, 0), y.cost(row, y.sets()-1)
	most := at(reg.RBX, viterbiMost*row)
	y.VPMAXUW(most, a, reg.Z5)
	least := zs[row]
	half, quarter := least.(reg.Vec).AsY(), least.(reg.Vec).AsX()
	switch y.bits {
	case 2:
		y.VPMAXUW(b, reg.Z5, reg.Z5)
		y.VPMINUW(a, b, least)
		y.VEXTRACTI64X4(imm(1), least, reg.Y4)
		y.VPMINUW(reg.Y4, half, half)
	case 3:
		y.VEXTRACTI64X4(imm(1), a, reg.Y4)
		y.VPMINUW(reg.Y4, a.(reg.Vec).AsY(), half)
	case 4:
		y.VMOVDQA(a.(reg.Vec).AsY(), half)
	}
	y.VEXTRACTI128(imm(1), half, reg.X4)
	y.VPMINUW(reg.X4, quarter, quarter)
	y.VPHMINPOSUW(quarter, quarter)
	y.VPBROADCASTW(quarter, least)
	y.VPSUBW(least, a, a)
	y.VMOVDQU64(reg.Z5, most)
	y.move(a, at(reg.R12, viterbiKept*row))
	if y.bits == 2 {
		y.VPSUBW(least, b, b)
		y.move(b, at(reg.R12, viterbiKept*row+64))
	}
}

// walkBack traces the paths of rows back. It uses no vector code. While one row
// waits for its loads, the others run.
func walkBack(a *asm, bits int) {
	a.fn(fmt.Sprintf("walkBack%dx%d", bits, viterbiRows), "(w, from *byte, state *uint, n int)",
		"traces the paths of %d rows back over n values, from being at the last step, and writes their windows.", viterbiRows)
	a.ld("w", reg.RDI)
	a.ld("from", reg.RSI)
	a.ld("state", reg.RDX)
	a.ld("n", reg.RCX)
	states := []reg.GPPhysical{reg.R8, reg.R9, reg.R10, reg.R11}
	free := []reg.GPPhysical{reg.RAX, reg.RBX, reg.R12, reg.R13}
	for row, s := range states {
		a.MOVQ(at(reg.RDX, 8*row), s)
	}
	loop := a.label("loop")
	a.Label(loop)
	for row, s := range states {
		a.MOVBLZX(ix(reg.RSI, s, 1, viterbiNumbers*row), free[row].As32())
		a.ORL(free[row].As32(), s.As32())
		a.MOVB(s.As8(), at(reg.RDI, 256*row))
		a.SHRL(imm(bits), s.As32())
	}
	a.SUBQ(imm(256>>bits), reg.RSI)
	a.INCQ(reg.RDI)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	for row, s := range states {
		a.MOVQ(s, at(reg.RDX, 8*row))
	}
	a.RET()
}
