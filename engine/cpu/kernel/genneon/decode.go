package main

import . "godwit/engine/cpu/neon"

// constants loads what decode and groupScales need.
func (m *mat) constants() {
	masks := map[codes][2]uint32{
		nibbles: {0x0f0f0f0f, 0x10101010},
		crumbs:  {0x03030303, 0x04040404},
		sixes:   {0x3f3f3f3f, 0},
		bytesOf: {0x80808080, 0},
	}[m.codes]
	m.Fill(vMask, masks[0], R19)
	switch {
	case m.table != nil:
		var t [16]byte
		for i, v := range m.table {
			t[i] = byte(v)
		}
		name := "levelsNL"
		if m.table == &levelsMX {
			name = "levelsMX"
		}
		m.Const(vMask2, name, t, R19)
	case m.plane >= 0:
		m.Fill(vMask2, masks[1], R19)
	}
}

// decode leaves the codes of a quarter in vW and the next seven registers. Byte
// 4r+i of register k is column 4k+i of row r.
func (m *mat) decode() {
	switch m.codes {
	case nibbles:
		m.decodeNibbles()
	case crumbs:
		for j := range 2 {
			w := vW + V(4*j)
			m.Load(w, R12, 64*j)
			for k := V(3); k >= 0; k-- {
				if k > 0 {
					m.Shift("ushr.16b", w+k, w, 2*int(k))
				}
				if k < 3 {
					m.V("and.16b", w+k, w+k, vMask)
				}
			}
		}
	case sixes:
		for h := range 2 {
			m.decodeSixes(192*h, vW+V(4*h))
		}
	case bytesOf:
		for k := range V(8) {
			m.Load(vW+k, R12, 64*int(k))
			m.V("eor.16b", vW+k, vW+k, vMask)
		}
	}
	if m.plane >= 0 {
		at := 4 // position of the bit above nibbles
		if m.codes == crumbs {
			at = 2
		}
		m.Load(vT, R12, m.plane)
		for k := range 8 {
			m.insert(vW+V(k), at-k)
		}
	}
}

func (m *mat) decodeNibbles() {
	for j := range V(4) {
		lo, hi := vW+j, vW+4+j
		m.Load(lo, R12, m.nib+64*int(j))
		m.Shift("ushr.16b", hi, lo, 4)
		m.V("and.16b", lo, lo, vMask)
		if m.table != nil || m.grid {
			m.Look(lo, vMask2, 1, lo)
			m.Look(hi, vMask2, 1, hi)
		}
	}
}

// decodeSixes assembles the last four columns from the top bits of the others.
func (m *mat) decodeSixes(off int, w V) {
	for k := range V(3) {
		m.Load(w+k, R12, off+64*int(k))
	}
	m.Move(w+3, w)
	m.Shift("sri.16b", w+3, w+1, 2)
	m.Shift("sri.16b", w+3, w+2, 4)
	m.Shift("ushr.16b", w+3, w+3, 2)
	for k := range V(3) {
		m.V("and.16b", w+k, w+k, vMask)
	}
}

// insert copies a bit of vT to the bit vMask2 of w. In vT the bit is left
// places lower.
func (m *mat) insert(w V, left int) {
	bits := vT + 1
	switch {
	case left > 0:
		m.Shift("shl.16b", bits, vT, left)
	case left < 0:
		m.Shift("ushr.16b", bits, vT, -left)
	default:
		bits = vT
	}
	m.V("bit.16b", w, bits, vMask2)
}
