package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// These kernels process the rows of a matrix, a few columns at a time, and keep
// sums over the rows in registers. Rows are stride apart.

// columns runs body for every group of four vectors of CX values, and then for
// every remaining vector. The last vector is masked. It advances the pointers.
func (v *vec) columns(body func(n int), pointers ...reg.Register) {
	full, rest := v.label("columns"), v.label("narrow")
	v.SUBQ(imm(4*v.lanes), reg.RCX)
	v.JLT(LabelRef(rest))
	v.Label(full)
	body(4)
	for _, p := range pointers {
		v.ADDQ(imm(4*v.bytes()), p)
	}
	v.SUBQ(imm(4*v.lanes), reg.RCX)
	v.JGE(LabelRef(full))
	v.Label(rest)
	v.ADDQ(imm(4*v.lanes), reg.RCX)
	v.loop(func() { body(1) }, pointers...)
}

// rows runs body for every row. AX counts up to R8, and R10 is the row.
func (v *vec) rows(body func()) {
	again := v.label("row")
	v.MOVQ(reg.RSI, reg.R10)
	v.XORQ(reg.RAX, reg.RAX)
	v.Label(again)
	body()
	v.ADDQ(reg.R9, reg.R10)
	v.INCQ(reg.RAX)
	v.CMPQ(reg.RAX, reg.R8)
	v.JLT(LabelRef(again))
}

// matrix loads the parameters that both kernels have: the rows into R8 and
// their stride in bytes into R9.
func (v *vec) matrix(rows string) {
	v.Load(v.Param(rows).Len(), reg.R8)
	v.Load(v.Param("stride"), reg.R9)
	v.SHLQ(imm(2), reg.R9)
}

func rowSum(v *vec) {
	v.slices("dst", "s", "w")
	v.matrix("w")
	v.columns(func(n int) {
		for i := range n {
			v.zero(v.r(i))
		}
		v.rows(func() {
			v.VBROADCASTSS(mem(reg.RDX, reg.RAX, 4, 0), v.r(12))
			for i := range n {
				v.load(reg.R10, i*v.bytes(), v.r(8+i))
				v.VFMADD231PS(v.r(12), v.r(8+i), v.r(i))
			}
		})
		for i := range n {
			v.store(v.r(i), reg.RDI, i*v.bytes())
		}
	}, reg.RDI, reg.RSI)
}

func rowStep(v *vec) {
	v.slices("out", "s", "d", "q")
	v.Load(v.Param("k").Base(), reg.R12)
	v.matrix("k")
	v.scalar("decay", v.r(14))
	v.columns(func(n int) {
		for i := range n {
			v.load(reg.RDX, i*v.bytes(), v.r(i))
			v.zero(v.r(4 + i))
		}
		v.rows(func() {
			v.VBROADCASTSS(mem(reg.R12, reg.RAX, 4, 0), v.r(12))
			v.VBROADCASTSS(mem(reg.RBX, reg.RAX, 4, 0), v.r(13))
			for i := range n {
				s := v.r(8 + i)
				v.load(reg.R10, i*v.bytes(), s)
				v.VMULPS(v.r(14), s, s)
				v.VFMADD231PS(v.r(12), v.r(i), s)
				v.store(s, reg.R10, i*v.bytes())
				v.VFMADD231PS(v.r(13), s, v.r(4+i))
			}
		})
		for i := range n {
			v.store(v.r(4+i), reg.RDI, i*v.bytes())
		}
	}, reg.RDI, reg.RSI, reg.RDX)
}
