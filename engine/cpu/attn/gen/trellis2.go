package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// trellis2 makes the kernels that turn the strings of trellis codes into tiles
// of bytes.
func trellis2(a *asm) {
	for _, bits := range []int{2, 3, 4} {
		(&trellis2Code{a, bits, 8}).tokens()
		(&trellis2Code{a, bits, 4}).weighted()
	}
}

// trellis2Code reads codes of a given number of bits, 32 values at a time. 16
// windows are each cut from two bytes and multiplied so that they end in the
// upper byte. A table of 256 is 16 tables of 16. If the high half of an index
// selects the current table, a saturating sum leaves the index's highest bit
// clear. Otherwise the bit is set and the shuffle gives 0.
//
// RSI is a string, RDX its chunk, RAX the table, R8 the bytes of a string, RCX
// the chunks left. Y12 to Y15 are constants, Y0 to Y3 and R11 are free.
type trellis2Code struct {
	*asm
	bits   int
	beside int // number of tokens with interleaved strings
}

// unit returns the distance between eight values of a string and the next
// eight.
func (y *trellis2Code) unit() int { return y.beside * y.bits }

func (y *trellis2Code) open() {
	y.ld("dst", reg.RDI)
	y.ld("strings", reg.RSI)
	y.ld("table", reg.RAX)
	y.ld("bytes", reg.R8)
	var cuts [2][]operand.Constant
	var lift []operand.Constant
	for i := range 16 {
		bit := y.bits * (i % 8)
		lift = append(lift, operand.U16(uint16(1<<(8-bit%8))))
		for half := range cuts {
			first := bit/8 + 8*half
			next := first + 1
			if half == 0 && next == y.bits {
				next = 8
			}
			cuts[half] = append(cuts[half], operand.U16(uint16(first|next<<8)))
		}
	}
	y.VMOVDQU(y.constant(fmt.Sprintf("cut%d", y.bits), cuts[0]...), reg.Y15)
	y.VMOVDQU(y.constant(fmt.Sprintf("cutHigh%d", y.bits), cuts[1]...), reg.Y12)
	y.VMOVDQU(y.constant(fmt.Sprintf("lift%d", y.bits), lift...), reg.Y14)
	y.VPBROADCASTD(y.word("seven", 0x70707070), reg.Y13)
}

// decode turns a chunk into bytes. from is the string, and chunk the address of
// the chunk in it.
func (y *trellis2Code) decode(from, chunk reg.Register, to reg.VecPhysical) {
	// These are the bytes after the chunk. After the last chunk they are the
	// beginning of the string.
	y.LEAQ(at(chunk, 4*y.unit()), reg.R11)
	y.CMPQ(reg.RCX, imm(1))
	y.CMOVQEQ(from, reg.R11)
	y.half(chunk, 0, at(chunk, 2*y.unit()), reg.X0)
	y.half(chunk, 2*y.unit(), at(reg.R11, 0), reg.X1)
	y.VINSERTI128(imm(1), reg.X1, reg.Y0, reg.Y0)
	y.VPSHUFB(reg.Y12, reg.Y0, reg.Y1)
	y.VPSHUFB(reg.Y15, reg.Y0, reg.Y0)
	for _, x := range []reg.VecPhysical{reg.Y0, reg.Y1} {
		y.VPMULLW(reg.Y14, x, x)
		y.VPSRLW(imm(8), x, x)
	}
	y.VPACKUSWB(reg.Y1, reg.Y0, reg.Y0)
	for k := range 16 {
		row := reg.Y2
		if k == 0 {
			row = to
		}
		y.VPXOR(y.repeated(k), reg.Y0, reg.Y3)
		y.VPADDUSB(reg.Y13, reg.Y3, reg.Y3)
		y.VBROADCASTI128(at(reg.RAX, 16*k), row)
		y.VPSHUFB(reg.Y3, row, row)
		if k > 0 {
			y.VPOR(row, to, to)
		}
	}
}

// half loads the bytes of 16 values of a chunk, starting at disp, followed by
// next.
func (y *trellis2Code) half(chunk reg.Register, disp int, next operand.Mem, x reg.VecPhysical) {
	y.VMOVQ(at(chunk, disp), x)
	y.VPINSRQ(imm(1), at(chunk, disp+y.unit()), x, x)
	y.VPINSRB(imm(8+y.bits), next, x, x)
}

// repeated returns 32 bytes with high half k.
func (y *trellis2Code) repeated(k int) operand.Mem {
	var parts []operand.Constant
	for range 8 {
		parts = append(parts, operand.U32(uint32(k)*0x10101010))
	}
	return y.constant(fmt.Sprintf("row%d", k), parts...)
}

