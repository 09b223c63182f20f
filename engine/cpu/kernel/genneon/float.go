package main

import (
	"fmt"

	. "godwit/engine/cpu/neon"
)

// floatTypes are the weights that multiply float activations, with their sizes
// in bytes.
var floatTypes = []struct {
	name string
	size int
}{{"F32", 4}, {"F16", 2}, {"BF16", 2}}

const floatSig = "(y *float32, ldy int, w *byte, x *float32, ldx, cols, panels int)"

// floats emits one kernel: even and odd columns have separate sums, added at
// the end. One row of activations multiplies a whole panel; four multiply half
// of it, the lower half first.
//
//	R0 y   R1 weights, running   R2, R3 activations and their stride
//	R4–R7 rows of activations, running   R8 columns left   R9 panels left
//	R10 start of the panel   R20 ldy   R21 columns   R12 results
//
//	V0–V15 results   V16–V19 activations   V20–V27 weights
type floats struct {
	*File
	name  string
	size  int
	n     int
	parts int // vectors of rows
	first int // index of the first of these vectors
}

func floatName(name string, n int) string { return fmt.Sprintf("float%sx%dNEON", name, n) }

func floatMatrix(f *File) {
	for _, t := range floatTypes {
		for _, n := range rowsList {
			m := &floats{File: f, name: t.name, size: t.size, n: n, parts: 4}
			if n > 1 {
				m.parts = 2
			}
			m.emit()
		}
	}
}

func (m *floats) acc(odd, c, part int) V { return V(8*odd + c*m.parts + part) }

func (m *floats) emit() {
	m.Func(floatName(m.name, m.n), floatSig, fmt.Sprintf("multiplies panels of %s by %d rows of floats; ldy and ldx are in bytes.", m.name, m.n), 0)
	for i, name := range []string{"y", "w", "x", "ldx"} {
		m.Arg(name, R(i))
	}
	m.Arg("panels", R9)
	m.Arg("ldy", R20)
	m.Arg("cols", R21)
	m.Loop(R9, 1, func() {
		m.Op("MOVD R1, R10")
		for m.first = 0; m.first < 4; m.first += m.parts {
			if m.first > 0 {
				m.Op("MOVD R10, R1")
			}
			m.pass()
		}
		m.Op("ADD $64, R0, R0")
	})
	m.Ret()
}

// pass runs over all columns for some vectors of rows.
func (m *floats) pass() {
	for i := range V(16) {
		m.Zero(i)
	}
	m.Op("MOVD R2, R4")
	for c := range m.n - 1 {
		m.Op("ADD R3, R%d, R%d", 4+c, 5+c)
	}
	rest, odd, done := m.NewLabel("rest"), m.NewLabel("odd"), m.NewLabel("done")
	m.Op("SUBS $4, R21, R8")
	m.Op("BLT %s", rest)
	again := m.NewLabel("four")
	m.Label(again)
	m.columns(4, (*File).Load)
	m.Op("SUBS $4, R8, R8")
	m.Op("BGE %s", again)
	m.Label(rest)
	m.Op("ADD $4, R8, R8")
	m.Op("SUBS $2, R8, R8")
	m.Op("BLT %s", odd)
	m.columns(2, (*File).LoadHalf)
	m.Op("SUB $2, R8, R8")
	m.Label(odd)
	m.Op("ADDS $2, R8, R8")
	m.Op("BEQ %s", done)
	m.columns(1, (*File).LoadQuarter)
	m.Label(done)
	m.Op("MOVD R0, R12")
	for c := range m.n {
		for p := range m.parts {
			m.V("fadd.4s", m.acc(0, c, p), m.acc(0, c, p), m.acc(1, c, p))
			m.Store(m.acc(0, c, p), R12, 16*(m.first+p))
		}
		m.Op("ADD R20, R12, R12")
	}
}

// columns adds n columns. load loads their activations.
func (m *floats) columns(n int, load func(*File, V, R, int)) {
	for c := range m.n {
		load(m.File, V(16+c), R(4+c), 0)
		m.Op("ADD $%d, R%d, R%d", 4*n, 4+c, 4+c)
	}
	for i := range n {
		for p := range m.parts {
			m.widen(V(20+i%2*4+p), (16*i+4*(m.first+p))*m.size)
		}
		for c := range m.n {
			for p := range m.parts {
				m.ByElement("fmla", m.acc(i%2, c, p), V(20+i%2*4+p), V(16+c), i)
			}
		}
	}
	m.Op("ADD $%d, R1, R1", 16*n*m.size)
}

func (m *floats) widen(v V, off int) {
	switch m.name {
	case "F32":
		m.Load(v, R1, off)
	case "F16":
		m.LoadHalf(v, R1, off)
		m.N("fcvtl", v, v)
	case "BF16":
		m.LoadHalf(v, R1, off)
		m.N("shll", v, v)
	}
}
