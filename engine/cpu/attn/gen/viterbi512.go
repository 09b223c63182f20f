package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// viterbi512 adds values to the paths of the trellis encoder.
func viterbi512(a *asm) {
	for _, bits := range []int{2, 3, 4} {
		(&viterbi{a, bits}).run()
	}
}

// viterbi is the encoder of one code size, as kv.Trellis describes it. Vector
// v of eight holds 32 of the 256 windows: high bits x and states s from 0 up.
//
//	2 bits   x = v/2, s = 32·(v%2) and on: two sets of states
//	3 bits   x = v, s = 0 to 31
//	4 bits   x = v and v+8, s = 0 to 15 each
//
// Z0 to Z7 are sums, Z8 and Z9 the metrics of the states, Z10 the value, Z11
// the farthest distance, Z12 to Z15 free, Z16 to Z23 the numbers 0 to 7, Z24
// to Z31 the states that lead to the windows of each vector.
type viterbi struct {
	*asm
	bits int
}

// window is the high bits and the state of lane i of vector v.
func (y *viterbi) window(v, i int) (x, s int) {
	switch y.bits {
	case 2:
		return v / 2, 32*(v%2) + i
	case 3:
		return v, i
	}
	return v + 8*(i/16), i % 16
}

// words makes a constant of 32 words.
func (y *viterbi) words(name string, f func(lane int) int) operand.Mem {
	var parts []operand.Constant
	for i := range 32 {
		parts = append(parts, operand.U16(uint16(f(i))))
	}
	return y.constant(name, parts...)
}

func (y *viterbi) run() {
	y.fn(fmt.Sprintf("viterbi%dAVX512", y.bits), "(cost *uint16, from *byte, z, table *int16, groups int)",
		"adds groups of four values to the paths; table has the levels of the windows in the order of the vectors.")
	y.ld("cost", reg.RDI)
	y.ld("from", reg.RSI)
	y.ld("z", reg.RDX)
	y.ld("table", reg.RAX)
	y.ld("groups", reg.RCX)
	for v := range 8 {
		y.VMOVDQU64(y.words(fmt.Sprintf("lead%d_%d", y.bits, v), func(lane int) int {
			x, s := y.window(v, lane)
			return (x<<(8-y.bits) | s) >> y.bits
		}), zs[24+v])
		y.VPBROADCASTW(y.words(fmt.Sprintf("number%d", v), func(int) int { return v }), zs[16+v])
	}
	y.VPBROADCASTW(y.words("far", func(int) int { return 255 }), reg.Z11)
	switch y.bits {
	case 2:
		y.VMOVDQU64(at(reg.RDI, 64), reg.Z9)
		fallthrough
	case 3:
		y.VMOVDQU64(at(reg.RDI, 0), reg.Z8)
	case 4:
		y.VBROADCASTI64X4(at(reg.RDI, 0), reg.Z8)
	}
	loop := y.label("loop")
	y.Label(loop)
	for k := range 4 {
		y.step(k)
	}
	y.normalise()
	y.ADDQ(imm(8), reg.RDX)
	y.ADDQ(imm(4*256>>y.bits), reg.RSI)
	y.DECQ(reg.RCX)
	y.JNZ(operand.LabelRef(loop))
	switch y.bits {
	case 2:
		y.VMOVDQU64(reg.Z9, at(reg.RDI, 64))
		fallthrough
	case 3:
		y.VMOVDQU64(reg.Z8, at(reg.RDI, 0))
	case 4:
		y.VMOVDQU(reg.Y8, at(reg.RDI, 0))
	}
	y.end()
}

