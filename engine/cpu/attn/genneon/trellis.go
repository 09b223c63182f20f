package main

import (
	"fmt"
	"math/bits"

	. "godwit/engine/cpu/neon"
)

// trellis makes the kernels that turn the strings of trellis codes into tiles
// of bytes.
func trellis(a *asm) {
	for _, bits := range []int{2, 3, 4} {
		(&trellisCode{a, bits, 8}).tokens()
		(&trellisCode{a, bits, 4}).weighted()
	}
}

// trellisCode reads codes of a given number of bits, 16 values at a time. A
// window is cut from two bytes. A table of 256 is four tables of 64, and a
// look-up with an index beyond its table leaves the value unchanged.
//
// R1 is a string, R2 the table, R3 the bytes of interleaved strings, R6 the
// read position. V16 to V31 are the table, V8 to V12 constants, V4 to V7 the
// values of four tokens. R20, R21 and V0 to V3 are free.
type trellisCode struct {
	*asm
	bits   int
	beside int // number of tokens with interleaved strings
}

// unit returns the distance between eight values of a string and the next
// eight.
func (y *trellisCode) unit() int { return y.beside * y.bits }

func (y *trellisCode) open() {
	y.args("dst", "strings", "table", "bytes")
	y.Op("LSL $%d, R3, R3", bits.TrailingZeros(uint(y.beside)))
	for i := 0; i < 16; i += 2 {
		y.LoadPair(V(16+i), V(17+i), R2, 16*i)
	}
	var low, high, right, left [16]byte
	for i := range 16 {
		first := y.bits * i
		for k, b := range []*byte{&low[i], &high[i]} {
			if *b = byte(first/8 + k); int(*b) >= y.bits { // belongs to the second eight values
				*b += byte(8 - y.bits)
			}
		}
		right[i], left[i] = byte(-(first % 8)), byte(8-first%8)
	}
	for i, c := range [][16]byte{low, high, right, left} {
		y.Const(V(8+i), fmt.Sprintf("%s%d", []string{"low", "high", "right", "left"}[i], y.bits), c, R19)
	}
	y.Fill(12, 64*0x01010101, R19)
}

// four reads 16 values of four strings, from R1 on, at R6.
func (y *trellisCode) four() {
	y.Op("MOVD R1, R5")
	for t := range V(4) {
		y.Op("ADD R6, R5, R20")
		for half := range 2 {
			y.Op("VLD1 (R20), V0.D[%d]", half)
			y.Op("ADD $%d, R20, R20", y.unit())
		}
		// These are the bytes that follow. At the end of a string they are its
		// beginning.
		y.Op("ADD R3, R5, R21")
		y.Op("CMP R21, R20")
		y.Op("CSEL EQ, R5, R20, R20")
		y.Op("VLD1 (R20), V0.B[%d]", 8+y.bits)
		y.Look(1, 0, 1, 8)
		y.Look(2, 0, 1, 9)
		y.V("ushl.16b", 1, 1, 10)
		y.V("ushl.16b", 2, 2, 11)
		y.V("orr.16b", 1, 1, 2)
		y.Look(4+t, 16, 4, 1)
		for k := range V(3) {
			y.V("sub.16b", 1, 1, 12)
			y.LookOn(4+t, 20+4*k, 4, 1)
		}
		y.Op("ADD $%d, R5, R5", y.bits)
	}
	y.Op("ADD $%d, R6, R6", 2*y.unit())
}

// tokens stores four values of four tokens as 16 bytes; lines of four values
// are 256 bytes apart.
func (y *trellisCode) tokens() {
	y.Func(fmt.Sprintf("trellisTokens%dNEON", y.bits), "(dst, strings, table *byte, bytes, chunks int)",
		"makes the tile of a page of K from strings of chunks of 16 values; reads past the last one.", 0)
	y.open()
	y.Arg("chunks", R4)
	y.Op("MOVD $16, R7")
	y.Loop(R7, 1, func() {
		y.Op("MOVD ZR, R6")
		y.Op("MOVD R0, R8")
		y.Op("MOVD R4, R9")
		y.Loop(R9, 1, func() {
			y.four()
			y.V("trn1.4s", 0, 4, 5)
			y.V("trn2.4s", 1, 4, 5)
			y.V("trn1.4s", 2, 6, 7)
			y.V("trn2.4s", 3, 6, 7)
			y.V("trn1.2d", 4, 0, 2)
			y.V("trn1.2d", 5, 1, 3)
			y.V("trn2.2d", 6, 0, 2)
			y.V("trn2.2d", 7, 1, 3)
			for i := range 4 {
				y.Store(V(4+i), R8, 256*i)
			}
			y.Op("ADD $1024, R8, R8")
		})
		y.Op("ADD $16, R0, R0")
		// R1 moves to the other four of eight tokens, or to the next eight.
		y.Op("ADD $%d, R1, R20", 4*y.bits)
		y.Op("ADD R3, R1, R21")
		y.Op("SUB $%d, R21, R21", 4*y.bits)
		y.Op("TST $1, R7")
		y.Op("CSEL EQ, R20, R21, R1")
	})
	y.Ret()
}

// weighted stores 16 values of four tokens in their interleaved order.
func (y *trellisCode) weighted() {
	y.Func(fmt.Sprintf("trellisValues%dNEON", y.bits), "(dst, strings, table *byte, bytes, blocks, chunks int, used uint64)",
		"makes the tile of a page of V from the groups of four tokens in used, in blocks of contiguous chunks.", 0)
	y.open()
	y.Arg("blocks", R4)
	y.Arg("chunks", R11)
	y.Arg("used", R12)
	y.Op("MOVD $16, R7")
	y.Loop(R7, 1, func() {
		skip := y.NewLabel("skip")
		y.Op("TST $15, R12")
		y.Op("BEQ %s", skip)
		y.Op("MOVD ZR, R6")
		y.Op("MOVD R0, R8")
		y.Op("MOVD R4, R9")
		y.Loop(R9, 1, func() {
			y.Op("MOVD R8, R13")
			y.Op("MOVD R11, R14")
			y.Loop(R14, 1, func() {
				y.four()
				y.Op("VST4 [V4.B16, V5.B16, V6.B16, V7.B16], (R13)")
				y.Op("ADD $64, R13, R13")
			})
			y.Op("ADD R11<<10, R8, R8")
		})
		y.Label(skip)
		y.Op("ADD R11<<6, R0, R0")
		y.Op("ADD R3, R1, R1")
		y.Op("LSR $4, R12, R12")
	})
	y.Ret()
}
