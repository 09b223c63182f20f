package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// trellisRows is the largest number of rows for which trellis codes are looked
// up and multiplied in one pass.
const trellisRows = panel

// Offsets of cuts; a test compares them.
const (
	cutsShift  = 256
	cutsOrder  = 320
	cutsOrder1 = 384
)

// trellis512 makes the kernels that read the strings of trellis codes, into
// tiles of bytes or into sums over several pages. The number of bits and the
// lengths of strings are arguments.
func trellis512(a *asm) {
	y := trellis{&fused{asm: a}}
	y.tileTokens()
	y.tileValues()
	for n := 1; n <= trellisRows; n++ {
		y := trellis{&fused{asm: a, n: n, per: 1, vecs: 2}}
		y.tokens()
		y.values()
	}
}

// trellis is one kernel. Z28 to Z31 are the table, Z27 the window positions,
// Z25 and Z26 the byte orders from which windows are cut. Z24 is free.
type trellis struct{ *fused }

// constants loads the constants from the address in AX.
func (y trellis) constants() {
	for i := range 4 {
		y.VMOVDQU64(at(reg.RAX, 64*i), zs[28+i])
	}
	y.VMOVDQU64(at(reg.RAX, cutsShift), reg.Z27)
	y.VMOVDQU64(at(reg.RAX, cutsOrder), reg.Z26)
	y.VMOVDQU64(at(reg.RAX, cutsOrder1), reg.Z25)
}

// look replaces ordered bytes by levels.
func (y trellis) look(x reg.VecPhysical) {
	y.VPMULTISHIFTQB(x, reg.Z27, x)
	y.VPMOVB2M(x, reg.K1)
	y.VMOVDQA64(x, reg.Z24)
	y.VPERMI2B(reg.Z29, reg.Z28, x)
	y.VPERMI2B(reg.Z31, reg.Z30, reg.Z24)
	y.VMOVDQU8(reg.Z24, reg.K1, x)
}

// token looks up eight values of the eight tokens at from. After the last
// values, the string continues at its beginning, which is first.
func (y trellis) token(from operand.Mem, x reg.VecPhysical, first ...operand.Mem) {
	y.VMOVDQU64(from, x)
	if len(first) > 0 {
		y.VPERMT2B(first[0], reg.Z25, x)
	} else {
		y.VPERMB(x, reg.Z26, x)
	}
	y.look(x)
}

// quad looks up 32 values of four tokens. next are the bytes that follow. The
// first 16 values are lanes of low, the others of high, one byte per token. It
// uses four registers, starting with z.
func (y trellis) quad(from, next operand.Mem, z int) (low, high reg.VecPhysical) {
	x, x2, this, that := zs[z], zs[z+1], zs[z+2], zs[z+3]
	y.VMOVDQU64(from, this)
	y.VMOVDQU64(next, that)
	y.VMOVDQA64(reg.Z26, x)
	y.VMOVDQA64(reg.Z25, x2)
	y.VPERMI2B(that, this, x)
	y.VPERMI2B(that, this, x2)
	y.look(x)
	y.look(x2)
	y.VPUNPCKLWD(x2, x, this)
	y.VPUNPCKHWD(x2, x, x2)
	return this, x2
}

// halves moves the even lanes of a and b to low and the odd ones to high.
func (y trellis) halves(a, b, low, high reg.VecPhysical) {
	y.VSHUFPS(imm(0x88), b, a, low)
	y.VSHUFPS(imm(0xdd), b, a, high)
}

// lanes returns the order of qwords after halves.
func (y trellis) lanes() operand.Mem {
	var parts []operand.Constant
	for i := range 8 {
		parts = append(parts, operand.U64(uint64(i%4*2+i/4)))
	}
	return y.constant("lanes", parts...)
}

