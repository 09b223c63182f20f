package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var ys = [16]reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
	reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
}

// codes2 turns codes into bytes and bytes into floats, half a step at a time.
func codes2(a *asm) {
	for _, bits := range []int{1, 2, 3, 4, 5} {
		a.expand2(bits)
	}
	for _, vecs := range []int{4, 2} {
		a.decode2(vecs, true)
		a.decode2(vecs, false)
	}
}

// shift2 shifts src to the right, or to the left if n is negative.
func (a *asm) shift2(n int, src, dst operand.Op) {
	switch {
	case n > 0:
		a.VPSRLD(imm(n), src, dst)
	case n < 0:
		a.VPSLLD(imm(-n), src, dst)
	default:
		a.VMOVDQA(src, dst)
	}
}

// bcast fills a register with a byte.
func (a *asm) bcast(name string, b uint32, dst reg.Register) {
	a.VPBROADCASTD(a.word(name, b*0x01010101), dst)
}

func (a *asm) expand2(bits int) {
	low := bits &^ 1
	if bits == 1 {
		low = 1
	}
	n, per := stepsOf(bits, low), 8/low
	a.fn(fmt.Sprintf("expand%dAVX2", bits), "(dst, low, high, table *byte, steps, ahead int)",
		"looks up codes of %d bits; steps is a multiple of %d. Prefetches at distance ahead.", bits, n)
	a.ld("dst", reg.RDI)
	a.ld("low", reg.RSI)
	if bits > low {
		a.ld("high", reg.RDX)
		a.bcast(fmt.Sprintf("high%d", bits), 1<<low, reg.Y14)
	}
	a.ld("table", reg.RAX)
	a.VBROADCASTI128(at(reg.RAX, 0), reg.Y15)
	if bits == 5 {
		a.VBROADCASTI128(at(reg.RAX, 16), reg.Y12)
	}
	a.bcast(fmt.Sprintf("low%d", low), 1<<low-1, reg.Y13)
	a.ld("steps", reg.RCX)
	a.ld("ahead", reg.R11)
	loop := a.label("loop")
	a.Label(loop)
	for half := range 2 {
		if bits > low {
			a.VMOVDQU(at(reg.RDX, 32*half), reg.Y11)
			if half == 0 {
				a.PREFETCHT0(ix(reg.RDX, reg.R11, 1, 0))
			}
		}
		for s := range n {
			if s%per == 0 {
				a.VMOVDQU(at(reg.RSI, s/per*64+32*half), reg.Y10)
				if half == 0 {
					a.PREFETCHT0(ix(reg.RSI, reg.R11, 1, s/per*64))
				}
			}
			x, h := ys[s%2*2], ys[s%2*2+1]
			if s%per == 0 {
				a.VPAND(reg.Y10, reg.Y13, x)
			} else {
				a.shift2(s%per*low, reg.Y10, x)
				a.VPAND(x, reg.Y13, x)
			}
			if bits > low {
				a.shift2(s-low, reg.Y11, h)
				a.VPAND(h, reg.Y14, h)
			}
			switch bits {
			case 3:
				a.VPOR(h, x, x)
				a.VPSHUFB(x, reg.Y15, x)
			case 5: // bit 4 moves to the position that a blend reads
				a.VPSLLD(imm(3), h, h)
				a.VPSHUFB(x, reg.Y15, reg.Y8)
				a.VPSHUFB(x, reg.Y12, reg.Y9)
				a.VPBLENDVB(h, reg.Y9, reg.Y8, x)
			default:
				a.VPSHUFB(x, reg.Y15, x)
			}
			a.VMOVDQU(x, at(reg.RDI, 64*s+32*half))
		}
	}
	a.ADDQ(imm(n/per*64), reg.RSI)
	if bits > low {
		a.ADDQ(imm(64), reg.RDX)
	}
	a.ADDQ(operand.U32(uint32(n*64)), reg.RDI)
	a.SUBQ(imm(n), reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.end()
}

func (a *asm) decode2(vecs int, exact bool) {
	name, what := "decodeTable", "looks up levels of codes below 16"
	if exact {
		name, what = "decodeInt", "widens bytes, after xoring them with flip,"
	}
	a.fn(fmt.Sprintf("%s%dAVX2", name, vecs), "(dst, codes *byte, groups int, table *float32, flip uint32)",
		"%s of %d steps per group.", what, vecs)
	a.ld("dst", reg.RDI)
	a.ld("codes", reg.RSI)
	a.ld("groups", reg.RCX)
	if exact {
		a.ld("flip", reg.EAX)
		a.VMOVD(reg.EAX, reg.X15)
		a.VPBROADCASTD(reg.X15, reg.Y15)
	} else {
		a.ld("table", reg.RAX)
		a.VMOVUPS(at(reg.RAX, 0), reg.Y15)
		a.VMOVUPS(at(reg.RAX, 32), reg.Y14)
	}
	loop := a.label("loop")
	a.Label(loop)
	for v := range 2 * vecs {
		if exact {
			a.VPXOR(at(reg.RSI, 32*v), reg.Y15, reg.Y0)
		} else {
			a.VMOVDQU(at(reg.RSI, 32*v), reg.Y0)
		}
		for j := range 4 {
			x := ys[1+j]
			if exact {
				a.shift2(8*j-24, reg.Y0, x)
				a.VPSRAD(imm(24), x, x)
				a.VCVTDQ2PS(x, x)
			} else { // bit 3 selects the half of the table
				a.shift2(8*j, reg.Y0, x)
				a.VPSLLD(imm(28), x, reg.Y8)
				a.VPERMPS(reg.Y15, x, reg.Y9)
				a.VPERMPS(reg.Y14, x, reg.Y10)
				a.VBLENDVPS(reg.Y8, reg.Y10, reg.Y9, x)
			}
			a.VMOVUPS(x, at(reg.RDI, 64*j*vecs+32*v))
		}
	}
	a.ADDQ(operand.U32(uint32(64*vecs)), reg.RSI)
	a.ADDQ(operand.U32(uint32(256*vecs)), reg.RDI)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	a.end()
}

// rows2 is the largest number of rows of the AVX2 dot products.
const rows2 = 3

// dot2 makes the integer dot products. Every product of bytes can saturate
// here, so operands stay in a range where it does not.
func dot2(a *asm) {
	for n := 1; n <= rows2; n++ {
		a.tokens2(n, 1)
		a.tokens2(n, 2)
	}
	for n := 1; n <= 2; n++ {
		a.values2(n)
	}
}

// tokens2 makes the bytes signed. One operand is their magnitudes, and the
// other is the query with their signs. The sum of two products stays below
// 2·128·127.
func (a *asm) tokens2(n, per int) {
	name, note := "tokens", ""
	if per == 2 {
		name, note = "tokensTwice", " from every second row"
	}
	a.fn(fmt.Sprintf("%s%dAVX2", name, n),
		"(dst *float32, tile *byte, q *int8, qscale *float32, scales *byte, blocks, chunks, ahead int)",
		"adds the scores of %d queries%s; chunks are those of 32 values of a block.", n, note)
	acc := func(i, half int) reg.VecPhysical { return ys[2*i+half] }
	a.ld("dst", reg.RDI)
	a.ld("tile", reg.RSI)
	a.ld("q", reg.RDX)
	a.ld("qscale", reg.R8)
	a.ld("scales", reg.R10)
	a.ld("blocks", reg.R11)
	a.ld("ahead", reg.R12)
	a.bcast("top", 0x80, reg.Y15)
	a.VPBROADCASTD(a.word("ones", 0x00010001), reg.Y14)
	block, tile, chunk := a.label("block"), a.label("tile"), a.label("chunk")
	a.Label(block)
	a.MOVQ(operand.U32(4), reg.R13)
	a.MOVQ(reg.RSI, reg.R14)
	a.Label(tile)
	a.MOVQ(reg.R14, reg.RSI)
	a.MOVQ(reg.RDX, reg.R15)
	a.ld("chunks", reg.RCX)
	for i := range n {
		for half := range 2 {
			a.VPXOR(acc(i, half), acc(i, half), acc(i, half))
		}
	}
	a.Label(chunk)
	skip := a.label("skip")
	a.TESTQ(reg.R12, reg.R12)
	a.JZ(operand.LabelRef(skip))
	for g := range 8 {
		a.PREFETCHT0(ix(reg.RSI, reg.R12, 1, 256*g))
	}
	a.Label(skip)
	a.chunk2(n, per)
	a.ADDQ(imm(2048), reg.RSI)
	a.ADDQ(imm(32*panel), reg.R15)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(chunk))
	for half := range 2 {
		a.VCVTPH2PS(at(reg.R10, 16*half), ys[6+half])
	}
	for i := range n {
		a.VBROADCASTSS(at(reg.R8, 4*per*i), reg.Y10)
		for half := range 2 {
			x := acc(i, half)
			a.VCVTDQ2PS(x, x)
			a.VMULPS(reg.Y10, ys[6+half], reg.Y11)
			a.VMULPS(reg.Y11, x, x)
			a.VADDPS(at(reg.RDI, 256*i+32*half), x, x)
			a.VMOVUPS(x, at(reg.RDI, 256*i+32*half))
		}
	}
	a.ADDQ(imm(64), reg.RDI)
	a.ADDQ(imm(32), reg.R10)
	a.ADDQ(imm(64), reg.R14)
	a.DECQ(reg.R13)
	a.JNZ(operand.LabelRef(tile))
	a.SUBQ(operand.U32(256), reg.RDI)
	a.SUBQ(imm(192), reg.RSI)
	a.MOVQ(reg.R15, reg.RDX)
	a.ADDQ(imm(4*panel), reg.R8)
	a.DECQ(reg.R11)
	a.JNZ(operand.LabelRef(block))
	a.end()
}

