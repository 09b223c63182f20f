package main

import (
	"fmt"
	"strings"

	. "godwit/engine/cpu/neon"
)

// Offsets in a block of activations, which has two planes of 32 bytes.
const (
	actSize = 84
	actD    = 64 // two words: scale, scaled sum
	actNeg  = 72
	actOff  = 76 // two words: -32·sum of the halves
)

// rowsList are the rows of activations that a kernel multiplies.
var rowsList = []int{1, 2, 3, 4}

const matSig = "(y *float32, ldy int, w, a *byte, lda, blocks, panels int)"

// mat emits one kernel. The 16 rows of a panel are four quarters: with dot
// product instructions one vector holds four columns of a quarter's codes, so
// there are no horizontal sums. A quarter is decoded once for all rows of
// activations; its results wait in local memory.
//
//	R0 y   R1 weights, running   R2, R3 activations and their stride
//	R4–R7 rows of activations, running   R8 blocks left   R9 panels left
//	R10 quarters left   R11 groups left   R12–R14 codes, scales and local memory
//	of a quarter   R15 local memory   R19 scratch   R20 ldy   R21 blocks
//	R22 byte scales of a group
//
//	V0–V3 results   V4–V7 activations   V8, V9 sums   V10–V15 scratch
//	V16–V23 codes   V24, V25 constants   V26 sums of the upper plane
//	V28–V31 scales
type mat struct {
	*File
	form
	n   int
	dot bool // has dot product instructions
}

const (
	vX     V = 4 // upper plane of 16 columns; the next ones hold the other columns and the lower planes
	vSum   V = 8
	vLow   V = 9
	vT     V = 10 // first of six scratch registers
	vW     V = 16
	vMask  V = 24
	vMask2 V = 25
	vUpper V = 26
	vMin   V = 28 // minima or scales of halves, two registers
	vD     V = 30 // minima or scales of halves, two registers
	vM     V = 31
)

// Local memory: the results, then the scales and minima of a block of 256
// columns and its unpacked byte scales.
const (
	locAcc   = 0
	locD     = 256
	locMin   = locD + 64
	locBytes = locMin + 64
	locSize  = locBytes + 256
)

func matName(f *form, n int, dot bool) string {
	tier := "NEON"
	if dot {
		tier = "Dot"
	}
	return fmt.Sprintf("mat%sx%d%s", strings.ReplaceAll(f.name, "_", ""), n, tier)
}

func matrix(f *File, dot bool) {
	for i := range formList {
		for _, n := range rowsList {
			m := &mat{File: f, form: formList[i], n: n, dot: dot}
			m.emit()
		}
	}
}

func (m *mat) emit() {
	frame := locSize
	if m.subs == 1 {
		frame = 64 * m.n
	}
	m.Func(matName(&m.form, m.n, m.dot), matSig, fmt.Sprintf("multiplies panels of %s by %d rows of activations; ldy and lda are in bytes.", m.name, m.n), frame)
	for i, name := range []string{"y", "w", "a", "lda"} {
		m.Arg(name, R(i))
	}
	m.Arg("panels", R9)
	m.Arg("ldy", R20)
	m.Arg("blocks", R21)
	m.Local(R15)
	m.constants()
	m.Loop(R9, 1, m.panel)
	m.Ret()
}

// panel multiplies one panel; R1 ends at the next panel.
func (m *mat) panel() {
	m.Zero(V0)
	for i := range 2 * m.n {
		m.StorePair(V0, V0, R15, locAcc+32*i)
	}
	m.Op("MOVD R2, R4")
	for c := range m.n - 1 {
		m.Op("ADD R3, R%d, R%d", 4+c, 5+c)
	}
	m.Op("MOVD R21, R8")
	m.Loop(R8, 1, m.block)
	m.Op("MOVD R0, R12")
	for c := range m.n {
		for i := range 2 {
			m.LoadPair(V0, V1, R15, locAcc+64*c+32*i)
			m.StorePair(V0, V1, R12, 32*i)
		}
		m.Op("ADD R20, R12, R12")
	}
	m.Op("ADD $64, R0, R0")
}

func (m *mat) block() {
	if m.subs == 1 {
		m.Op("MOVD R1, R13")
		m.Op("ADD $%d, R1, R12", m.first)
		m.group()
		m.Op("ADD $%d, R1, R1", m.blk)
		return
	}
	m.superScales()
	m.Op("ADD $%d, R1, R1", m.first)
	m.Op("MOVD $%d, R11", m.subs)
	m.Loop(R11, 1, func() {
		m.Op("MOVD R1, R12")
		m.Op("MOVD R22, R13")
		m.group()
		m.Op("ADD $%d, R1, R1", m.grp)
		m.Op("ADD $%d, R22, R22", m.scaleStep())
	})
}