func (y trellis) tileTokens() {
	y.fn("trellisTokensAVX512", "(dst, strings, cuts *byte, bits, units, ahead int)",
		"makes the tile of a page of K from strings of units of eight values.")
	y.ld("dst", reg.RDI)
	y.ld("strings", reg.RSI)
	y.ld("cuts", reg.RAX)
	y.constants()
	y.VMOVDQU64(y.lanes(), reg.Z23)
	y.ld("bits", reg.R8)
	y.SHLQ(imm(3), reg.R8) // bytes per unit
	y.ld("units", reg.R9)
	y.MOVQ(reg.R9, reg.R14)
	y.IMULQ(reg.R8, reg.R14) // bytes of eight tokens
	y.ld("ahead", reg.R12)
	y.MOVQ(operand.U32(4), reg.R10)
	lanes, unit := y.label("lanes"), y.label("unit")
	y.Label(lanes)
	y.MOVQ(reg.RDI, reg.RDX)
	y.LEAQ(at(reg.R9, -1), reg.RCX)
	store := func() {
		y.halves(reg.Z0, reg.Z1, reg.Z2, reg.Z3)
		for i, z := range []reg.VecPhysical{reg.Z2, reg.Z3} {
			y.VPERMQ(z, reg.Z23, z)
			y.VMOVDQU64(z, at(reg.RDX, 256*i))
		}
	}
	y.Label(unit)
	y.token(at(reg.RSI, 0), reg.Z0)
	y.token(ix(reg.RSI, reg.R14, 1, 0), reg.Z1)
	store()
	y.LEAQ(ix(reg.RSI, reg.R12, 1, 0), reg.RAX)
	y.PREFETCHT0(at(reg.RAX, 0))
	y.PREFETCHT0(ix(reg.RAX, reg.R14, 1, 0))
	y.ADDQ(reg.R8, reg.RSI)
	y.ADDQ(imm(512), reg.RDX)
	y.DECQ(reg.RCX)
	y.JNZ(operand.LabelRef(unit))
	y.MOVQ(reg.RSI, reg.RAX)
	y.ADDQ(reg.R8, reg.RAX)
	y.SUBQ(reg.R14, reg.RAX)
	y.token(at(reg.RSI, 0), reg.Z0, at(reg.RAX, 0))
	y.token(ix(reg.RSI, reg.R14, 1, 0), reg.Z1, ix(reg.RAX, reg.R14, 1, 0))
	store()
	y.ADDQ(reg.R8, reg.RSI)
	y.ADDQ(reg.R14, reg.RSI)
	y.ADDQ(imm(64), reg.RDI)
	y.DECQ(reg.R10)
	y.JNZ(operand.LabelRef(lanes))
	y.end()
}

func (y trellis) tileValues() {
	y.fn("trellisValuesAVX512", "(dst, strings, cuts *byte, bits, chunks, group int, used uint64, ahead int)",
		"makes the tile of a page of V from strings of chunks of 32 values, of the groups of four tokens in used, group bytes each.")
	y.ld("dst", reg.RDI)
	y.ld("strings", reg.RSI)
	y.ld("cuts", reg.RAX)
	y.constants()
	y.ld("bits", reg.R8)
	y.SHLQ(imm(4), reg.R8) // bytes per chunk
	y.ld("chunks", reg.R9)
	y.MOVQ(reg.R9, reg.R14)
	y.IMULQ(reg.R8, reg.R14) // bytes of four tokens
	y.ld("used", reg.RCX)
	y.ld("ahead", reg.R12)
	y.MOVQ(operand.U32(16), reg.RBX)
	group, chunk, skip, last := y.label("group"), y.label("chunk"), y.label("skip"), y.label("last")
	y.Label(group)
	y.TESTQ(operand.U32(15), reg.RCX)
	y.JZ(operand.LabelRef(skip))
	y.MOVQ(reg.R9, reg.R10)
	y.MOVQ(reg.RDI, reg.RDX)
	y.MOVQ(reg.RSI, reg.R11)
	// Two chunks are contiguous.
	y.MOVQ(operand.U32(128), reg.R13)
	y.MOVQ(operand.U32(64*64-128), reg.R15)
	y.Label(chunk)
	y.LEAQ(ix(reg.RSI, reg.R8, 1, 0), reg.RAX)
	y.CMPQ(reg.R10, imm(1))
	y.CMOVQEQ(reg.R11, reg.RAX)
	low, high := y.quad(at(reg.RSI, 0), at(reg.RAX, 0), 0)
	y.PREFETCHT0(ix(reg.RSI, reg.R12, 1, 0))
	y.VMOVDQU64(low, at(reg.RDX, 0))
	y.VMOVDQU64(high, at(reg.RDX, 64))
	y.ADDQ(reg.R13, reg.RDX)
	y.XCHGQ(reg.R13, reg.R15)
	y.ADDQ(reg.R8, reg.RSI)
	y.DECQ(reg.R10)
	y.JNZ(operand.LabelRef(chunk))
	y.JMP(operand.LabelRef(last))
	y.Label(skip)
	y.ADDQ(reg.R14, reg.RSI)
	y.Label(last)
	y.LEAQ(operand.NewParamAddr("group", 40), reg.RAX)
	y.ADDQ(at(reg.RAX, 0), reg.RDI)
	y.SHRQ(imm(4), reg.RCX)
	y.DECQ(reg.RBX)
	y.JNZ(operand.LabelRef(group))
	y.end()
}

