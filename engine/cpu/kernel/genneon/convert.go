package main

import . "godwit/engine/cpu/neon"

// blockOps have their own signatures. Package kernel calls them in hand-written
// code.
var blockOps = []struct {
	name, sig, doc string
	emit           func(*vec)
}{
	{"ropePairsNEON", "(x, cos, sin *float32, n int)", "rotates n adjacent pairs, a multiple of four.", ropePairs},
	{"fromF16NEON", "(dst *float32, x *uint16, n int)", "widens n binary16 values, a multiple of four.", fromF16},
	{"toF16NEON", "(dst *uint16, x *float32, n int)", "rounds n values to binary16, a multiple of four.", toF16},
	{"fromBF16NEON", "(dst *float32, x *uint16, n int)", "widens n bfloat16 values, a multiple of four.", fromBF16},
	{"toBF16NEON", "(dst *uint16, x *float32, n int)", "rounds n values to bfloat16, a multiple of four.", toBF16},
	{"maximumNEON", "(x *float32, n int) float32", "finds the largest of n values, a multiple of four, ignoring NaN.", maximum},
	{"indexNEON", "(x *float32, n int, f float32) int", "finds the first four of n values, a multiple of four, that contain f; n if none do.", index},
	{"quantizeNEON", "(dst *byte, x *float32, n int)", "fills blocks of 32 activations; n is a multiple of 32.", quantize},
	{"rowSumNEON", "(dst, s, w *float32, stride, rows, n int)", "sums n columns, a multiple of four, of rows of s times w.", rowSum},
	{"rowStepNEON", "(out, s, d, q, k *float32, stride, rows, n int, decay float32)", "decays rows of n columns, a multiple of four, adds k·d and sums them times q.", rowStep},
}

func blocks(f *File) {
	for _, o := range blockOps {
		v := &vec{Constants{File: f, Free: 31}}
		v.Func(o.name, o.sig, o.doc, 0)
		o.emit(v)
		v.Ret()
	}
}

// args loads pointers into R0 and up, and n into R9.
func (v *vec) args(names ...string) {
	for i, n := range names {
		v.Arg(n, R(i))
	}
	v.Arg("n", R9)
}

func ropePairs(v *vec) {
	v.args("x", "cos", "sin")
	v.each(func(int) {
		v.LoadPair(6, 7, R0, 0)
		v.V("uzp1.4s", 0, 6, 7)
		v.V("uzp2.4s", 1, 6, 7)
		v.Load(2, R1, 0)
		v.Load(3, R2, 0)
		v.rotate()
		v.V("zip1.4s", 6, 4, 5)
		v.V("zip2.4s", 7, 4, 5)
		v.StorePair(6, 7, R0, 0)
		v.Op("ADD $32, R0, R0")
	}, R1, R2)
}

// convert moves 8 bytes on one side and 16 on the other.
func (v *vec) convert(widen bool, body func()) {
	v.args("dst", "x")
	v.Loop(R9, 4, func() {
		if widen {
			v.LoadHalf(0, R1, 0)
			body()
			v.Store(0, R0, 0)
			v.Op("ADD $8, R1, R1")
			v.Op("ADD $16, R0, R0")
			return
		}
		v.Load(0, R1, 0)
		body()
		v.StoreHalf(0, R0, 0)
		v.Op("ADD $16, R1, R1")
		v.Op("ADD $8, R0, R0")
	})
}

func fromF16(v *vec)  { v.convert(true, func() { v.N("fcvtl", 0, 0) }) }
func fromBF16(v *vec) { v.convert(true, func() { v.N("shll", 0, 0) }) }

// toF16 clears the payload of a NaN, which the hardware keeps.
func toF16(v *vec) {
	payload := v.Bits("payload", 0xfe00fe00)
	v.convert(false, func() {
		v.V("fcmeq.4s", 1, 0, 0)
		v.N("xtn.4h", 1, 1)
		v.V("orr.16b", 1, 1, payload)
		v.N("fcvtn", 0, 0)
		v.V("and.16b", 0, 0, 1)
	})
}

