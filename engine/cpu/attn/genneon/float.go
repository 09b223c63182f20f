package main

import (
	"fmt"

	. "godwit/engine/cpu/neon"
)

// stored lists the formats of cached floats. Some are read with values clamped
// to finite ones.
var stored = []struct {
	name   string
	size   int
	finite bool
}{{"F32", 4, false}, {"F16", 2, false}, {"BF16", 2, false}, {"F32Finite", 4, true}, {"BF16Finite", 2, true}}

// mulAddRows is the largest number of rows of a mulAdd kernel.
const mulAddRows = 3

func floats(a *asm) {
	for _, s := range stored {
		for n := 1; n <= mulAddRows; n++ {
			for _, lanes := range []int{32, 8} {
				a.mulAdd(s.name, s.size, s.finite, n, lanes)
			}
		}
	}
	for _, s := range stored[:3] {
		a.transposeFloats(s.name, s.size)
	}
}

// widen loads four stored values.
func (a *asm) widen(v V, base R, disp, size int, name string) {
	if size == 4 {
		a.Load(v, base, disp)
		return
	}
	a.LoadHalf(v, base, disp)
	if name[0] == 'F' {
		a.N("fcvtl", v, v)
	} else {
		a.N("shll", v, v)
	}
}

// mulAdd keeps the accumulators in V0 to V23 over all steps; factors are in V24 to V26.
func (a *asm) mulAdd(name string, size int, finite bool, n, lanes int) {
	vecs := lanes / 4
	a.Func(fmt.Sprintf("mulAdd%s%dx%dNEON", name, n, lanes), "(acc *float32, ld int, x *byte, pitch int, coef *float32, steps uint64)",
		fmt.Sprintf("adds coef·x to %d rows of %d values; ld is in bytes.", n, lanes), 0)
	a.args("acc", "ld", "x", "pitch", "coef", "steps")
	x, mask, top, low := V(27), V(28), V(29), V(30)
	if finite {
		a.bits(top, "largest", 0x7f7fffff)
		a.bits(low, "smallest", 0xff7fffff)
	}
	rows := func(f func(v V, base R, disp int)) {
		a.Op("MOVD R0, R6")
		for i := range n {
			for j := range vecs {
				f(V(i*vecs+j), R6, 16*j)
			}
			a.Op("ADD R1, R6, R6")
		}
	}
	rows(a.Load)
	a.eachBit(R5, R7, func() {
		a.Op("ADD R7<<2, R4, R8")
		for i := range V(n) {
			a.Repeat(24+i, R8)
			if int(i) < n-1 {
				a.Op("ADD $256, R8, R8")
			}
		}
		a.Op("MADD R7, R2, R3, R8")
		for j := range vecs {
			a.widen(x, R8, 4*size*j, size, name)
			if finite {
				a.V("fcmeq.4s", mask, x, x)
				a.V("bif.16b", x, top, mask)
				a.V("fmin.4s", x, x, top)
				a.V("fmax.4s", x, x, low)
			}
			for i := range n {
				a.V("fmla.4s", V(i*vecs+j), x, 24+V(i))
			}
		}
	})
	rows(a.Store)
	a.Ret()
}

// transposeFloats transposes four values of four tokens at a time.
func (a *asm) transposeFloats(name string, size int) {
	a.Func("transpose"+name+"NEON", "(dst, x *byte, width int)", "transposes [width][64] values to [64][width] float32; width is a multiple of four.", 0)
	a.args("dst", "x", "width")
	a.Op("LSL $2, R2, R3") // bytes per row of dst
	a.Op("MOVD R2, R9")
	a.Loop(R9, 4, func() {
		a.Op("MOVD R0, R4")
		a.Op("MOVD R1, R5")
		a.Op("MOVD $16, R10")
		a.Loop(R10, 1, func() {
			for i := range V(4) {
				a.widen(i, R5, 64*size*int(i), size, name)
			}
			a.transpose4(0, 4)
			for i := range V(4) {
				a.Store(i, R4, 0)
				a.Op("ADD R3, R4, R4")
			}
			a.Op("ADD $%d, R5, R5", 4*size)
		})
		a.Op("ADD $%d, R1, R1", 256*size)
		a.Op("ADD $16, R0, R0")
	})
	a.Ret()
}

// transpose4 transposes a square of words in v and the next three; t and the next
// three are scratch.
func (a *asm) transpose4(v, t V) {
	a.V("trn1.4s", t, v, v+1)
	a.V("trn2.4s", t+1, v, v+1)
	a.V("trn1.4s", t+2, v+2, v+3)
	a.V("trn2.4s", t+3, v+2, v+3)
	a.V("trn1.2d", v, t, t+2)
	a.V("trn1.2d", v+1, t+1, t+3)
	a.V("trn2.2d", v+2, t, t+2)
	a.V("trn2.2d", v+3, t+1, t+3)
}