// group adds 32 columns.
func (m *mat) group() {
	m.Op("MOVD R15, R14")
	m.Op("MOVD $4, R10")
	m.Loop(R10, 1, func() {
		m.groupScales()
		m.decode()
		for c := range m.n {
			m.Load(V(c), R14, locAcc+64*c)
			m.unit(R(4+c), V(c))
			m.Store(V(c), R14, locAcc+64*c)
		}
		m.Op("ADD $16, R12, R12")
		m.Op("ADD $%d, R13, R13", m.quarterStep())
		m.Op("ADD $16, R14, R14")
	})
	for c := range m.n {
		m.Op("ADD $%d, R%d, R%d", actSize, 4+c, 4+c)
	}
}

// unit multiplies a quarter by a row of activations.
func (m *mat) unit(x R, acc V) {
	m.LoadPair(vX, vX+1, x, 0)
	m.LoadPair(vX+2, vX+3, x, 32)
	if m.halves {
		m.unitHalves(x, acc)
		return
	}
	if m.shift > 0 {
		m.LoadQuarter(vLow, x, actNeg)
		m.Shift("shl.4s", vLow, vLow, m.shift)
		m.Dup(vLow, vLow, 0)
	}
	m.dots(0, 8)
	m.LoadHalf(vT, x, actD)
	m.N("scvtf.4s", vSum, vSum)
	m.V("fmul.4s", vSum, vSum, vD)
	m.ByElement("fmla", acc, vSum, vT, 0)
	switch {
	case !m.mins:
	case m.scale == scaleF16:
		m.ByElement("fmla", acc, vM, vT, 1)
	default:
		m.ByElement("fmls", acc, vM, vT, 1)
	}
}

// unitHalves multiplies a quarter whose halves have separate scales.
func (m *mat) unitHalves(x R, acc V) {
	u, off := vT+4, vT+5
	m.LoadHalf(off, x, actOff)
	for h := range 2 {
		if m.shift > 0 {
			m.Dup(vLow, off, h)
			if m.shift < 5 {
				m.Shift("sshr.4s", vLow, vLow, 5-m.shift)
			}
		}
		m.dots(4*h, 4*h+4)
		m.N("scvtf.4s", vSum, vSum)
		if h == 0 {
			m.V("fmul.4s", u, vSum, vD)
		} else {
			m.V("fmla.4s", u, vSum, vD+1)
		}
	}
	if m.mins {
		m.N("scvtf.4s", off, off)
		m.ByElement("fmla", u, vMin, off, 0)
		m.ByElement("fmla", u, vMin+1, off, 1)
	}
	m.LoadQuarter(vT, x, actD)
	m.ByElement("fmla", acc, u, vT, 0)
}

// dots leaves in vSum the products of the codes in [from, to) with the activations.
// If codes are shifted, it uses vLow.
func (m *mat) dots(from, to int) {
	if !m.dot {
		m.longDots(from, to)
		return
	}
	m.Zero(vSum)
	if m.shift == 0 {
		m.Zero(vLow)
	}
	for k := from; k < to; k++ {
		m.ByElement("sdot", vSum, vW+V(k), vX+V(k/4), k%4)
		m.ByElement("sdot", vLow, vW+V(k), vX+2+V(k/4), k%4)
	}
	m.Shift("shl.4s", vSum, vSum, 8)
	m.V("add.4s", vSum, vSum, vLow)
}

// longDots does the same with 16-bit products. A lane has one column of one row
// and must be widened after a limited number of products.
func (m *mat) longDots(from, to int) {
	lo, hi, x, sum, sum2 := vT, vT+1, vT+2, vSum, vT+3
	period := min(to-from, 32767/(128*m.top))
	if (to-from)%period != 0 {
		panic("genneon: " + m.name + " widens at the wrong time")
	}
	for plane := range V(2) {
		for k := from; k < to; k++ {
			i := k - from
			mul, widen := "smlal", "sadalp.4s"
			if i%period == 0 {
				mul = "smull"
			}
			if i < period {
				widen = "saddlp.4s"
			}
			m.Dup(x, vX+2*plane+V(k/4), k%4)
			m.V(mul, lo, vW+V(k), x)
			m.V(mul+"2", hi, vW+V(k), x)
			if (i+1)%period == 0 {
				m.N(widen, sum, lo)
				m.N(widen, sum2, hi)
			}
		}
		m.V("addp.4s", sum, sum, sum2)
		if plane == 0 {
			m.Shift("shl.4s", vUpper, sum, 8)
		}
	}
	m.V("add.4s", vSum, vSum, vUpper)
	if m.shift > 0 {
		m.V("add.4s", vSum, vSum, vLow)
	}
}
