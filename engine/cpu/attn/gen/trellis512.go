package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// trellis512 makes tiles of bytes from the strings of trellis codes.
func trellis512(a *asm) {
	for _, values := range []int{64, 32} {
		(&trellis{a, values}).tokens()
		(&trellis{a, values}).weighted()
	}
}

// trellis is a kernel over chunks of so many values. Z28 to Z31 are the table,
// Z27 the bytes that windows are cut from, Z26 where they begin, Z24 and Z25
// are free. K1 holds the bytes of a chunk, K2 the one behind them.
type trellis struct {
	*asm
	values int
}

const trellisArgs = "(dst, strings, table, order, shift *byte, bytes, n, chunks int"

// open loads what all chunks share: R8 bytes of a string, R9 of them a chunk.
func (y *trellis) open() {
	y.ld("dst", reg.RDI)
	y.ld("strings", reg.RSI)
	y.ld("table", reg.RAX)
	for i := range 4 {
		y.VMOVDQU64(at(reg.RAX, 64*i), zs[28+i])
	}
	y.ld("order", reg.RAX)
	y.VMOVDQU64(at(reg.RAX, 0), reg.Z27)
	y.ld("shift", reg.RAX)
	y.VMOVDQU64(at(reg.RAX, 0), reg.Z26)
	y.ld("bytes", reg.R8)
	y.ld("n", reg.R9)
	y.ld("chunks", reg.R10)
	y.ld("ahead", reg.R14)
	y.MOVQ(operand.U32(1), reg.RAX)
	y.SHLXQ(reg.R9, reg.RAX, reg.RAX)
	y.KMOVQ(reg.RAX, reg.K2)
	y.DECQ(reg.RAX)
	y.KMOVQ(reg.RAX, reg.K1)
}

// next sets R11 to the offset of the byte behind a chunk from its beginning:
// behind the last the string begins again.
func (y *trellis) next() {
	y.MOVQ(reg.R9, reg.R11)
	y.MOVQ(reg.R9, reg.RAX)
	y.SUBQ(reg.R8, reg.RAX)
	y.CMPQ(reg.R10, imm(1))
	y.CMOVQEQ(reg.RAX, reg.R11)
}

// decode turns the chunk at RDX into bytes and goes to the next token's.
func (y *trellis) decode(to reg.VecPhysical) {
	y.VMOVDQU8_Z(at(reg.RDX, 0), reg.K1, to)
	y.VPBROADCASTB(ix(reg.RDX, reg.R11, 1, 0), reg.K2, to)
	y.PREFETCHT0(ix(reg.RDX, reg.R14, 1, 0))
	y.ADDQ(reg.R8, reg.RDX)
	y.VPERMB(to, reg.Z27, to)
	y.VPMULTISHIFTQB(to, reg.Z26, to)
	y.VPMOVB2M(to, reg.K3)
	y.VMOVDQA64(to, reg.Z25)
	y.VPERMI2B(reg.Z29, reg.Z28, to)
	y.VPERMI2B(reg.Z31, reg.Z30, reg.Z25)
	y.VMOVDQU8(reg.Z25, reg.K3, to)
}

func (y *trellis) tokens() {
	y.fn(fmt.Sprintf("trellisTokens%dAVX512", y.values), trellisArgs+", ahead int)",
		"makes the tile of a page of K: chunks of %d values, n bytes each, of strings of so many bytes.", y.values)
	y.open()
	// A chunk is taken from the tokens 16 at a time: in the order of the tile
	// these are its lanes.
	chunk, lanes := y.label("chunk"), y.label("lanes")
	y.Label(chunk)
	y.next()
	y.MOVQ(operand.U32(4), reg.RCX)
	y.MOVQ(reg.RSI, reg.RDX)
	y.MOVQ(reg.RDI, reg.RBX)
	y.Label(lanes)
	for i := range 16 {
		y.decode(zs[i])
	}
	y.transpose()
	y.ADDQ(imm(64), reg.RBX)
	y.DECQ(reg.RCX)
	y.JNZ(operand.LabelRef(lanes))
	y.ADDQ(imm(64*y.values), reg.RDI)
	y.ADDQ(reg.R9, reg.RSI)
	y.DECQ(reg.R10)
	y.JNZ(operand.LabelRef(chunk))
	y.end()
}