// octets returns how many groups of eight tokens a kernel over K processes
// together.
func (y trellis) octets() int {
	if y.n > 4 {
		return 2
	}
	return 4
}

func (y trellis) sum(i, t int) reg.VecPhysical { return zs[i*y.octets()+t] }

// tokens scores pages of K. RSI and RAX are the first and the second eight
// tokens, R14 apart. R8 is the size of a unit, R9 the address of the query
// scales.
func (y trellis) tokens() {
	octets := y.octets()
	parts := 8 / octets
	y.fn(fmt.Sprintf("tokens%dtrellisAVX512", y.n),
		"(dst *float32, visits *byte, n, low, bits, scales int, cuts *byte, q *int8, qscale *float32, init *int32, blocks, units int)",
		"adds the scores of %d queries with trellis codes of n pages; units are those of eight values of a block.", y.n)
	y.ld("visits", reg.R13)
	y.ld("n", reg.R15)
	y.ld("cuts", reg.RAX)
	y.constants()
	page, part, unit, done := y.label("page"), y.label("part"), y.label("unit"), y.label("done")
	y.Label(page)
	y.page()
	y.MOVQ(at(reg.R13, visitAt), reg.RAX)
	y.ld("dst", reg.RDI)
	y.LEAQ(ix(reg.RDI, reg.RAX, 4, 0), reg.RDI)
	y.ld("q", reg.RDX)
	y.ld("bits", reg.R8)
	y.SHLQ(imm(3), reg.R8)
	y.ld("units", reg.R14)
	y.IMULQ(reg.R8, reg.R14)
	y.XORQ(reg.R9, reg.R9)
	y.ld("blocks", reg.R11)
	y.IMUL3Q(imm(parts), reg.R11, reg.R11)
	y.Label(part)
	for i := range y.n {
		for t := range octets {
			y.VPXORD(y.sum(i, t), y.sum(i, t), y.sum(i, t))
		}
	}
	y.LEAQ(ix(reg.RSI, reg.R14, 1, 0), reg.RAX)
	y.MOVQ(reg.R8, reg.RBX)
	y.SHLQ(imm(bits.TrailingZeros(uint(octets))), reg.RBX) // size of a unit of all octets
	y.ld("units", reg.RCX)
	y.DECQ(reg.RCX)
	y.Label(unit)
	y.unit(false)
	y.ADDQ(reg.R8, reg.RSI)
	y.ADDQ(reg.R8, reg.RAX)
	y.ADDQ(imm(8), reg.RDX)
	same := y.label("same")
	y.TESTQ(operand.U32(3), reg.RCX) // four units are a chunk of the queries
	y.JNZ(operand.LabelRef(same))
	y.ADDQ(imm(32*(panel-1)), reg.RDX)
	y.Label(same)
	y.DECQ(reg.RCX)
	y.JNZ(operand.LabelRef(unit))
	y.prefetch(reg.RBX)
	y.MOVQ(reg.RSI, reg.RBX)
	y.ADDQ(reg.R8, reg.RBX)
	y.SUBQ(reg.R14, reg.RBX)
	y.LEAQ(ix(reg.RBX, reg.R14, 1, 0), reg.RCX)
	y.unit(true)
	y.ADDQ(imm(8+32*(panel-1)), reg.RDX)
	y.PREFETCHT0(at(reg.R12, 0)) // part of the scales
	y.ADDQ(imm(16*octets), reg.R12)
	y.scale()
	y.nextPart(part, done)
	y.Label(done)
	y.ADDQ(imm(visitSize), reg.R13)
	y.DECQ(reg.R15)
	y.JNZ(operand.LabelRef(page))
	y.end()
}

// nextPart advances to the next tokens of a block, or to the next block.
func (y trellis) nextPart(part, done string) {
	y.ADDQ(imm(32*y.octets()), reg.RDI)
	y.ADDQ(imm(16*y.octets()), reg.R10)
	y.ADDQ(reg.R8, reg.RSI)
	for range y.octets()/2 - 1 {
		y.LEAQ(ix(reg.RSI, reg.R14, 2, 0), reg.RSI)
	}
	y.ADDQ(reg.R14, reg.RSI)
	y.DECQ(reg.R11)
	y.JZ(operand.LabelRef(done))
	// Restart queries and their scales unless the block is done.
	y.ld("units", reg.RCX)
	y.IMUL3Q(imm(8*panel), reg.RCX, reg.RCX)
	y.SUBQ(reg.RCX, reg.RDX)
	y.TESTQ(operand.U32(uint32(8/y.octets()-1)), reg.R11)
	y.JNZ(operand.LabelRef(part))
	y.ADDQ(reg.RCX, reg.RDX)
	y.SUBQ(imm(256), reg.RDI)
	y.ADDQ(imm(4*panel), reg.R9)
	y.JMP(operand.LabelRef(part))
}

