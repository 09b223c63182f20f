package main

import . "godwit/engine/cpu/neon"

func prep(a *asm) {
	a.hadamard()
	a.maxAbs()
	a.roundInt8()
	a.remainder()
	a.roundAway()
	a.toHalf()
	a.codesOf()
	a.scatterValues()
}

// butterfly replaces two vectors by their sum and their difference; t is scratch.
func (a *asm) butterfly(v, w, t V) {
	a.V("fadd.4s", t, v, w)
	a.V("fsub.4s", w, v, w)
	a.Move(v, t)
}

// hadamard does strides of 1 to 16 in registers, 32 values at a time, and
// larger strides through memory.
func (a *asm) hadamard() {
	a.Func("hadamardNEON", "(x *float32, n int, pre, post *float32, c float32)", "rotates n values, 32 times a power of two.", 0)
	a.args("x", "n", "pre", "post")
	a.Op("MOVD R0, R4")
	a.Op("MOVD R1, R9")
	a.Loop(R9, 32, func() {
		for i := range V(8) {
			a.Load(i, R4, 16*int(i))
			a.Load(16, R2, 16*int(i))
			a.V("fmul.4s", i, i, 16)
		}
		for i := V(0); i < 8; i += 2 {
			// Strides 1 and 2: separate even and odd lanes, then pairs of
			// lanes.
			v, w := i, i+1
			for _, op := range [][4]string{{"uzp1.4s", "uzp2.4s", "zip1.4s", "zip2.4s"}, {"trn1.2d", "trn2.2d", "trn1.2d", "trn2.2d"}} {
				a.V(op[0], 16, v, w)
				a.V(op[1], 17, v, w)
				a.V("fadd.4s", 18, 16, 17)
				a.V("fsub.4s", 19, 16, 17)
				a.V(op[2], v, 18, 19)
				a.V(op[3], w, 18, 19)
			}
		}
		for stride := V(1); stride < 8; stride *= 2 {
			for i := range V(8) {
				if i&stride == 0 {
					a.butterfly(i, i+stride, 16)
				}
			}
		}
		for i := range V(8) {
			a.Store(i, R4, 16*int(i))
		}
		a.Op("ADD $128, R4, R4")
		a.Op("ADD $128, R2, R2")
	})
	a.wideStrides()
	a.Scalar("c", 16)
	a.Loop(R1, 4, func() {
		a.Load(0, R0, 0)
		a.Load(1, R3, 0)
		a.V("fmul.4s", 0, 0, 16)
		a.V("fmul.4s", 0, 0, 1)
		a.Store(0, R0, 0)
		a.Op("ADD $16, R0, R0")
		a.Op("ADD $16, R3, R3")
	})
	a.Ret()
}

// wideStrides does the strides from 32 up. R5 is the stride in bytes, R6 the
// size of all values.
func (a *asm) wideStrides() {
	stride, done := a.NewLabel("stride"), a.NewLabel("done")
	a.Op("MOVD $128, R5")
	a.Op("LSL $2, R1, R6")
	a.Label(stride)
	a.Op("CMP R6, R5")
	a.Op("BHS %s", done)
	a.Op("MOVD R0, R4")
	a.Op("MOVD R6, R7") // bytes left
	blocks := a.NewLabel("blocks")
	a.Label(blocks)
	a.Op("ADD R5, R4, R8")
	a.Op("MOVD R5, R9")
	a.Loop(R9, 64, func() {
		for i := range V(4) {
			a.Load(i, R4, 16*int(i))
			a.Load(4+i, R8, 16*int(i))
		}
		for i := range V(4) {
			a.V("fadd.4s", 8+i, i, 4+i)
			a.V("fsub.4s", 12+i, i, 4+i)
			a.Store(8+i, R4, 16*int(i))
			a.Store(12+i, R8, 16*int(i))
		}
		a.Op("ADD $64, R4, R4")
		a.Op("ADD $64, R8, R8")
	})
	a.Op("MOVD R8, R4")
	a.Op("SUBS R5<<1, R7, R7")
	a.Op("BGT %s", blocks)
	a.Op("LSL $1, R5, R5")
	a.Op("B %s", stride)
	a.Label(done)
}