// chunk2 adds the products of 32 values of 16 tokens to the sums of n queries.
func (a *asm) chunk2(n, per int) {
	for g := range 8 {
		for half := range 2 {
			a.VPXOR(at(reg.RSI, 256*g+32*half), reg.Y15, ys[6+half])
			a.VPABSB(ys[6+half], ys[8+half])
		}
		for i := range n {
			a.VPBROADCASTD(at(reg.R15, 32*per*i+4*g), reg.Y10)
			for half := range 2 {
				x := ys[11+half]
				a.VPSIGNB(ys[6+half], reg.Y10, x)
				a.VPMADDUBSW(x, ys[8+half], x)
				a.VPMADDWD(reg.Y14, x, x)
				a.VPADDD(x, ys[2*i+half], ys[2*i+half])
			}
		}
	}
}

// values2 separates even and odd tokens, so that a sum of two products has only
// one nonzero term. It processes 32 values in steps of four vectors.
func (a *asm) values2(n int) {
	a.fn(fmt.Sprintf("values%dAVX2", n),
		"(acc *float32, ld int, tile, w *byte, scale *float32, groups uint64, pitch, ahead int)",
		"adds 32 values weighted for %d rows, ld bytes apart; groups of tokens are pitch bytes apart, and groups is not 0.", n)
	acc := func(i, v int) reg.VecPhysical { return ys[4*i+v] }
	a.ld("acc", reg.RDI)
	a.ld("ld", reg.R8)
	a.ld("tile", reg.RSI)
	a.ld("w", reg.RDX)
	a.ld("scale", reg.R9)
	a.ld("groups", reg.RCX)
	a.ld("pitch", reg.R10)
	a.ld("ahead", reg.R12)
	a.VPBROADCASTD(a.word("even", 0x00ff00ff), reg.Y15)
	a.VPBROADCASTD(a.word("ones", 0x00010001), reg.Y14)
	for i := range n {
		for v := range 4 {
			a.VPXOR(acc(i, v), acc(i, v), acc(i, v))
		}
	}
	loop := a.label("loop")
	a.Label(loop)
	a.TZCNTQ(reg.RCX, reg.RAX)
	a.BLSRQ(reg.RCX, reg.RCX)
	a.LEAQ(ix(reg.RDX, reg.RAX, 4, 0), reg.RBX)
	a.IMULQ(reg.R10, reg.RAX)
	a.ADDQ(reg.RSI, reg.RAX)
	a.prefetch(reg.R12, reg.RAX, 2)
	for i := range n {
		a.VPBROADCASTD(at(reg.RBX, 64*i), reg.Y10)
		a.VPAND(reg.Y15, reg.Y10, reg.Y8)
		a.VPANDN(reg.Y10, reg.Y15, reg.Y9)
		for v := range 4 {
			for _, w := range []reg.VecPhysical{reg.Y8, reg.Y9} {
				x := ys[11+v%3]
				a.VPMADDUBSW(at(reg.RAX, 32*v), w, x)
				a.VPMADDWD(reg.Y14, x, x)
				a.VPADDD(x, acc(i, v), acc(i, v))
			}
		}
	}
	a.TESTQ(reg.RCX, reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	for i := range n {
		a.VBROADCASTSS(at(reg.R9, 4*i), reg.Y10)
		for v := range 4 {
			x := acc(i, v)
			a.VCVTDQ2PS(x, x)
			a.VMULPS(reg.Y10, x, x)
			a.VADDPS(at(reg.RDI, 32*v), x, x)
			a.VMOVUPS(x, at(reg.RDI, 32*v))
		}
		a.ADDQ(reg.R8, reg.RDI)
	}
	a.end()
}