// prefetch prefetches the next n bytes, at most two lines.
func (y trellis) prefetch(n reg.Register) {
	y.PREFETCHT0(at(reg.R12, 0))
	y.PREFETCHT0(at(reg.R12, 64))
	y.ADDQ(n, reg.R12)
}

// unit adds eight values of all tokens. For the last values of a string, RBX
// and RCX are the beginnings of the first two groups of eight tokens. Otherwise
// RBX is the number of bytes to prefetch.
func (y trellis) unit(last bool) {
	octets := y.octets()
	x := func(t int) reg.VecPhysical { return zs[y.n*octets+t] }
	q := func(i int) reg.VecPhysical { return zs[(y.n+1)*octets+i] }
	for i := range y.n {
		y.VPBROADCASTQ(at(reg.RDX, 32*i), q(i))
	}
	for t := range octets {
		base, first := []reg.Register{reg.RSI, reg.RAX}[t%2], []reg.Register{reg.RBX, reg.RCX}[t%2]
		from, begin := at(base, 0), at(first, 0)
		if t >= 2 {
			from, begin = ix(base, reg.R14, 2, 0), ix(first, reg.R14, 2, 0)
		}
		if last {
			y.token(from, x(t), begin)
		} else {
			y.token(from, x(t))
		}
	}
	if !last {
		y.prefetch(reg.RBX)
	}
	for t := range octets {
		for i := range y.n {
			y.VPDPBUSD(q(i), x(t), y.sum(i, t))
		}
	}
}

// scale adds the sums of a block, times the scales of tokens and queries, to
// the scores. The sum of a token is spread over two lanes.
func (y trellis) scale() {
	y.ld("qscale", reg.RAX)
	y.ADDQ(reg.R9, reg.RAX)
	y.ld("init", reg.RBX)
	y.ADDQ(reg.R9, reg.RBX)
	y.VMOVDQU64(y.lanes(), reg.Z23)
	for v := range y.octets() / 2 {
		y.VCVTPH2PS(at(reg.R10, 32*v), zs[20+v])
	}
	for i := range y.n {
		for v := range y.octets() / 2 {
			x := reg.Z16
			y.halves(y.sum(i, 2*v), y.sum(i, 2*v+1), x, reg.Z17)
			y.VPADDD(reg.Z17, x, x)
			y.VPERMQ(x, reg.Z23, x)
			y.VPADDD_BCST(at(reg.RBX, 4*i), x, x)
			y.VCVTDQ2PS(x, x)
			y.VMULPS_BCST(at(reg.RAX, 4*i), zs[20+v], reg.Z18)
			y.VMULPS(reg.Z18, x, x)
			y.VADDPS(at(reg.RDI, 256*i+64*v), x, x)
			y.VMOVUPS(x, at(reg.RDI, 256*i+64*v))
		}
	}
}

// values accumulates pages of V. RSI is a chunk of 32 values of four tokens,
// R14 the distance to the next four tokens, RAX the bytes after the chunk.
func (y trellis) values() {
	y.fn(fmt.Sprintf("values%dtrellisAVX512", y.n),
		"(acc *float32, visits *byte, n, low, bits, scales int, cuts *byte, w *float32, rounded *byte, scale *float32, unit float32, ld, blocks, chunks int) (left, blocksLeft int)",
		"adds values in trellis codes of n pages weighted for %d rows, ld bytes apart; chunks are those of 32 values of a block. "+
			"A block with a negative weight ends it; left counts its page and those behind, blocksLeft it and those behind in the page.", y.n)
	y.ld("visits", reg.R13)
	y.ld("n", reg.R15)
	y.ld("rounded", reg.RDX)
	y.ld("scale", reg.R9)
	y.ld("bits", reg.R14)
	y.SHLQ(imm(4), reg.R14)
	y.ld("chunks", reg.RAX)
	y.IMULQ(reg.RAX, reg.R14)
	page, block, chunk, skip, done := y.label("page"), y.label("block"), y.label("chunk"), y.label("skip"), y.label("done")
	y.Label(page)
	y.groups(skip)
	y.page()
	y.ld("acc", reg.RDI)
	y.ld("blocks", reg.R11)
	y.Label(block)
	y.round(done)
	y.ld("cuts", reg.RAX)
	y.constants()
	y.ld("chunks", reg.R8)
	y.Label(chunk)
	y.chunk()
	y.DECQ(reg.R8)
	y.JNZ(operand.LabelRef(chunk))
	y.askScales()
	// From the second four tokens to the next block.
	y.MOVQ(reg.R14, reg.RAX)
	y.SHLQ(imm(4), reg.RAX)
	y.SUBQ(reg.R14, reg.RAX)
	y.ADDQ(reg.RAX, reg.RSI)
	y.ADDQ(imm(128), reg.R10)
	y.DECQ(reg.R11)
	y.JNZ(operand.LabelRef(block))
	y.Label(skip)
	y.ADDQ(imm(visitSize), reg.R13)
	y.DECQ(reg.R15)
	y.JNZ(operand.LabelRef(page))
	y.Label(done)
	y.Store(reg.R15, y.ReturnIndex(0))
	y.Store(reg.R11, y.ReturnIndex(1))
	y.end()
}