// transpose stores 32-bit lane g of Z0 to Z15 as a line, for every g that the
// chunk has.
func (y *trellis) transpose() {
	for g := 0; g < 16; g += 4 {
		r := zs[g : g+4]
		t := zs[16:20]
		y.VUNPCKLPS(r[1], r[0], t[0])
		y.VUNPCKHPS(r[1], r[0], t[1])
		y.VUNPCKLPS(r[3], r[2], t[2])
		y.VUNPCKHPS(r[3], r[2], t[3])
		y.VUNPCKLPD(t[2], t[0], r[0])
		y.VUNPCKHPD(t[2], t[0], r[1])
		y.VUNPCKLPD(t[3], t[1], r[2])
		y.VUNPCKHPD(t[3], t[1], r[3])
	}
	for j := range 4 {
		a, b, c, d := zs[j], zs[4+j], zs[8+j], zs[12+j]
		t := zs[16:22]
		y.VSHUFI32X4(imm(0x88), b, a, t[0])
		y.VSHUFI32X4(imm(0x88), d, c, t[1])
		y.VSHUFI32X4(imm(0xdd), b, a, t[2])
		y.VSHUFI32X4(imm(0xdd), d, c, t[3])
		y.store(0x88, t[1], t[0], j)
		y.store(0x88, t[3], t[2], 4+j)
		if y.values == 64 {
			y.store(0xdd, t[1], t[0], 8+j)
			y.store(0xdd, t[3], t[2], 12+j)
		}
	}
}

// store joins two halves to line g of the tile.
func (y *trellis) store(lanes int, high, low reg.VecPhysical, g int) {
	y.VSHUFI32X4(imm(lanes), high, low, reg.Z24)
	y.VMOVDQU64(reg.Z24, at(reg.RBX, 256*g))
}

func (y *trellis) weighted() {
	steps := y.values / 16
	y.fn(fmt.Sprintf("trellisValues%dAVX512", y.values), trellisArgs+", used uint64, ahead int)",
		"makes the tile of a page of V likewise, of the groups of four tokens that are used.")
	y.open()
	chunk, group, skip := y.label("chunk"), y.label("group"), y.label("skip")
	y.Label(chunk)
	y.next()
	y.ld("used", reg.RCX)
	y.MOVQ(operand.U32(16), reg.RBX)
	y.MOVQ(reg.RSI, reg.R12)
	y.Label(group)
	y.TESTQ(operand.U32(15), reg.RCX)
	y.JZ(operand.LabelRef(skip))
	y.MOVQ(reg.R12, reg.RDX)
	for i := range 4 {
		y.decode(zs[i])
	}
	y.VPUNPCKLBW(zs[1], zs[0], zs[4])
	y.VPUNPCKHBW(zs[1], zs[0], zs[5])
	y.VPUNPCKLBW(zs[3], zs[2], zs[6])
	y.VPUNPCKHBW(zs[3], zs[2], zs[7])
	for s := range steps {
		if s%2 == 0 {
			y.VPUNPCKLWD(zs[6+s/2], zs[4+s/2], zs[8])
		} else {
			y.VPUNPCKHWD(zs[6+s/2], zs[4+s/2], zs[8])
		}
		y.VMOVDQU64(zs[8], at(reg.RDI, 64*s))
	}
	y.Label(skip)
	y.ADDQ(imm(64*steps), reg.RDI)
	y.LEAQ(ix(reg.R12, reg.R8, 4, 0), reg.R12)
	y.SHRQ(imm(4), reg.RCX)
	y.DECQ(reg.RBX)
	y.JNZ(operand.LabelRef(group))
	y.ADDQ(reg.R9, reg.RSI)
	y.DECQ(reg.R10)
	y.JNZ(operand.LabelRef(chunk))
	y.end()
}