// step adds value k of four.
func (y *viterbi) step(k int) {
	y.VPBROADCASTW(at(reg.RDX, 2*k), reg.Z10)
	for v := range 8 {
		d, cost := zs[v], reg.Z8
		if y.bits == 2 && v >= 4 {
			cost = reg.Z9
		}
		y.VPSUBW(at(reg.RAX, 64*v), reg.Z10, d)
		y.VPABSW(d, d)
		y.VPMINUW(reg.Z11, d, d)
		y.VPMULLW(d, d, d)
		y.VPERMW(cost, zs[24+v], zs[12+v%4])
		y.VPADDUSW(zs[12+v%4], d, d)
	}
	at := 256 >> y.bits * k
	switch y.bits {
	case 2:
		y.best([]int{0, 2, 4, 6}, reg.Z12)
		y.VPMOVWB(reg.Z12, y.from(at))
		y.best([]int{1, 3, 5, 7}, reg.Z12)
		y.VPMOVWB(reg.Z12, y.from(at+32))
		y.VMOVDQA64(reg.Z0, reg.Z8)
		y.VMOVDQA64(reg.Z1, reg.Z9)
	case 3:
		y.best([]int{0, 1, 2, 3, 4, 5, 6, 7}, reg.Z12)
		y.VPMOVWB(reg.Z12, y.from(at))
		y.VMOVDQA64(reg.Z0, reg.Z8)
	case 4:
		y.best([]int{0, 1, 2, 3, 4, 5, 6, 7}, reg.Z12)
		// The higher eight of the high bits against the lower.
		y.VSHUFI64X2(imm(0x4e), reg.Z0, reg.Z0, reg.Z1)
		y.VSHUFI64X2(imm(0x4e), reg.Z12, reg.Z12, reg.Z13)
		y.VPADDW(reg.Z17, reg.Z23, reg.Z14)
		y.VPADDW(reg.Z14, reg.Z13, reg.Z13)
		y.VPCMPUW(imm(1), reg.Z0, reg.Z1, reg.K1)
		y.VPBLENDMW(reg.Z13, reg.Z12, reg.K1, reg.Z12)
		y.VPMINUW(reg.Z1, reg.Z0, reg.Z8)
		y.VSHUFI64X2(imm(0x44), reg.Z8, reg.Z8, reg.Z8)
		y.VPMOVWB(reg.Y12, y.from(at))
	}
}

func (y *viterbi) from(disp int) operand.Mem { return at(reg.RSI, disp) }

// best leaves the least of the sums, 4 or 8 of them, in the first, and its
// number in which: the lowest of equal ones.
func (y *viterbi) best(v []int, which reg.VecPhysical) {
	idx := []reg.VecPhysical{which, reg.Z13, reg.Z14, reg.Z15}
	for i := 0; i < len(v); i += 2 {
		y.better(v[i], v[i+1], zs[16+i], zs[17+i], idx[i/2])
	}
	for step := 2; step < len(v); step *= 2 {
		for i := 0; i < len(v); i += 2 * step {
			y.better(v[i], v[i+step], idx[i/2], idx[(i+step)/2], idx[i/2])
		}
	}
}

// better keeps the lesser of two sums in the first, and its number.
func (y *viterbi) better(a, b int, numA, numB, to reg.VecPhysical) {
	y.VPCMPUW(imm(1), zs[a], zs[b], reg.K1)
	y.VPMINUW(zs[b], zs[a], zs[a])
	y.VPBLENDMW(numB, numA, reg.K1, to)
}

// normalise takes the least metric off all.
func (y *viterbi) normalise() {
	least := reg.Z0
	switch y.bits {
	case 2:
		y.VPMINUW(reg.Z9, reg.Z8, least)
		y.VEXTRACTI64X4(imm(1), least, reg.Y1)
		y.VPMINUW(reg.Y1, reg.Y0, reg.Y0)
	case 3:
		y.VEXTRACTI64X4(imm(1), reg.Z8, reg.Y1)
		y.VPMINUW(reg.Y1, reg.Y8, reg.Y0)
	case 4:
		y.VMOVDQA64(reg.Z8, least)
	}
	y.VEXTRACTI128(imm(1), reg.Y0, reg.X1)
	y.VPMINUW(reg.X1, reg.X0, reg.X0)
	y.VPHMINPOSUW(reg.X0, reg.X0)
	y.VPBROADCASTW(reg.X0, least)
	y.VPSUBW(least, reg.Z8, reg.Z8)
	if y.bits == 2 {
		y.VPSUBW(least, reg.Z9, reg.Z9)
	}
}
