package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// viterbi2 makes the kernels that add values to the paths of the trellis
// encoder.
func viterbi2(a *asm) {
	for _, bits := range []int{2, 3, 4} {
		(&viterbi2Code{a, bits}).run()
	}
}

// viterbi2Code is the encoder for one number of bits. Vector v of sixteen holds
// the windows from 16·v on: high bits x = v/sets and 16 states, in sets sets.
// The metrics of the states are in memory, where the metrics that lead to the
// windows of a vector are contiguous.
//
// Y0 to Y3 are the best sums of each set, and Y4 to Y7 their high bits, shifted
// into place. Y8 to Y10 are free, Y13 is the largest metrics so far, Y14
// spreads metrics. R8 indexes the squares of a value.
type viterbi2Code struct {
	*asm
	bits int
}

func (y *viterbi2Code) sets() int { return 16 >> y.bits }

func (y *viterbi2Code) words(name string, f func(lane int) int) operand.Mem {
	var parts []operand.Constant
	for i := range 16 {
		parts = append(parts, operand.U16(uint16(f(i))))
	}
	return y.constant(name, parts...)
}

func (y *viterbi2Code) run() {
	y.fn(fmt.Sprintf("viterbi%dAVX2", y.bits), viterbiArgs,
		"adds groups of four values, from z down, to the paths of a row, and stores the metrics after each.")
	y.ld("cost", reg.RDI)
	y.ld("most", reg.RBX)
	y.ld("kept", reg.R9)
	y.ld("from", reg.RSI)
	y.ld("z", reg.RDX)
	y.ld("squares", reg.RAX)
	y.ld("groups", reg.RCX)
	y.VMOVDQU(at(reg.RBX, 0), reg.Y13)
	// A lane of 8 words has the metrics of 1 or 2 states.
	y.VMOVDQU(y.words(fmt.Sprintf("spread%d", y.bits), func(lane int) int {
		word := lane >> y.bits
		return 2*word | (2*word+1)<<8
	}), reg.Y14)
	loop := y.label("loop")
	y.Label(loop)
	for k := range 4 {
		y.step(k)
	}
	y.SUBQ(imm(8), reg.RDX)
	y.ADDQ(imm(4*256>>y.bits), reg.RSI)
	y.ADDQ(imm(2*256>>y.bits), reg.R9)
	y.DECQ(reg.RCX)
	y.JNZ(operand.LabelRef(loop))
	y.VMOVDQU(reg.Y13, at(reg.RBX, 0))
	y.end()
}

// step adds value k of a group of four.
func (y *viterbi2Code) step(k int) {
	y.MOVWQSX(at(reg.RDX, -2*k), reg.R8)
	y.SHLQ(imm(squaresRow), reg.R8)
	y.ADDQ(reg.RAX, reg.R8)
	for v := range 16 {
		x, set := v/y.sets(), v%y.sets()
		d, in := reg.Y8, x<<(8-y.bits)
		num := y.words(fmt.Sprintf("high%d", in), func(int) int { return in })
		sum, which := ys[set], ys[4+set]
		switch y.bits {
		case 2:
			y.VPBROADCASTQ(at(reg.RDI, 8*v), reg.Y9)
			y.VPSHUFB(reg.Y14, reg.Y9, reg.Y9)
		case 3:
			y.VPBROADCASTD(at(reg.RDI, 4*v), reg.Y9)
			y.VPSHUFB(reg.Y14, reg.Y9, reg.Y9)
		case 4:
			y.VPBROADCASTW(at(reg.RDI, 2*v), reg.Y9)
		}
		if x == 0 {
			y.VPADDUSW(at(reg.R8, 32*v), reg.Y9, sum)
			y.VPXOR(which, which, which)
			continue
		}
		y.VPADDUSW(at(reg.R8, 32*v), reg.Y9, d)
		y.VPMINUW(sum, d, d)
		y.VPCMPEQW(d, sum, reg.Y9) // on a tie the lower number wins
		y.VMOVDQA(d, sum)
		y.VMOVDQU(num, reg.Y10)
		y.VPBLENDVB(reg.Y9, which, reg.Y10, which)
	}
	y.numbers(256 >> y.bits * k)
	if k == 3 {
		y.normalise()
	}
	for set := range y.sets() {
		y.VMOVDQU(ys[set], at(reg.RDI, 32*set))
		if k == 3 {
			y.VMOVDQU(ys[set], at(reg.R9, 32*set))
		}
	}
}

// numbers stores the high bits of the best windows as bytes.
func (y *viterbi2Code) numbers(disp int) {
	if y.bits == 4 {
		y.VEXTRACTI128(imm(1), reg.Y4, reg.X8)
		y.VPACKUSWB(reg.X8, reg.X4, reg.X4)
		y.VMOVDQU(reg.X4, at(reg.RSI, disp))
		return
	}
	for set := 0; set < y.sets(); set += 2 {
		y.VPACKUSWB(ys[5+set], ys[4+set], reg.Y8)
		y.VPERMQ(imm(0xd8), reg.Y8, reg.Y8)
		y.VMOVDQU(reg.Y8, at(reg.RSI, disp+16*set))
	}
}

// normalise subtracts the smallest metric from all, and records the largest.
func (y *viterbi2Code) normalise() {
	for set := range y.sets() {
		y.VPMAXUW(ys[set], reg.Y13, reg.Y13)
	}
	y.VMOVDQA(reg.Y0, reg.Y8)
	for set := 1; set < y.sets(); set++ {
		y.VPMINUW(ys[set], reg.Y8, reg.Y8)
	}
	y.VEXTRACTI128(imm(1), reg.Y8, reg.X9)
	y.VPMINUW(reg.X9, reg.X8, reg.X8)
	y.VPHMINPOSUW(reg.X8, reg.X8)
	y.VPBROADCASTW(reg.X8, reg.Y8)
	for set := range y.sets() {
		y.VPSUBW(reg.Y8, ys[set], ys[set])
	}
}
