package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The types with a byte-sized scale for every 16 columns: Q2_K, Q3_K, Q6_K, and
// those of form_grid.go. Their kernels compute at most eight results at once,
// so that the sums of the two halves have separate registers: Z8 to Z15 and Z16
// to Z23.

func (m *mat512) halfSums(h int) [][]reg.Register {
	var sums [][]reg.Register
	for p := range m.panels {
		i := 8 + 8*h + p*m.n
		sums = append(sums, zs[i:i+m.n])
	}
	return sums
}

// groupHalves adds 32 columns.
func (m *mat512) groupHalves() {
	for h := range 2 {
		sums := m.halfSums(h)
		for c := range m.n {
			m.start(c, sums, func(r reg.Register) {
				off := m.col.at(c, actOff+4*h)
				switch {
				case m.shift == 5:
					m.VPBROADCASTD(off, r)
				case m.shift > 5:
					m.VPSLLD_BCST(imm(m.shift-5), off, r)
				default:
					m.VPSRAD_BCST(imm(5-m.shift), off, r)
				}
			})
		}
		m.dots(4*h, 4*h+4, sums, zs[8+8*h+m.panels*m.n:16+8*h])
		for p, sum := range sums {
			m.halfScale(p, h, m.w[p])
			for c, r := range sum {
				m.VCVTDQ2PS(r, r)
				if h == 0 {
					m.VMULPS(m.w[p], r, r)
				} else {
					m.VFMADD231PS(m.w[p], r, m.halfSums(0)[p][c])
				}
			}
		}
	}
	lo := m.halfSums(0)
	if m.mins {
		m.minHalves(lo)
	}
	for c := range m.n {
		m.addProduct(c, actD, m.VFMADD231PS, m.VFMADD231PS_BCST, lo[0][c], lo[len(lo)-1][c])
	}
}

// halfScale loads the scale of half h of a group.
func (m *mat512) halfScale(p, h int, dst reg.Register) {
	if m.scale != scale4x2 {
		m.byteScale(m.VPMOVSXBD, m.scaleAt(p, 16*h), m.local(p, locD), dst)
		return
	}
	m.VPMOVZXBD(m.scaleAt(p, 16*h), dst)
	m.VPANDD_BCST(m.word("fifteen", 15), dst, dst)
	m.VCVTDQ2PS(dst, dst)
	m.VMULPS(m.local(p, locD), dst, dst)
}

// minHalves subtracts the minima. The stored sums of activations are negative
// and 32 times too large, and dmin is 32 times too small.
func (m *mat512) minHalves(sums [][]reg.Register) {
	for h := range 2 {
		for p := range m.panels {
			m.VPMOVZXBD(m.scaleAt(p, 16*h), m.w[p])
			m.VPSRLD(imm(4), m.w[p], m.w[p])
			m.VCVTDQ2PS(m.w[p], m.w[p])
			m.VMULPS(m.local(p, locMin), m.w[p], m.w[p])
		}
		for c := range m.n {
			m.VCVTDQ2PS_BCST(m.col.at(c, actOff+4*h), m.x)
			for p, sum := range sums {
				m.VFMADD231PS(m.w[p], m.x, sum[c])
			}
		}
	}
}

// sixth leaves step k of 6-bit codes in w[p]. Three chunks hold one step each
// in their low bits. Their top bits, gathered along the way, are the fourth
// step.
func (m *mat512) sixth(k int, src Mem, p int) {
	w, top := m.w[p], []reg.Register{m.mask, m.special}[p]
	low := m.word("mask3f", 0x3f3f3f3f)
	if k%4 < 3 {
		m.VMOVDQU64(src, w)
	}
	switch k % 4 {
	case 0:
		m.VPSRLW(imm(2), w, top)
	case 1:
		m.VPSRLW(imm(4), w, m.t)
		m.VPTERNLOGD_BCST(imm(0xe4), m.word("mask30", 0x30303030), m.t, top)
	case 2:
		m.VPSRLW(imm(6), w, m.t)
		m.VPTERNLOGD_BCST(imm(0xe4), m.word("mask3c", 0x3c3c3c3c), m.t, top)
	case 3:
		m.VPANDD_BCST(low, top, w)
		return
	}
	m.VPANDD_BCST(low, w, w)
}
