package main

import . "godwit/engine/cpu/neon"

func weigh(a *asm) {
	a.logits()
	a.weights()
	a.roundWeights()
	a.addHalf()
	a.addScaled()
	a.mulHalf()
	a.dotHalf()
}

// laneBits loads one bit for each lane of a vector.
func (a *asm) laneBits(v V) {
	var data [16]byte
	for i := range 4 {
		data[4*i] = 1 << i
	}
	a.Const(v, "laneBits", data, R19)
}

// seen sets the lanes of v whose bits are set among the four lowest bits of r.
func (a *asm) seen(v V, r R, lanes V) {
	a.Op("VDUP %v, V%d.S4", r, int(v))
	a.V("cmtst.4s", v, v, lanes)
}

// largest folds the lanes of v.
func (a *asm) largest(v V) {
	a.V("fmaxnmp.4s", v, v, v)
	a.V("fmaxnmp.4s", v, v, v)
}

// foldSixteen adds the 16 partial sums in v and the next three registers, by adding upper to lower
// halves.
func (a *asm) foldSixteen(v V) {
	a.V("fadd.4s", v, v, v+2)
	a.V("fadd.4s", v+1, v+1, v+3)
	a.V("fadd.4s", v, v, v+1)
	a.Ext(v+1, v, v, 8)
	a.V("fadd.4s", v, v, v+1)
	a.Ext(v+1, v, v, 4)
	a.V("fadd.4s", v, v, v+1)
}

func (a *asm) logits() {
	a.Func("logitsNEON", "(s *float32, stride, pages int, factor float32, visible *uint64, top float32) float32", "scales logits; stride is in bytes.", 0)
	a.args("s", "stride")
	a.Arg("pages", R9)
	a.Arg("visible", R3)
	a.Scalar("factor", 16)
	a.Scalar("top", 17)
	a.laneBits(18)
	a.bits(19, "largest", 0x7f7fffff)
	a.bits(20, "smallest", 0xff7fffff)
	a.Loop(R9, 1, func() {
		a.Op("MOVD.P 8(R3), R4")
		a.Op("MOVD R0, R5")
		a.Op("MOVD $16, R10")
		a.Loop(R10, 1, func() {
			a.Load(0, R5, 0)
			a.V("fmul.4s", 0, 0, 16)
			a.V("fcmeq.4s", 1, 0, 0)
			a.V("bif.16b", 0, 20, 1)
			a.V("fmax.4s", 0, 0, 20)
			a.V("fmin.4s", 0, 0, 19)
			a.Store(0, R5, 0)
			a.seen(1, R4, 18)
			a.V("bif.16b", 0, 17, 1)
			a.V("fmax.4s", 17, 17, 0)
			a.Op("LSR $4, R4, R4")
			a.Op("ADD $16, R5, R5")
		})
		a.Op("ADD R1, R0, R0")
	})
	a.largest(17)
	a.ReturnFloat(17)
	a.Ret()
}

// weights processes vectors that are 16 values apart together, because they are
// added to the same lanes.
func (a *asm) weights() {
	a.Func("weightsNEON", "(s *float32, stride, pages int, visible *uint64, top, tau float32, kept *uint64) float32", "turns logits into weights; stride is in bytes.", 0)
	a.args("s", "stride")
	a.Arg("pages", R9)
	a.Arg("visible", R3)
	a.Arg("kept", R6)
	c := Constants{File: a.File, Free: 31}
	exp := c.Exp()
	top, tau, lanes, zero := V(16), V(17), V(18), V(15)
	a.Scalar("top", top)
	a.Scalar("tau", tau)
	a.laneBits(lanes)
	a.Zero(zero)
	for i := range V(4) {
		a.Zero(11 + i)
	}
	a.Loop(R9, 1, func() {
		a.Op("MOVD.P 8(R3), R4")
		a.Op("MOVD ZR, R5")
		for q := range 4 {
			for j := range V(4) {
				w, mask, t := 3+j, V(7), V(8)
				bit := 16*int(j) + 4*q
				a.Load(w, R0, 4*bit)
				a.V("fsub.4s", w, w, top)
				a.V("fmin.4s", w, w, zero)
				exp.Of(w, t)
				a.Op("LSR $%d, R4, R7", bit)
				a.seen(mask, R7, lanes)
				a.V("and.16b", w, w, mask)
				a.V("fcmge.4s", t, w, tau)
				a.V("and.16b", mask, mask, t)
				a.V("and.16b", t, w, mask)
				a.Store(t, R0, 4*bit)
				a.V("and.16b", mask, mask, lanes)
				a.N("addv.4s", mask, mask)
				a.Op("FMOVS F%d, R7", int(mask))
				a.Op("ORR R7<<%d, R5, R5", bit)
			}
			a.V("fadd.4s", 3, 3, 4)
			a.V("fadd.4s", 5, 5, 6)
			a.V("fadd.4s", 3, 3, 5)
			a.V("fadd.4s", 11+V(q), 11+V(q), 3)
		}
		a.Op("MOVD.P R5, 8(R6)")
		a.Op("ADD R1, R0, R0")
	})
	a.foldSixteen(11)
	a.ReturnFloat(11)
	a.Ret()
}