// maxAbs uses a comparison, so NaN is never the maximum.
func (a *asm) maxAbs() {
	a.Func("maxAbsNEON", "(x *float32, n int) float32", "finds the largest magnitude of n values, a multiple of four, ignoring NaN.", 0)
	a.args("x")
	a.Arg("n", R9)
	a.Zero(1)
	a.Loop(R9, 4, func() {
		a.Load(0, R0, 0)
		a.N("fabs.4s", 0, 0)
		a.V("fcmgt.4s", 2, 0, 1)
		a.V("bit.16b", 1, 0, 2)
		a.Op("ADD $16, R0, R0")
	})
	a.largest(1)
	a.ReturnFloat(1)
	a.Ret()
}

func (a *asm) roundInt8() {
	a.Func("roundInt8NEON", "(dst *int8, x *float32, n int, inv float32) int32", "rounds n values, a multiple of 32, and sums them.", 0)
	a.args("dst", "x")
	a.Arg("n", R9)
	a.Scalar("inv", 16)
	a.Zero(17)
	a.Loop(R9, 32, func() {
		for i := range V(8) {
			a.Load(i, R1, 16*int(i))
			a.V("fmul.4s", i, i, 16)
			a.N("fcvtns.4s", i, i)
			a.V("add.4s", 17, 17, i)
		}
		for i := V(0); i < 8; i += 4 {
			a.narrow(i)
			a.Store(i, R0, 4*int(i))
		}
		a.Op("ADD $%d, R0, R0", queryPitch)
		a.Op("ADD $128, R1, R1")
	})
	a.N("addv.4s", 17, 17)
	a.Op("FMOVS F17, R2")
	a.Return(R2)
	a.Ret()
}

// narrow packs the words in v and the next three into bytes.
func (a *asm) narrow(v V) {
	a.N("xtn.4h", v, v)
	a.N("xtn2.8h", v, v+1)
	a.N("xtn.4h", v+2, v+2)
	a.N("xtn2.8h", v+2, v+3)
	a.N("xtn.8b", v, v)
	a.N("xtn2.16b", v, v+2)
}

func (a *asm) remainder() {
	a.Func("remainderNEON", "(dst, x *float32, n int, inv, step float32)", "stores the rounding errors of n values, a multiple of four.", 0)
	a.args("dst", "x")
	a.Arg("n", R9)
	a.Scalar("inv", 16)
	a.Scalar("step", 17)
	a.Loop(R9, 4, func() {
		a.Load(0, R1, 0)
		a.V("fmul.4s", 1, 0, 16)
		a.N("frintn.4s", 1, 1)
		a.V("fmul.4s", 1, 1, 17)
		a.V("fsub.4s", 0, 0, 1)
		a.Store(0, R0, 0)
		a.Op("ADD $16, R0, R0")
		a.Op("ADD $16, R1, R1")
	})
	a.Ret()
}

func (a *asm) roundAway() {
	a.Func("roundAwayNEON", "(dst *uint8, x *float32, n int, inv float32)", "rounds n values, a multiple of 16, halves away from zero.", 0)
	a.args("dst", "x")
	a.Arg("n", R9)
	a.Scalar("inv", 16)
	a.Loop(R9, 16, func() {
		for i := range V(4) {
			a.Load(i, R1, 16*int(i))
			a.V("fmul.4s", i, i, 16)
			a.N("fcvtas.4s", i, i)
		}
		a.narrow(0)
		a.Store(0, R0, 0)
		a.Op("ADD $16, R0, R0")
		a.Op("ADD $64, R1, R1")
	})
	a.Ret()
}

