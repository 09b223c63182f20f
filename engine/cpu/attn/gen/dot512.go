package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// panel is the number of queries per panel in package attn.
const panel = 6

// dot512 makes the integer dot products over a page of bytes.
func dot512(a *asm) {
	for n := 1; n <= panel; n++ {
		a.tokens512(n)
	}
	for n := 1; n <= panel; n++ {
		a.values512(n, 4)
		a.values512(n, 2)
	}
}

// tokens512 has four vectors of 16 tokens per row of the operand. With few
// rows, even and odd groups have separate sums, which hides the latency.
func (a *asm) tokens512(n int) {
	a.fn(fmt.Sprintf("tokens%dAVX512", n),
		"(dst *float32, tile *byte, q *int8, qscale *float32, init *int32, scales *byte, blocks, chunks int)",
		"adds the scores of %d rows of queries; chunks are those of 32 values of a block.", n)
	sets := 1
	if n <= 2 {
		sets = 2
	}
	acc := func(set, i, t int) reg.VecPhysical { return zs[(set*n+i)*4+t] }
	code := func(t int) reg.VecPhysical { return zs[24+t] }
	a.ld("dst", reg.RDI)
	a.ld("tile", reg.RSI)
	a.ld("q", reg.RDX)
	a.ld("qscale", reg.R8)
	a.ld("init", reg.R9)
	a.ld("scales", reg.R10)
	a.ld("blocks", reg.R11)
	block, chunk := a.label("block"), a.label("chunk")
	a.Label(block)
	a.ld("chunks", reg.RCX)
	for i := range n {
		a.VPBROADCASTD(at(reg.R9, 4*i), acc(0, i, 0))
		for t := 1; t < 4; t++ {
			a.VMOVDQA64(acc(0, i, 0), acc(0, i, t))
		}
		for t := range 4 * (sets - 1) {
			a.VPXORD(acc(1, i, t), acc(1, i, t), acc(1, i, t))
		}
	}
	a.Label(chunk)
	for g := range 8 {
		for t := range 4 {
			a.VMOVDQU64(at(reg.RSI, (4*g+t)*64), code(t))
		}
		for i := range n {
			a.VPBROADCASTD(at(reg.RDX, 32*i+4*g), reg.Z28)
			for t := range 4 {
				a.VPDPBUSD(reg.Z28, code(t), acc(g%sets, i, t))
			}
		}
	}
	a.ADDQ(imm(2048), reg.RSI)
	a.ADDQ(imm(32*panel), reg.RDX)
	a.DECQ(reg.RCX)
	a.JNZ(operand.LabelRef(chunk))
	for t := range 4 {
		a.VCVTPH2PS(at(reg.R10, 32*t), code(t))
	}
	for i := range n {
		for t := range 4 {
			x := acc(0, i, t)
			if sets == 2 {
				a.VPADDD(acc(1, i, t), x, x)
			}
			a.VCVTDQ2PS(x, x)
			a.VMULPS_BCST(at(reg.R8, 4*i), code(t), reg.Z29)
			a.VMULPS(reg.Z29, x, x)
			a.VADDPS(at(reg.RDI, 256*i+64*t), x, x)
			a.VMOVUPS(x, at(reg.RDI, 256*i+64*t))
		}
	}
	a.ADDQ(imm(4*panel), reg.R8)
	a.ADDQ(imm(4*panel), reg.R9)
	a.ADDQ(imm(128), reg.R10)
	a.DECQ(reg.R11)
	a.JNZ(operand.LabelRef(block))
	a.end()
}

func (a *asm) values512(n, vecs int) {
	a.fn("values"+string(rune('0'+n))+"x"+string(rune('0'+vecs))+"AVX512",
		"(acc *float32, ld int, tile, w *byte, scale *float32, groups uint64, ahead int)",
		"adds %d values weighted for %d rows, ld bytes apart; groups is not 0.", 16*vecs, n)
	acc := func(i, v int) reg.VecPhysical { return zs[i*vecs+v] }
	code := func(v int) reg.VecPhysical { return zs[24+v] }
	a.ld("acc", reg.RDI)
	a.ld("ld", reg.R8)
	a.ld("tile", reg.RSI)
	a.ld("w", reg.RDX)
	a.ld("scale", reg.R9)
	a.ld("groups", reg.RCX)
	a.ld("ahead", reg.R12)
	for i := range n {
		for v := range vecs {
			a.VPXORD(acc(i, v), acc(i, v), acc(i, v))
		}
	}
	loop := a.label("loop")
	a.Label(loop)
	a.TZCNTQ(reg.RCX, reg.RAX)
	a.BLSRQ(reg.RCX, reg.RCX)
	a.LEAQ(ix(reg.RDX, reg.RAX, 4, 0), reg.RBX)
	a.SHLQ(imm(6), reg.RAX)
	a.LEAQ(ix(reg.RSI, reg.RAX, uint8(vecs), 0), reg.RAX)
	a.prefetch(reg.R12, reg.RAX, vecs)
	for v := range vecs {
		a.VMOVDQU64(at(reg.RAX, 64*v), code(v))
	}
	for i := range n {
		a.VPBROADCASTD(at(reg.RBX, 64*i), reg.Z28)
		for v := range vecs {
			a.VPDPBUSD(code(v), reg.Z28, acc(i, v))
		}
	}
	a.TESTQ(reg.RCX, reg.RCX)
	a.JNZ(operand.LabelRef(loop))
	for i := range n {
		a.VBROADCASTSS(at(reg.R9, 4*i), reg.Z28)
		for v := range vecs {
			x := acc(i, v)
			a.VCVTDQ2PS(x, x)
			a.VMULPS(reg.Z28, x, x)
			a.VADDPS(at(reg.RDI, 64*v), x, x)
			a.VMOVUPS(x, at(reg.RDI, 64*v))
		}
		a.ADDQ(reg.R8, reg.RDI)
	}
	a.end()
}
