package main

import (
	"fmt"

	. "godwit/engine/cpu/neon"
)

// queryPitch is the stride in bytes of 32 values of a row of queries.
const queryPitch = 6 * 32

func dots(a *asm, dot bool) {
	d := &dotter{a, dot}
	rows := 2 // largest number
	if dot {
		rows = 4
	}
	for n := 1; n <= rows; n++ {
		for _, bits := range []int{0, 2, 3, 4} {
			d.tokens(n, bits)
			d.values(n, bits)
		}
	}
}

// dotter writes kernels for integer dot products, with or without dot product
// instructions.
type dotter struct {
	*asm
	dot bool
}

func (d *dotter) tier() string {
	if d.dot {
		return "Dot"
	}
	return "NEON"
}

// planeName is the part of a name that identifies kernels that read planes.
func planeName(bits int) string {
	if bits == 0 {
		return ""
	}
	return fmt.Sprintf("Bits%d", bits)
}

// The registers of both kinds of kernels: sums in V0 to V15, codes in V16,
// scratch in V17 to V19. The constants for codes in planes are the table, masks
// of the low and the high bits, and shifts of the planes. Flipping the upper
// bit turns the unsigned bytes of a tile into signed ones, and back.
const (
	vCode  V = 16
	vTmp   V = 17
	vFlip  V = 24
	vTable V = 25
	vMask  V = 26
	vHigh  V = 27
	vLeft  V = 28 // shift of the low plane, to the right if negative
	vLeft2 V = 29 // shift of the high plane
	vLeft3 V = 30 // shift of the high plane in odd groups
)

// constants loads the constants that the method code needs.
func (d *dotter) constants(bits int, table R) {
	d.Fill(vFlip, 0x80808080, R19)
	if bits == 0 {
		return
	}
	d.Load(vTable, table, 0)
	d.V("eor.16b", vTable, vTable, vFlip)
	d.Fill(vMask, (1<<(bits&^1)-1)*0x01010101, R19)
	d.Fill(vHigh, 0x04040404, R19)
}

// code leaves 16 codes in vCode. From a tile it flips 16 bytes, and from planes
// it looks up 16 levels.
func (d *dotter) code(bits int, low R, lowAt int, high R, highAt int, left V) {
	d.Load(vCode, low, lowAt)
	if bits == 0 {
		d.V("eor.16b", vCode, vCode, vFlip)
		return
	}
	d.V("ushl.16b", vCode, vCode, vLeft)
	d.V("and.16b", vCode, vCode, vMask)
	if bits == 3 {
		d.Load(vTmp, high, highAt)
		d.V("ushl.16b", vTmp, vTmp, left)
		d.V("bit.16b", vCode, vTmp, vHigh)
	}
	d.Look(vCode, vTable, 1, vCode)
}

// tokens scores the 64 tokens of a page, 16 at a time.
//
//	R0 scores, running   R1 low plane or tile   R2 high plane   R3 queries
//	R4 their scales   R5 scales of tokens, running   R6 blocks left   R7 chunks
//	R8, R9 stride of even and odd rows of scores   R10 low, R11 high,
//	R12 queries, running   R13 chunks left   R14 index of the 16 tokens   R20 scores
//	R22 halves of a chunk left
//
//	V20 to V23 queries, half a chunk a row
func (d *dotter) tokens(n, bits int) {
	what := "a tile"
	if bits > 0 {
		what = fmt.Sprintf("planes of %d bits", bits)
	}
	d.Func(fmt.Sprintf("tokens%d%s%s", n, planeName(bits), d.tier()),
		"(dst *float32, low, high, table *byte, q *int8, qscale *float32, scales *byte, blocks, chunks, even, odd int)",
		fmt.Sprintf("scores the tokens of %s with %d rows of queries, alternately even and odd bytes apart in dst.", what, n), 0)
	d.args("dst", "low", "high", "q", "qscale", "scales", "blocks", "chunks", "even", "odd")
	d.Arg("table", R10)
	d.constants(bits, R10)
	d.Loop(R6, 1, func() {
		d.Op("MOVD ZR, R14")
		turn := d.NewLabel("tokens")
		d.Label(turn)
		d.turns(n, bits)
		d.Op("ADD $64, R0, R0")
		d.Op("ADD $32, R5, R5")
		d.Op("ADD $1, R14, R14")
		d.Op("CMP $4, R14")
		d.Op("BLT %s", turn)
		d.Op("SUB $256, R0, R0")
		d.Op("MOVD R15, R1")
		d.Op("MOVD R21, R2")
		d.Op("MOVD R12, R3")
		d.Op("ADD $24, R4, R4")
	})
	d.Ret()
}

// lineStep returns the bytes of a low plane, or a tile, for four values.
func lineStep(bits int) int {
	if bits == 0 {
		return 256
	}
	return 32 * (bits &^ 1)
}