// halfVectors loads 64 f16 at base, four at a time. body gets four values in v,
// and their index.
func (a *asm) halfVectors(base R, v V, body func(i int)) {
	for i := range 16 {
		a.LoadHalf(v, base, 8*i)
		a.N("fcvtl", v, v)
		body(i)
	}
}

// product leaves w·x in x. A weight of zero gives zero even if x is infinite or NaN.
func (a *asm) product(x, w, t V) {
	a.V("fmul.4s", x, w, x)
	a.N("fcmeq.0", t, w)
	a.V("bic.16b", x, x, t)
}

func (a *asm) roundWeights() {
	a.Func("roundWeightsNEON", "(dst *uint8, w *float32, scales *byte, flip uint32, n int, amax *float32) uint32", "rounds n rows of weights times scales; flip is the bit of a sign. The result is not 0 if some were negative.", 0)
	a.args("dst", "w", "scales", "flip")
	a.Arg("n", R9)
	a.Arg("amax", R5)
	flip, signs := V(24), V(25)
	a.Op("VDUP R3, V%d.S4", int(flip))
	a.Zero(signs)
	a.Op("MOVW $0x%08x, R6", 0x437f0000) // 255
	a.Op("FMOVS R6, F26")
	a.Op("MOVW $0x%08x, R6", 0x0554ad2e) // tiny
	a.Op("FMOVS R6, F27")
	a.Loop(R9, 1, func() {
		a.Zero(20)
		for i := range V(16) {
			a.LoadHalf(i, R2, 8*int(i))
			a.N("fcvtl", i, i)
			a.Load(21, R1, 16*int(i))
			a.product(i, 21, 22)
			a.N("fabs.4s", 21, i)
			a.V("fmaxnm.4s", 20, 20, 21)
		}
		a.largest(20)
		a.Op("FMOVS F20, (R5)")
		a.Op("FMAXS F20, F27, F20")
		a.Op("FDIVS F20, F26, F20")
		for i := range V(16) {
			a.V("eor.16b", i, i, flip)
			a.ByElement("fmul", i, i, 20, 0)
			a.N("fcvtns.4s", i, i)
			a.V("orr.16b", signs, signs, i)
		}
		for i := V(0); i < 16; i += 4 {
			a.N("sqxtun.4h", i, i)
			a.N("sqxtun2.8h", i, i+1)
			a.N("sqxtun.4h", i+2, i+2)
			a.N("sqxtun2.8h", i+2, i+3)
			a.N("uqxtn.8b", i, i)
			a.N("uqxtn2", i, i+2)
			a.Store(i, R0, 4*int(i))
		}
		a.Op("ADD $64, R0, R0")
		a.Op("ADD $256, R1, R1")
		a.Op("ADD $4, R5, R5")
	})
	a.Shift("ushr.4s", signs, signs, 31)
	a.N("umaxv.4s", signs, signs)
	a.Op("FMOVS F%d, R6", int(signs))
	a.Return(R6)
	a.Ret()
}

func (a *asm) addHalf() {
	a.Func("addHalfNEON", "(dst *float32, x *byte, f float32)", "adds f·x to 64 values.", 0)
	a.args("dst", "x")
	a.Scalar("f", 16)
	a.halfVectors(R1, 0, func(i int) {
		a.Load(1, R0, 16*i)
		a.V("fmul.4s", 0, 0, 16)
		a.V("fadd.4s", 1, 1, 0)
		a.Store(1, R0, 16*i)
	})
	a.Ret()
}

func (a *asm) addScaled() {
	a.Func("addScaledNEON", "(dst, raw *float32, x *byte, n int)", "adds raw·x to n rows of 64 values.", 0)
	a.args("dst", "raw", "x")
	a.Arg("n", R9)
	a.Loop(R9, 1, func() {
		a.halfVectors(R2, 0, func(i int) {
			a.Load(1, R1, 16*i)
			a.Load(2, R0, 16*i)
			a.V("fmul.4s", 0, 1, 0)
			a.V("fadd.4s", 2, 2, 0)
			a.Store(2, R0, 16*i)
		})
		a.Op("ADD $256, R0, R0")
		a.Op("ADD $256, R1, R1")
	})
	a.Ret()
}

func (a *asm) mulHalf() {
	a.Func("mulHalfNEON", "(dst, w *float32, x *byte, n int)", "makes w·x of n rows of 64 values.", 0)
	a.args("dst", "w", "x")
	a.Arg("n", R9)
	a.Loop(R9, 1, func() {
		a.halfVectors(R2, 0, func(i int) {
			a.Load(1, R1, 16*i)
			a.product(0, 1, 2)
			a.Store(0, R0, 16*i)
		})
		a.Op("ADD $256, R0, R0")
		a.Op("ADD $256, R1, R1")
	})
	a.Ret()
}

func (a *asm) dotHalf() {
	a.Func("dotHalfNEON", "(w *float32, x *byte) float32", "sums w·x over 64 values.", 0)
	a.args("w", "x")
	for i := range V(4) {
		a.Zero(8 + i)
	}
	a.halfVectors(R1, 0, func(i int) {
		a.Load(1, R0, 16*i)
		a.product(0, 1, 2)
		a.V("fadd.4s", 8+V(i%4), 8+V(i%4), 0)
	})
	a.foldSixteen(8)
	a.ReturnFloat(8)
	a.Ret()
}
