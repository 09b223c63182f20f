package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The local memory of a panel: d and dmin of a block of 256 columns as float32,
// then its unpacked scales.
const (
	locD     = 0
	locMin   = 64
	locBytes = 128
)

// frame returns the size of the local memory of one panel.
func (m *mat512) frame() int {
	switch m.scale {
	case scale6x2, scale6:
		return locBytes + 256
	case scaleXS:
		return locBytes + 128
	case scale4x2, scaleI8, scaleGrid:
		return locBytes
	}
	return 0
}

func (m *mat512) stack() int { return m.panels * m.frame() }

// local addresses the local memory of panel p.
func (m *mat512) local(p, off int) Mem { return m.loc.Offset(p*m.frame() + off) }

// scaleAt addresses the scales of the current group of panel p.
func (m *mat512) scaleAt(p, disp int) Mem {
	switch {
	case p == 0:
		return at(reg.R15, disp)
	case m.scale == scaleI8 || m.scale == scale4x2 || m.scale == scaleGrid:
		return mem(reg.R15, reg.R13, 1, disp)
	}
	return at(reg.R15, m.frame()+disp)
}

// superScales prepares the scales of a block of 256 columns; R15 then points at
// the scales of the first group.
func (m *mat512) superScales() {
	for p := range m.panels {
		if m.scale == scaleGrid {
			m.VMOVUPS(m.at(p, 16), m.t)
		} else {
			m.VCVTPH2PS(m.at(p, 0), m.t)
		}
		m.VMOVUPS(m.t, m.local(p, locD))
		switch m.scale {
		case scale6x2:
			m.VCVTPH2PS(m.at(p, 32), m.t)
			m.VMOVUPS(m.t, m.local(p, locMin))
			m.scales6x2(p)
		case scale4x2:
			m.VCVTPH2PS(m.at(p, 32), m.t)
			m.VMULPS_BCST(m.word("by32", 0x3d000000), m.t, m.t)
			m.VMOVUPS(m.t, m.local(p, locMin))
		case scale6:
			m.scales6(p)
		case scaleXS:
			m.scalesXS(p)
		}
	}
	switch m.scale {
	case scaleI8:
		m.LEAQ(at(reg.RSI, 32), reg.R15)
	case scale4x2:
		m.LEAQ(at(reg.RSI, 64), reg.R15)
	case scaleGrid:
		m.VBROADCASTI32X4(at(reg.RSI, 0), m.special) // for both panels
		m.LEAQ(at(reg.RSI, 80), reg.R15)
	default:
		m.LEAQ(m.local(0, locBytes), reg.R15)
	}
}

// nextScales advances to the next group.
func (m *mat512) nextScales() {
	switch m.scale {
	case scale6x2, scaleXS:
		m.ADDQ(imm(16), reg.R15)
	case scaleI8, scale6, scale4x2, scaleGrid:
		m.ADDQ(imm(32), reg.R15)
	}
}

// groupScales loads the scale of 32 columns into odd[p].
func (m *mat512) groupScales(p int) {
	d := m.odd[p]
	switch m.scale {
	case scaleF16:
		m.VCVTPH2PS(m.at(p, 0), d)
	case scaleE8:
		m.scalesE8(p)
	case scale6x2:
		m.byteScale(m.VPMOVZXBD, m.scaleAt(p, 0), m.local(p, locD), d)
	case scaleXS:
		m.byteScale(m.VPMOVSXBD, m.scaleAt(p, 0), m.local(p, locD), d)
	}
}

// groupMin loads the minimum of a group into w[p].
func (m *mat512) groupMin(p int) {
	if m.scale == scaleF16 {
		m.VCVTPH2PS(m.at(p, 32), m.w[p])
		return
	}
	m.byteScale(m.VPMOVZXBD, m.scaleAt(p, 128), m.local(p, locMin), m.w[p])
}