// turns scores 16 tokens. R15, R21 and R12 are the ends of the block of planes and queries.
func (d *dotter) turns(n, bits int) {
	d.Op("MOVD R1, R10")
	d.Op("MOVD R2, R11")
	d.Op("MOVD R3, R12")
	d.Op("MOVD R7, R13")
	switch bits {
	case 0:
		d.Op("ADD R14<<6, R10, R10")
	case 4:
		d.Op("LSR $1, R14, R19")
		d.Op("ADD R19<<6, R10, R10")
		d.Op("AND $1, R14, R19")
		d.Op("LSL $2, R19, R19")
		d.Op("NEG R19, R19")
		d.Op("VDUP R19, V%d.B16", int(vLeft))
	default:
		d.Op("LSL $1, R14, R19")
		d.Op("NEG R19, R19")
		d.Op("VDUP R19, V%d.B16", int(vLeft))
		for i, v := range []V{vLeft2, vLeft3} {
			d.Op("MOVD $%d, R19", 2-4*i)
			d.Op("SUB R14, R19, R19")
			d.Op("VDUP R19, V%d.B16", int(v))
		}
	}
	for i := range 4 * n {
		d.Zero(V(i))
	}
	d.Loop(R13, 1, func() {
		d.Op("MOVD $2, R22")
		d.Loop(R22, 1, func() {
			for i := range n {
				d.Load(20+V(i), R12, 32*i)
			}
			for g := range 4 {
				left := vLeft2
				if g%2 == 1 {
					left = vLeft3
				}
				for v := range 4 {
					d.code(bits, R10, lineStep(bits)*g+16*v, R11, 64*(g/2)+16*v, left)
					d.products(n, v, g)
				}
			}
			d.Op("ADD $%d, R10, R10", 4*lineStep(bits))
			d.Op("ADD $128, R11, R11")
			d.Op("ADD $16, R12, R12")
		})
		d.Op("ADD $%d, R12, R12", queryPitch-32)
	})
	d.ends(bits)
	d.score(n)
}

// ends moves the running pointers back to the first 16 tokens.
func (d *dotter) ends(bits int) {
	d.Op("MOVD R10, R15")
	d.Op("MOVD R11, R21")
	switch bits {
	case 0:
		d.Op("SUB R14<<6, R15, R15")
	case 4:
		d.Op("LSR $1, R14, R19")
		d.Op("SUB R19<<6, R15, R15")
	}
}

// products adds the products of vCode and four values of each row to the sums
// of vector v. g is the index of the four values in a half chunk.
func (d *dotter) products(n, v, g int) {
	for i := range n {
		sum, q := V(4*i+v), 20+V(i)
		if d.dot {
			d.ByElement("sdot", sum, vCode, q, g)
			continue
		}
		t := vTmp + 1
		d.Dup(t, q, g)
		d.V("smull", vTmp, vCode, t)
		d.V("smull2", t, vCode, t)
		d.N("saddlp.4s", vTmp, vTmp)
		d.N("saddlp.4s", t, t)
		d.V("addp.4s", vTmp, vTmp, t)
		d.V("add.4s", sum, sum, vTmp)
	}
}

// score adds the sums times their scales.
func (d *dotter) score(n int) {
	for v := range V(4) {
		d.LoadHalf(20+v, R5, 8*int(v))
		d.N("fcvtl", 20+v, 20+v)
	}
	d.Op("MOVD R0, R20")
	d.Op("MOVD R4, R19")
	for i := range n {
		d.Repeat(vCode, R19)
		for v := range V(4) {
			sum := V(4*i) + v
			d.N("scvtf.4s", sum, sum)
			d.V("fmul.4s", vTmp, 20+v, vCode)
			d.V("fmul.4s", sum, sum, vTmp)
			d.Load(vTmp, R20, 16*int(v))
			d.V("fadd.4s", sum, vTmp, sum)
			d.Store(sum, R20, 16*int(v))
		}
		if i+1 < n {
			d.Op("ADD $4, R19, R19")
			d.Op("ADD R%d, R20, R20", 8+i%2)
		}
	}
}