func (y *trellis2Code) tokens() {
	y.fn(fmt.Sprintf("trellisTokens%dAVX2", y.bits), "(dst, strings, table *byte, bytes, chunks int)",
		"makes the tile of a page of K from strings of chunks of 32 values; reads past the last one.")
	y.open()
	cell, chunk := y.label("cell"), y.label("chunk")
	y.MOVQ(operand.U32(0), reg.R9) // index of the cell
	y.Label(cell)
	y.MOVQ(reg.RSI, reg.RDX)
	y.ld("chunks", reg.RCX)
	// 16 cells are the lanes of a line.
	y.MOVQ(reg.R9, reg.R10)
	y.SHRQ(imm(4), reg.R10)
	y.SHLQ(imm(6), reg.R10)
	y.MOVQ(reg.R9, reg.R11)
	y.ANDQ(imm(15), reg.R11)
	y.LEAQ(ix(reg.R10, reg.R11, 4, 0), reg.R10)
	y.ADDQ(reg.RDI, reg.R10)
	y.Label(chunk)
	y.decode(reg.RSI, reg.RDX, reg.Y4)
	y.VEXTRACTI128(imm(1), reg.Y4, reg.X5)
	for half, x := range []reg.VecPhysical{reg.X4, reg.X5} {
		for i := range 4 {
			y.VPEXTRD(imm(i), x, at(reg.R10, 256*(4*half+i)))
		}
	}
	y.ADDQ(imm(256*8), reg.R10)
	y.ADDQ(imm(4*y.unit()), reg.RDX)
	y.DECQ(reg.RCX)
	y.JNZ(operand.LabelRef(chunk))
	y.ADDQ(imm(y.bits), reg.RSI)
	y.INCQ(reg.R9)
	beside := y.label("beside")
	y.TESTQ(operand.U32(uint32(y.beside-1)), reg.R9)
	y.JNZ(operand.LabelRef(beside))
	y.LEAQ(ix(reg.RSI, reg.R8, uint8(y.beside), -y.unit()), reg.RSI)
	y.Label(beside)
	y.CMPQ(reg.R9, imm(64))
	y.JNE(operand.LabelRef(cell))
	y.end()
}

// weighted interleaves the bytes of four tokens. This gives runs of four
// values. The runs from 16 on are in the upper half of a register.
func (y *trellis2Code) weighted() {
	y.fn(fmt.Sprintf("trellisValues%dAVX2", y.bits), "(dst, strings, table *byte, bytes, chunks, group int, used uint64)",
		"makes the tile of a page of V from the groups of four tokens in used, group bytes each.")
	y.open()
	loop, skip, chunk := y.label("group"), y.label("skip"), y.label("chunk")
	y.ld("used", reg.R9)
	y.MOVQ(operand.U32(16), reg.RBX)
	y.Label(loop)
	y.TESTQ(operand.U32(15), reg.R9)
	y.JZ(operand.LabelRef(skip))
	y.MOVQ(reg.RDI, reg.R10)
	y.ld("chunks", reg.RCX)
	y.MOVQ(operand.U32(0), reg.RDX) // offset of the chunk in its string
	// Two chunks of 32 values are contiguous.
	y.MOVQ(operand.U32(128), reg.R12)
	y.MOVQ(operand.U32(64*64-128), reg.R13)
	y.Label(chunk)
	y.MOVQ(reg.RSI, reg.R14)
	for t := range 4 {
		y.LEAQ(ix(reg.R14, reg.RDX, 1, 0), reg.R15)
		y.decode(reg.R14, reg.R15, ys[4+t])
		y.ADDQ(imm(y.bits), reg.R14)
	}
	y.VPUNPCKLBW(reg.Y5, reg.Y4, reg.Y8)
	y.VPUNPCKHBW(reg.Y5, reg.Y4, reg.Y9)
	y.VPUNPCKLBW(reg.Y7, reg.Y6, reg.Y10)
	y.VPUNPCKHBW(reg.Y7, reg.Y6, reg.Y11)
	for i := range 4 {
		if i%2 == 0 {
			y.VPUNPCKLWD(ys[10+i/2], ys[8+i/2], reg.Y0)
		} else {
			y.VPUNPCKHWD(ys[10+i/2], ys[8+i/2], reg.Y0)
		}
		y.VMOVDQU(reg.X0, at(reg.R10, 16*i))
		y.VEXTRACTI128(imm(1), reg.Y0, at(reg.R10, 64+16*i))
	}
	y.ADDQ(reg.R12, reg.R10)
	y.XCHGQ(reg.R12, reg.R13)
	y.ADDQ(imm(4*y.unit()), reg.RDX)
	y.DECQ(reg.RCX)
	y.JNZ(operand.LabelRef(chunk))
	y.Label(skip)
	y.ld("group", reg.R10)
	y.ADDQ(reg.R10, reg.RDI)
	y.LEAQ(ix(reg.RSI, reg.R8, 4, 0), reg.RSI)
	y.SHRQ(imm(4), reg.R9)
	y.DECQ(reg.RBX)
	y.JNZ(operand.LabelRef(loop))
	y.end()
}