// toHalf clamps the magnitude to the largest finite value.
func (a *asm) toHalf() {
	a.Func("toHalfNEON", "(dst *byte, x *float32, n int)", "rounds n values, a multiple of eight, to f16; too large values become the largest one, NaN becomes 0.", 0)
	a.args("dst", "x")
	a.Arg("n", R9)
	a.bits(16, "largestHalf", 0x7bff7bff)
	a.bits(17, "magnitude", 0x7fff7fff)
	a.Loop(R9, 8, func() {
		a.LoadPair(0, 1, R1, 0)
		a.V("fcmeq.4s", 2, 0, 0)
		a.V("fcmeq.4s", 3, 1, 1)
		a.N("xtn.4h", 2, 2)
		a.N("xtn2.8h", 2, 3)
		a.N("fcvtn", 4, 0)
		a.N("fcvtn2", 4, 1)
		a.V("and.16b", 5, 4, 17)
		a.V("umin.8h", 5, 5, 16)
		a.V("bit.16b", 4, 5, 17)
		a.V("and.16b", 4, 4, 2)
		a.Store(4, R0, 0)
		a.Op("ADD $16, R0, R0")
		a.Op("ADD $32, R1, R1")
	})
	a.Ret()
}

// codesOf starts with the number of boundaries and subtracts one for each
// boundary above a value.
func (a *asm) codesOf() {
	a.Func("codesOfNEON", "(dst *uint8, x *float32, n int, boundaries *float32, count int)", "counts the boundaries that are not above each of n values, a multiple of 16.", 0)
	a.args("dst", "x")
	a.Arg("n", R9)
	a.Arg("boundaries", R3)
	a.Arg("count", R4)
	a.Op("VDUP R4, V16.S4")
	a.Loop(R9, 16, func() {
		for i := range V(4) {
			a.Load(4+i, R1, 16*int(i))
			a.Move(i, 16)
		}
		a.Op("MOVD R3, R5")
		a.Op("MOVD R4, R10")
		a.Loop(R10, 1, func() {
			a.Repeat(8, R5)
			a.Op("ADD $4, R5, R5")
			for i := range V(4) {
				a.V("fcmgt.4s", 9, 8, 4+i)
				a.V("add.4s", i, i, 9)
			}
		})
		a.narrow(0)
		a.Store(0, R0, 0)
		a.Op("ADD $16, R0, R0")
		a.Op("ADD $64, R1, R1")
	})
	a.Ret()
}

// scatterValues writes 16 codes into byte at of each lane of a step: every code
// goes to four bytes of a register, and a mask selects the bits that change.
//
//	R0 plane   R1 codes, running   R3 step   R4 log2 of the steps in a line
//	R5 width   R6 bits of the mask, in byte at   R7 first bit of a code
func (a *asm) scatterValues() {
	a.Func("scatterValuesNEON", "(plane, c *uint8, groups, step, log, width, at, first int)", "writes groups of 16 codes into steps of a plane of V.", 0)
	a.Arg("groups", R9)
	for i, name := range []string{"plane", "c"} {
		a.Arg(name, R(i))
	}
	for i, name := range []string{"step", "log", "width", "at", "first"} {
		a.Arg(name, R3+R(i))
	}
	var spread [16]byte
	for i := range spread {
		spread[i] = byte(i / 4)
	}
	a.Const(16, "spread", spread, R19)
	a.Fill(20, 0x04040404, R19)
	for i := range V(3) {
		a.V("add.16b", 17+i, 16+i, 20)
	}
	a.Op("MOVD $1, R10")
	a.Op("LSL R4, R10, R11")
	a.Op("SUB $1, R11, R11") // steps of a line minus one
	a.Op("LSL R5, R10, R10")
	a.Op("SUB $1, R10, R10")
	a.Op("LSL $3, R6, R6")
	a.Op("LSL R6, R10, R6")
	a.Loop(R9, 1, func() {
		a.Op("AND R11, R3, R12")
		a.Op("MUL R5, R12, R12")
		a.Op("LSL R12, R6, R13")
		a.Op("VDUP R13, V4.S4")
		a.Op("SUB R7, R12, R12")
		a.Op("VDUP R12, V5.B16")
		a.Load(6, R1, 0)
		a.V("ushl.16b", 6, 6, 5)
		a.Op("LSR R4, R3, R12")
		a.Op("ADD R12<<6, R0, R12")
		for i := range V(4) {
			a.Look(7, 6, 1, 16+i)
			a.Load(i, R12, 16*int(i))
			a.V("bit.16b", i, 7, 4)
			a.Store(i, R12, 16*int(i))
		}
		a.Op("ADD $1, R3, R3")
		a.Op("ADD $16, R1, R1")
	})
	a.Ret()
}