// values adds weighted tokens to 16 values at a time. The weights are unsigned.
// Levels become unsigned by adding 128, and 128 times the sum of the weights is
// subtracted.
//
//	R0 sums, running   R1 ld   R2 low plane or tile   R3 high plane   R4 weights
//	R5 their scales   R6 groups   R7 steps of a group   R8 index of the step
//	R9 groups left   R10 group   R11 its weights   R12 codes   R13 high bits
//
//	R14 scratch   R15 sums of the weights
//
//	V20 to V23 weights of a group
func (d *dotter) values(n, bits int) {
	what := "a tile"
	if bits > 0 {
		what = fmt.Sprintf("planes of %d bits", bits)
	}
	d.Func(fmt.Sprintf("values%d%s%s", n, planeName(bits), d.tier()),
		"(acc *float32, ld int, low, high, table, w *byte, scale *float32, groups uint64, vecs int)",
		fmt.Sprintf("adds the weighted tokens of %s to %d rows of 16·vecs values; ld is in bytes.", what, n), 64)
	d.Arg("table", R8)
	d.constants(bits, R8)
	d.args("acc", "ld", "low", "high")
	d.Arg("w", R4)
	d.Arg("scale", R5)
	d.Arg("groups", R6)
	d.Arg("vecs", R7)
	d.weightSums(n)
	d.Op("MOVD ZR, R8")
	again := d.NewLabel("step")
	d.Label(again)
	for i := range 4 * n {
		d.Zero(V(i))
	}
	d.Op("MOVD R6, R9")
	d.eachBit(R9, R10, func() {
		d.Op("ADD R10<<2, R4, R11")
		for i := range V(n) {
			d.Repeat(20+i, R11)
			if int(i)+1 < n {
				d.Op("ADD $64, R11, R11")
			}
		}
		d.stepOf(bits)
		for v := range 4 {
			d.code(bits, R12, 16*v, R13, 16*v, vLeft2)
			d.weighted(n, v)
		}
	})
	d.gather(n)
	d.Op("ADD $64, R0, R0")
	d.Op("ADD $1, R8, R8")
	d.Op("CMP R7, R8")
	d.Op("BLT %s", again)
	d.Ret()
}

// weightSums leaves 128 times the sum of each row's weights in local memory.
func (d *dotter) weightSums(n int) {
	d.Local(R15)
	for i := range V(n) {
		d.Zero(i)
	}
	d.Op("MOVD R6, R9")
	d.eachBit(R9, R10, func() {
		d.Op("ADD R10<<2, R4, R11")
		for i := range V(n) {
			d.LoadQuarter(vCode, R11, 64*int(i))
			d.Shift("ushll", vCode, vCode, 0)
			d.N("uadalp.4s", i, vCode)
		}
	})
	for i := range V(n) {
		d.N("addv.4s", i, i)
		d.Dup(i, i, 0)
		d.Shift("shl.4s", i, i, 7)
		d.Store(i, R15, 16*int(i))
	}
}

// stepOf computes the addresses of step R8 of group R10, in R12 and R13, and
// the shifts to its bits.
func (d *dotter) stepOf(bits int) {
	d.Op("MADD R10, R8, R7, R14")
	log := map[int]int{0: 0, 2: 2, 3: 2, 4: 1}[bits] // log2 of the steps in a line
	if log == 0 {
		d.Op("ADD R14<<6, R2, R12")
		return
	}
	d.Op("LSR $%d, R14, R12", log)
	d.Op("ADD R12<<6, R2, R12")
	d.Op("AND $%d, R14, R19", 1<<log-1)
	d.Op("LSL $%d, R19, R19", 3-log)
	d.Op("NEG R19, R19")
	d.Op("VDUP R19, V%d.B16", int(vLeft))
	if bits == 3 {
		d.Op("LSR $3, R14, R13")
		d.Op("ADD R13<<6, R3, R13")
		d.Op("AND $7, R14, R14")
		d.Op("MOVD $2, R19")
		d.Op("SUB R14, R19, R19")
		d.Op("VDUP R19, V%d.B16", int(vLeft2))
	}
}

// weighted adds the products of vCode and the weights of a group to the sums of vector v.
func (d *dotter) weighted(n, v int) {
	for i := range n {
		sum, w := V(4*i+v), 20+V(i)
		if d.dot {
			d.V("udot", sum, vCode, w)
			continue
		}
		t := vTmp + 1
		d.V("umull", vTmp, vCode, w)
		d.V("umull2", t, vCode, w)
		d.N("uaddlp.4s", vTmp, vTmp)
		d.N("uaddlp.4s", t, t)
		d.V("addp.4s", vTmp, vTmp, t)
		d.V("add.4s", sum, sum, vTmp)
	}
}

// gather adds the sums, times the scale of their row, to the accumulators.
func (d *dotter) gather(n int) {
	d.Op("MOVD R0, R11")
	d.Op("MOVD R5, R12")
	for i := range n {
		d.Load(vTmp, R15, 16*i)
		d.Repeat(vCode, R12)
		for v := range V(4) {
			sum := V(4*i) + v
			d.V("sub.4s", sum, sum, vTmp)
			d.N("scvtf.4s", sum, sum)
			d.V("fmul.4s", sum, sum, vCode)
			d.Load(vTmp+1, R11, 16*int(v))
			d.V("fadd.4s", sum, vTmp+1, sum)
			d.Store(sum, R11, 16*int(v))
		}
		if i+1 < n {
			d.Op("ADD R1, R11, R11")
			d.Op("ADD $4, R12, R12")
		}
	}
}