func (m *mat512) byteScale(widen func(...Op), src, super Mem, dst reg.Register) {
	widen(src, dst)
	m.VCVTDQ2PS(dst, dst)
	m.VMULPS(super, dst, dst)
}

// scalesE8 computes halfE8M0: the larger of (e-1)<<23 and 0x00200000<<min(e,
// 1).
func (m *mat512) scalesE8(p int) {
	d, w := m.odd[p], m.w[p]
	m.VPMOVZXBD(m.at(p, 0), d)
	m.VPMINUD_BCST(m.word("one", 1), d, w)
	m.VPBROADCASTD(m.word("tiny", 0x00200000), m.t)
	m.VPSLLVD(w, m.t, w)
	m.VPSLLD(imm(23), d, d)
	m.VPSUBD_BCST(m.word("step", 0x00800000), d, d)
	m.VPMAXSD(w, d, d)
}

// pick loads a vector of bytes, shifts them right (left if negative) and masks them.
func (m *mat512) pick(src Mem, right int, mask Mem, dst reg.Register) {
	switch {
	case right > 0:
		m.VPSRLW(imm(right), src, dst)
	case right < 0:
		m.VPSLLW(imm(-right), src, dst)
	default:
		m.VMOVDQU64(src, dst)
	}
	m.VPANDD_BCST(mask, dst, dst)
}

// scales6x2 unpacks eight 6-bit scales and minima from 12 bytes. In the file,
// bytes 0 to 3 hold scales 0 to 3 and the top bits of scales 4 to 7. Bytes 4 to
// 7 hold the same for the minima. Bytes 8 to 11 hold the low nibbles of scales
// and minima 4 to 7.
func (m *mat512) scales6x2(p int) {
	for i := range 2 {
		src := m.at(p, 64+64*i)
		m.pick(src, 0, m.word("mask3f", 0x3f3f3f3f), m.t)
		m.VMOVDQU64(m.t, m.local(p, locBytes+128*i))
		m.pick(src, 2, m.word("mask30", 0x30303030), m.t)
		m.pick(m.at(p, 192), 4*i, m.word("mask0f", 0x0f0f0f0f), m.x)
		m.VPORD(m.t, m.x, m.x)
		m.VMOVDQU64(m.x, m.local(p, locBytes+128*i+64))
	}
}

// scales6 unpacks sixteen 6-bit scales and subtracts 32. Byte i of the first
// eight holds the low nibbles of scales i and i+8. Byte 8+i holds the top bits
// of scales i, i+4, i+8 and i+12.
func (m *mat512) scales6(p int) {
	m.VPBROADCASTD(m.word("off20", 0x20202020), m.odd[0])
	for q := range 4 {
		m.pick(m.at(p, 32+64*(q%2)), q/2*4, m.word("mask0f", 0x0f0f0f0f), m.t)
		m.pick(m.at(p, 160), 2*q-4, m.word("mask30", 0x30303030), m.x)
		m.VPORD(m.t, m.x, m.x)
		m.VPSUBB(m.odd[0], m.x, m.x)
		m.VMOVDQU64(m.x, m.local(p, locBytes+64*q))
	}
}

// scalesXS unpacks eight 6-bit scales and subtracts 32. Byte j of the first four holds the low
// nibbles of scales 2j and 2j+1. Byte j of two more holds the top bits of scales 4j to 4j+3.
func (m *mat512) scalesXS(p int) {
	a, b := reg.X26, reg.X27
	m.VPBROADCASTD(m.word("off20", 0x20202020), reg.X30)
	for s := range 8 {
		m.pick(m.at(p, 32+16*(s/2)), s%2*4, m.word("mask0f", 0x0f0f0f0f), a)
		m.pick(m.at(p, 96+16*(s/4)), s%4*2-4, m.word("mask30", 0x30303030), b)
		m.VPORD(a, b, a)
		m.VPSUBB(reg.X30, a, a)
		m.VMOVDQU64(a, m.local(p, locBytes+16*s))
	}
}