// eight adds 32 values of eight tokens.
func (y trellis) eight(sum func(i, v int) reg.VecPhysical) {
	var levels [2][2]reg.VecPhysical
	levels[0][0], levels[0][1] = y.quad(at(reg.RSI, 0), at(reg.RAX, 0), 12)
	levels[1][0], levels[1][1] = y.quad(ix(reg.RSI, reg.R14, 1, 0), ix(reg.RAX, reg.R14, 1, 0), 16)
	y.PREFETCHT0(at(reg.R12, 0))
	y.PREFETCHT0(at(reg.R12, 64))
	for four, x := range levels {
		for i := range y.n {
			w := zs[20+i%4]
			y.VPBROADCASTD(at(reg.RDX, 64*i+4*four), w)
			y.VPDPBUSD(x[0], w, sum(i, 0))
			y.VPDPBUSD(x[1], w, sum(i, 1))
		}
	}
}

// chunk adds a chunk and advances to the next; R8 counts the remaining ones.
func (y trellis) chunk() {
	sum := func(i, v int) reg.VecPhysical { return zs[2*i+v] }
	for i := range y.n {
		y.VPXORD(sum(i, 0), sum(i, 0), sum(i, 0))
		y.VPXORD(sum(i, 1), sum(i, 1), sum(i, 1))
	}
	loop, skip, more := y.label("loop"), y.label("skip"), y.label("more")
	y.ld("bits", reg.RAX)
	y.SHLQ(imm(4), reg.RAX)
	y.ADDQ(reg.RSI, reg.RAX)
	y.CMPQ(reg.R8, imm(1))
	y.JNE(operand.LabelRef(more))
	y.SUBQ(reg.R14, reg.RAX)
	y.Label(more)
	y.MOVQ(operand.U32(8), reg.RBX)
	y.Label(loop)
	y.TESTQ(operand.U32(3), reg.RCX)
	y.JZ(operand.LabelRef(skip))
	y.eight(sum)
	y.Label(skip)
	y.ld("bits", reg.R9)
	y.SHLQ(imm(5), reg.R9) // size of eight tokens
	y.ADDQ(reg.R9, reg.R12)
	y.LEAQ(ix(reg.RSI, reg.R14, 2, 0), reg.RSI)
	y.LEAQ(ix(reg.RAX, reg.R14, 2, 0), reg.RAX)
	y.RORW(imm(2), reg.CX)
	y.ADDQ(imm(8), reg.RDX)
	y.DECQ(reg.RBX)
	y.JNZ(operand.LabelRef(loop))
	y.SUBQ(imm(64), reg.RDX)
	y.ld("scale", reg.R9)
	y.ld("ld", reg.RAX)
	y.MOVQ(reg.RDI, reg.RBX)
	for i := range y.n {
		y.VBROADCASTSS(at(reg.R9, 4*i), reg.Z22)
		for v := range 2 {
			x := sum(i, v)
			y.VCVTDQ2PS(x, x)
			y.VMULPS(reg.Z22, x, x)
			y.VADDPS(at(reg.RBX, 64*v), x, x)
			y.VMOVUPS(x, at(reg.RBX, 64*v))
		}
		y.ADDQ(reg.RAX, reg.RBX)
	}
	y.ADDQ(imm(128), reg.RDI)
	y.MOVQ(reg.R14, reg.RAX)
	y.SHLQ(imm(4), reg.RAX)
	y.SUBQ(reg.RAX, reg.RSI)
	y.ld("bits", reg.RAX)
	y.SHLQ(imm(4), reg.RAX)
	y.ADDQ(reg.RAX, reg.RSI)
}
