package main

import "github.com/mmcloughlin/avo/reg"

// groupHalves adds 32 columns of a type with a scale for every 16. The result
// of the first half is kept in memory.
func (m *mat2) groupHalves() {
	for h := range 2 {
		m.dots(4*h, 4*h+4)
		m.offsetHalf(h)
		slot := 0
		m.eachUnit(func(half int) { m.halfScale(h, half, m.d) }, func(u unit2) {
			m.VCVTDQ2PS(u.sum, u.sum)
			first := m.loc.Offset(m.frame() + 32*slot)
			slot++
			if h == 0 {
				m.VMULPS(m.d, u.sum, u.sum)
				m.VMOVUPS(u.sum, first)
				return
			}
			m.VMOVUPS(first, m.t)
			m.VFMADD213PS(m.t, m.d, u.sum)
		})
	}
	if m.mins {
		m.minHalves()
	}
	for _, u := range m.units {
		m.VBROADCASTSS(m.col.at(u.col, actD), m.t)
		m.VFMADD231PS(m.t, u.sum, u.acc)
	}
}

// offsetHalf subtracts the codes' offset, times the sum of the activations of
// half h, from the sums.
func (m *mat2) offsetHalf(h int) {
	if m.shift == 0 {
		return
	}
	for _, u := range m.units {
		m.VPBROADCASTD(m.col.at(u.col, actOff+4*h), m.t)
		switch {
		case m.shift < 5:
			m.VPSRAD(imm(5-m.shift), m.t, m.t)
		case m.shift > 5:
			m.VPSLLD(imm(m.shift-5), m.t, m.t)
		}
		m.VPADDD(m.t, u.sum, u.sum)
	}
}

// halfScale loads the scale of half h of the group for 8 rows.
func (m *mat2) halfScale(h, half int, dst reg.Register) {
	if m.scale != scale4x2 {
		m.byteScale(m.VPMOVSXBD, at(reg.R15, 16*h+8*half), locD+32*half, dst)
		return
	}
	m.VPMOVZXBD(at(reg.R15, 16*h+8*half), dst)
	m.VPAND(m.fill("fifteen", 15), dst, dst)
	m.VCVTDQ2PS(dst, dst)
	m.VMULPS(m.loc.Offset(locD+32*half), dst, dst)
}

// minHalves subtracts the minima. The stored sums of activations are negative
// and 32 times too large, and dmin is 32 times too small.
func (m *mat2) minHalves() {
	for h := range 2 {
		m.eachUnit(func(half int) {
			m.VPMOVZXBD(at(reg.R15, 16*h+8*half), m.d)
			m.VPSRLD(imm(4), m.d, m.d)
			m.VCVTDQ2PS(m.d, m.d)
			m.VMULPS(m.loc.Offset(locMin+32*half), m.d, m.d)
		}, func(u unit2) {
			m.VPBROADCASTD(m.col.at(u.col, actOff+4*h), m.t)
			m.VCVTDQ2PS(m.t, m.t)
			m.VFMADD231PS(m.t, m.d, u.sum)
		})
	}
}
