package main

import (
	"fmt"

	. "godwit/engine/cpu/neon"
)

// viterbi makes the kernels that add values to the paths of the trellis
// encoder.
func viterbi(a *asm) {
	for _, bits := range []int{2, 3, 4} {
		y := &viterbiCode{asm: a, bits: bits}
		y.now, y.next = 0, V(y.sets())
		y.number = 2 * V(y.sets())
		y.pair = y.number + V(1<<bits-1)
		y.run()
	}
}

// viterbiCode is the encoder for one number of bits. Vector v of 32 holds the
// windows from 8·v on: high bits x = v/sets and 8 states, in sets sets. The
// metrics are in registers. Those at the beginning of a step start at now, and
// those at its end start at next.
//
// The high bits, shifted into place, start at number, beginning with those of
// 1. With two bits, the orders that spread two metrics start at pair. V24 is
// the largest metrics so far, V25 the value, V26 the farthest distance. V27 and
// V28 are the best sum and its high bits. V29 to V31 are free.
type viterbiCode struct {
	*asm
	bits         int
	now, next    V
	number, pair V
}

func (y *viterbiCode) sets() int { return 32 >> y.bits }

func (y *viterbiCode) run() {
	y.Func(fmt.Sprintf("viterbi%dNEON", y.bits), "(cost, most, kept *uint16, from *byte, z, table *int16, groups int)",
		"adds groups of four values, from z down, to the paths of a row, and stores the metrics after each; table has the levels of the windows.", 0)
	y.args("cost", "most", "kept", "from", "z", "table", "groups")
	y.Load(24, R1, 0)
	for set := range y.sets() {
		y.Load(y.now+V(set), R0, 16*set)
	}
	for x := 1; x < 1<<y.bits; x++ {
		y.Fill(y.number+V(x-1), uint32(x<<(8-y.bits))*0x01010101, R19)
	}
	y.Fill(26, 0x00ff00ff, R19)
	if y.bits == 2 {
		for i := range 4 {
			var order [16]byte
			for lane := range 8 {
				word := 2*i + lane/4
				order[2*lane], order[2*lane+1] = byte(2*word), byte(2*word+1)
			}
			y.Const(y.pair+V(i), fmt.Sprintf("pair%d", i), order, R19)
		}
	}
	y.Loop(R6, 1, func() {
		for k := range 4 {
			y.step(k)
			y.now, y.next = y.next, y.now
		}
		for set := range y.sets() {
			y.Store(y.now+V(set), R2, 16*set)
		}
		y.Op("SUB $8, R4, R4")
		y.Op("ADD $%d, R3, R3", 4*256>>y.bits)
		y.Op("ADD $%d, R2, R2", 2*256>>y.bits)
	})
	y.Store(24, R1, 0)
	for set := range y.sets() {
		y.Store(y.now+V(set), R0, 16*set)
	}
	y.Ret()
}

// before loads the metrics of the states that lead to vector v into V29.
func (y *viterbiCode) before(v int) {
	switch y.bits {
	case 2:
		y.Look(29, y.now+V(v/4), 1, y.pair+V(v%4))
	case 3:
		y.Op("VDUP V%d.H[%d], V29.H8", int(y.now)+v/8, v%8)
	case 4:
		y.Op("VDUP V%d.H[%d], V29.H8", int(y.now)+v/16, v/2%8)
	}
}

// step adds value k of a group of four.
func (y *viterbiCode) step(k int) {
	y.Op("SUB $%d, R4, R7", 2*k)
	y.Op("VLD1R (R7), [V25.H8]")
	for set := range y.sets() {
		for x := range 1 << y.bits {
			v := x*y.sets() + set
			y.Load(30, R5, 16*v)
			y.before(v)
			y.V("sabd.8h", 30, 25, 30)
			y.V("umin.8h", 30, 30, 26)
			y.V("mul.8h", 30, 30, 30)
			if x == 0 {
				y.V("uqadd.8h", 27, 29, 30)
				y.Zero(28)
				continue
			}
			y.V("uqadd.8h", 30, 29, 30)
			y.V("cmhi.8h", 31, 27, 30) // on a tie the lower number wins
			y.V("bit.16b", 28, y.number+V(x-1), 31)
			y.V("umin.8h", 27, 27, 30)
		}
		y.Move(y.next+V(set), 27)
		y.N("xtn.8b", 28, 28)
		y.StoreHalf(28, R3, 256>>y.bits*k+8*set)
	}
	if k == 3 {
		y.normalise()
	}
}

// normalise subtracts the smallest metric from all, and records the largest.
func (y *viterbiCode) normalise() {
	for set := range y.sets() {
		y.V("umax.8h", 24, 24, y.next+V(set))
	}
	y.Move(29, y.next)
	for set := 1; set < y.sets(); set++ {
		y.V("umin.8h", 29, 29, y.next+V(set))
	}
	y.N("uminv.8h", 29, 29)
	y.Op("VDUP V29.H[0], V29.H8")
	for set := range y.sets() {
		y.V("sub.8h", y.next+V(set), y.next+V(set), 29)
	}
}
