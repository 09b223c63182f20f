package main

import (
	"fmt"

	. "godwit/engine/cpu/neon"
)

func codes(a *asm) {
	for _, bits := range []int{1, 2, 3, 4, 5} {
		a.expand(bits)
	}
	a.transpose()
	for _, vecs := range []int{2, 4} {
		a.decodeInt(vecs)
		a.decodeTable(vecs)
	}
}

// expand processes eight steps at a time, 16 bytes of each. A plane of b bits
// holds 8/b steps in a line of 64 bytes.
func (a *asm) expand(bits int) {
	low := max(1, bits&^1)
	high := bits > low
	a.Func(fmt.Sprintf("expand%dNEON", bits), "(dst, low, high, table *byte, steps int)", fmt.Sprintf("makes a byte of every code of %d bits; steps is a multiple of eight.", bits), 0)
	a.args("dst", "low", "high", "table")
	a.Arg("steps", R9)
	mask, maskHigh, table := V(29), V(28), V(30)
	a.Fill(mask, (1<<low-1)*0x01010101, R19)
	if high {
		a.Fill(maskHigh, 1<<low*0x01010101, R19)
	}
	registers := 1
	a.Load(table, R3, 0)
	if bits == 5 {
		registers = 2
		a.Load(table+1, R3, 16)
	}
	per := 8 / low
	a.Loop(R9, 8, func() {
		a.Op("MOVD $4, R10")
		a.Loop(R10, 1, func() {
			if high {
				a.Load(8, R2, 0)
			}
			for s := range 8 {
				at := s % per
				if at == 0 {
					a.Load(0, R1, 64*(s/per))
				}
				code := V(1)
				switch at {
				case 0:
					a.V("and.16b", code, 0, mask)
				case per - 1:
					a.Shift("ushr.16b", code, 0, at*low)
				default:
					a.Shift("ushr.16b", code, 0, at*low)
					a.V("and.16b", code, code, mask)
				}
				if high {
					bit := V(2)
					switch left := low - s; {
					case left > 0:
						a.Shift("shl.16b", bit, 8, left)
					case left < 0:
						a.Shift("ushr.16b", bit, 8, -left)
					default:
						bit = 8
					}
					a.V("bit.16b", code, bit, maskHigh)
				}
				a.Look(code, table, registers, code)
				a.Store(code, R0, 64*s)
			}
			for _, p := range []R{R0, R1, R2} {
				a.Op("ADD $16, %v, %v", p, p)
			}
		})
		a.Op("ADD $%d, R0, R0", 512-64)
		a.Op("ADD $%d, R1, R1", 64*low-64)
	})
	a.Ret()
}

// transpose moves four values of four tokens, which are 16 bytes in either
// order.
func (a *asm) transpose() {
	a.Func("transposeNEON", "(dst, codes *byte, vecs int, flip uint32)", "reorders a chunk of 16·vecs values.", 0)
	a.args("dst", "codes", "vecs")
	a.Arg("flip", R3)
	a.Op("VDUP R3, V2.S4")
	var order [16]byte
	for i := range order {
		order[i] = byte(i%4*4 + i/4)
	}
	a.Const(1, "order", order, R19)
	a.Op("LSL $6, R2, R4") // stride of groups of tokens
	a.Op("LSL $2, R2, R9")
	a.Loop(R9, 1, func() {
		a.Op("MOVD R0, R5")
		for t := range 16 {
			a.Load(0, R1, 16*t)
			a.Look(0, 0, 1, 1)
			a.V("eor.16b", 0, 0, 2)
			a.Store(0, R5, 0)
			if t < 15 {
				a.Op("ADD R4, R5, R5")
			}
		}
		a.Op("ADD $256, R1, R1")
		a.Op("ADD $16, R0, R0")
	})
	a.Ret()
}

// decoder runs body for four lanes of four codes in V0; body leaves their
// floats in V1 to V4.
func (a *asm) decoder(name string, vecs int, setUp, body func()) {
	a.Func(fmt.Sprintf("decode%s%dNEON", name, vecs), "(dst, codes *byte, groups int, table *float32, flip uint32)", "makes floats of codes.", 0)
	a.args("dst", "codes")
	a.Arg("groups", R9)
	setUp()
	a.Loop(R9, 1, func() {
		a.Op("MOVD $%d, R10", 4*vecs)
		a.Loop(R10, 1, func() {
			a.Load(0, R1, 0)
			body()
			for i := range V(4) {
				a.Store(1+i, R0, 64*vecs*int(i))
			}
			a.Op("ADD $16, R1, R1")
			a.Op("ADD $16, R0, R0")
		})
		a.Op("ADD $%d, R0, R0", 3*64*vecs)
	})
	a.Ret()
}

func (a *asm) decodeInt(vecs int) {
	a.decoder("Int", vecs, func() {
		a.Arg("flip", R3)
		a.Op("VDUP R3, V16.S4")
	}, func() {
		a.V("eor.16b", 0, 0, 16)
		for i := range V(4) {
			if i < 3 {
				a.Shift("shl.4s", 1+i, 0, 24-8*int(i))
				a.Shift("sshr.4s", 1+i, 1+i, 24)
			} else {
				a.Shift("sshr.4s", 4, 0, 24)
			}
			a.N("scvtf.4s", 1+i, 1+i)
		}
	})
}

// decodeTable looks up the four bytes of a level at once.
func (a *asm) decodeTable(vecs int) {
	a.decoder("Table", vecs, func() {
		a.Arg("table", R3)
		for i := range V(4) {
			a.Load(20+i, R3, 16*int(i))
		}
		a.Fill(16, 15, R19)
		a.Fill(17, 0x04040404, R19)
		a.bits(18, "bytes", 0x03020100)
	}, func() {
		for i := range V(4) {
			code := V(5)
			if i > 0 {
				a.Shift("ushr.4s", code, 0, 8*int(i))
				a.V("and.16b", code, code, 16)
			} else {
				a.V("and.16b", code, 0, 16)
			}
			a.Move(6, 18)
			a.V("mla.4s", 6, code, 17)
			a.Look(1+i, 20, 4, 6)
		}
	})
}