func toBF16(v *vec) {
	bit := v.Bits("bit", 1)
	round := v.Bits("round", 0x7fff)
	quiet := v.Bits("quiet", 0x40)
	v.convert(false, func() {
		v.Shift("ushr.4s", 1, 0, 16)
		v.V("and.16b", 2, 1, bit)
		v.V("add.4s", 2, 2, 0)
		v.V("add.4s", 2, 2, round)
		v.Shift("ushr.4s", 2, 2, 16)
		v.V("orr.16b", 1, 1, quiet)
		v.V("fcmeq.4s", 0, 0, 0)
		v.V("bsl.16b", 0, 2, 1)
		v.N("xtn.4h", 0, 0)
	})
}

// maximum uses a comparison, so NaN is never the maximum.
func maximum(v *vec) {
	v.args("x")
	v.Move(1, v.Bits("lowest", 0xff800000))
	v.each(func(int) {
		v.Load(0, R0, 0)
		v.V("fcmgt.4s", 2, 0, 1)
		v.V("bit.16b", 1, 0, 2)
	}, R0)
	v.V("fmaxnmp.4s", 1, 1, 1)
	v.V("fmaxnmp.4s", 1, 1, 1)
	v.ReturnFloat(1)
}

func index(v *vec) {
	v.args("x")
	v.Scalar("f", 1)
	v.Op("MOVD R9, R2")
	found := v.NewLabel("found")
	v.each(func(int) {
		v.Load(0, R0, 0)
		v.V("fcmeq.4s", 0, 0, 1)
		v.N("umaxv.4s", 0, 0)
		v.Op("FMOVS F0, R3")
		v.Op("CBNZW R3, %s", found)
	}, R0)
	v.Label(found)
	v.Op("SUB R9, R2, R2")
	v.Return(R2)
}

// columns runs body for every group of four vectors of R9 values, and then for
// every remaining vector.
func (v *vec) columns(body func(n int), pointers ...R) {
	narrow, done := v.NewLabel("narrow"), v.NewLabel("done")
	v.Op("SUBS $16, R9, R9")
	v.Op("BLT %s", narrow)
	again := v.NewLabel("columns")
	v.Label(again)
	body(4)
	v.step(64, pointers)
	v.Op("SUBS $16, R9, R9")
	v.Op("BGE %s", again)
	v.Label(narrow)
	v.Op("ADDS $16, R9, R9")
	v.Op("BEQ %s", done)
	v.Loop(R9, 4, func() {
		body(1)
		v.step(16, pointers)
	})
	v.Label(done)
}

// rows runs body for every row. R10 is the row, R11 and up are its vectors, and
// R7 is the count.
func (v *vec) rows(vectors []R, body func()) {
	v.Op("MOVD R1, R10")
	for i, p := range vectors {
		v.Op("MOVD %v, %v", p, R11+R(i))
	}
	v.Op("MOVD R6, R7")
	v.Loop(R7, 1, func() {
		body()
		v.Op("ADD R5, R10, R10")
		for i := range vectors {
			v.Op("ADD $4, %v, %v", R11+R(i), R11+R(i))
		}
	})
}

// matrix loads the rows into R6 and their stride in bytes into R5.
func (v *vec) matrix() {
	v.Arg("rows", R6)
	v.Arg("stride", R5)
	v.Op("LSL $2, R5, R5")
}

func rowSum(v *vec) {
	v.args("dst", "s", "w")
	v.matrix()
	v.columns(func(n int) {
		for i := range V(n) {
			v.Zero(i)
		}
		v.rows([]R{R2}, func() {
			v.Repeat(12, R11)
			for i := range V(n) {
				v.Load(8+i, R10, 16*int(i))
				v.V("fmla.4s", i, 8+i, 12)
			}
		})
		for i := range V(n) {
			v.Store(i, R0, 16*int(i))
		}
	}, R0, R1)
}

func rowStep(v *vec) {
	v.args("out", "s", "d", "q", "k")
	v.matrix()
	v.Scalar("decay", 14)
	v.columns(func(n int) {
		for i := range V(n) {
			v.Load(i, R2, 16*int(i))
			v.Zero(4 + i)
		}
		v.rows([]R{R3, R4}, func() {
			v.Repeat(12, R12)
			v.Repeat(13, R11)
			for i := range V(n) {
				v.Load(8+i, R10, 16*int(i))
				v.V("fmul.4s", 8+i, 8+i, 14)
				v.V("fmla.4s", 8+i, i, 12)
				v.Store(8+i, R10, 16*int(i))
				v.V("fmla.4s", 4+i, 8+i, 13)
			}
		})
		for i := range V(n) {
			v.Store(4+i, R0, 16*int(i))
		}
	}, R0, R1, R2)
}
