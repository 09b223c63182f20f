package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// stack is the local memory that the byte scales of a block take once unpacked.
func (m *mat512) stack() int {
	switch m.scale {
	case scale6x2:
		return 128 + 128 + 64 // scales, minima, dmin
	case scale6:
		return 256
	case scaleXS:
		return 8 * 64 // float32
	case scale4x2:
		return 64 // dmin
	}
	return 0
}

// blockScales loads the scales of a block of 32 columns.
func (m *mat512) blockScales() {
	if m.scale == scaleE8 {
		// As halfE8M0: the larger of (e-1)<<23 and 0x00200000<<min(e, 1).
		m.VPMOVZXBD(at(reg.RSI, 0), m.d)
		m.VPMINUD_BCST(m.word("one", 1), m.d, m.w)
		m.VPBROADCASTD(m.word("tiny", 0x00200000), m.w2)
		m.VPSLLVD(m.w, m.w2, m.w2)
		m.VPSLLD(imm(23), m.d, m.d)
		m.VPSUBD_BCST(m.word("step", 0x00800000), m.d, m.d)
		m.VPMAXSD(m.w2, m.d, m.d)
		return
	}
	m.VCVTPH2PS(at(reg.RSI, 0), m.d)
	if m.mins {
		m.VCVTPH2PS(at(reg.RSI, 32), m.min)
	}
}

// superScales prepares the scales of a block of 256 columns: super holds d,
// R15 points at the scales of the first group.
func (m *mat512) superScales() {
	stack := m.local
	m.VCVTPH2PS(at(reg.RSI, 0), m.super)
	switch m.scale {
	case scale6x2:
		m.scales6x2()
		m.LEAQ(stack, reg.R15)
	case scaleI8:
		m.LEAQ(at(reg.RSI, 32), reg.R15)
	case scale4x2:
		m.VCVTPH2PS(at(reg.RSI, 32), m.w)
		m.VMOVUPS(m.w, stack)
		m.LEAQ(at(reg.RSI, 64), reg.R15)
	case scale6:
		m.scales6()
		m.LEAQ(stack, reg.R15)
	case scaleXS:
		m.scalesXS()
		m.LEAQ(stack, reg.R15)
	}
}

// groupScales loads the scale of half a group into d and, with the first half, its minima.
func (m *mat512) groupScales(half int) {
	if m.subs == 1 {
		return
	}
	switch m.scale {
	case scale6x2:
		m.byteScale(m.VPMOVZXBD, at(reg.R15, 0), m.super, m.d)
		m.VPMOVZXBD(at(reg.R15, 128), m.min)
		m.VCVTDQ2PS(m.min, m.min)
		m.VMULPS(m.local.Offset(256), m.min, m.min)
	case scaleI8, scale6:
		m.byteScale(m.VPMOVSXBD, at(reg.R15, 16*half), m.super, m.d)
	case scale4x2:
		m.scales4x2(half)
	case scaleXS:
		m.VMOVUPS(at(reg.R15, 0), m.d)
	}
}

// nextScales moves on to the next group.
func (m *mat512) nextScales() {
	switch m.scale {
	case scale6x2:
		m.ADDQ(imm(16), reg.R15)
	case scaleI8, scale6, scale4x2:
		m.ADDQ(imm(32), reg.R15)
	case scaleXS:
		m.ADDQ(imm(64), reg.R15)
	}
}

func (m *mat512) byteScale(widen func(...Op), src Mem, super, dst reg.Register) {
	widen(src, dst)
	m.VCVTDQ2PS(dst, dst)
	m.VMULPS(super, dst, dst)
}

// scales4x2 takes scale and minimum from the nibbles of a byte.
func (m *mat512) scales4x2(half int) {
	min := m.min
	if half == 1 {
		min = m.min1
	}
	m.VPMOVZXBD(at(reg.R15, 16*half), min)
	m.VPSLLD(imm(28), min, m.d)
	m.VPSRLD(imm(28), m.d, m.d)
	m.VPSRLD(imm(4), min, min)
	m.VCVTDQ2PS(m.d, m.d)
	m.VCVTDQ2PS(min, min)
	m.VMULPS(m.super, m.d, m.d)
	m.VMULPS(m.local, min, min)
}

// scales6x2 unpacks eight 6-bit scales and minima from 12 bytes: in the file's
// terms, bytes 0 to 3 hold scales 0 to 3 and the top bits of scales 4 to 7,
// bytes 4 to 7 the same for the minima, bytes 8 to 11 the low nibbles of 4 to 7.
func (m *mat512) scales6x2() {
	a, b := m.w, m.w2
	low, top, t := m.d, m.min, m.bits
	m.VCVTPH2PS(at(reg.RSI, 32), a)
	m.VMOVUPS(a, m.local.Offset(256))
	m.VPBROADCASTD(m.word("mask0f", 0x0f0f0f0f), low)
	m.VPBROADCASTD(m.word("mask30", 0x30303030), top)
	for i := range 2 {
		// w: bytes 0-3 or 4-7; the first four of the kind are their low six bits.
		m.VMOVDQU64(at(reg.RSI, 64+64*i), a)
		m.VPANDD_BCST(m.word("mask3f", 0x3f3f3f3f), a, t)
		m.VMOVDQU64(t, m.local.Offset(128*i))
		m.VPSRLW(imm(2), a, a)
		m.VPANDD(a, top, a)
		if i == 0 {
			m.VPANDD(at(reg.RSI, 192), low, b)
		} else {
			m.VPSRLW(imm(4), at(reg.RSI, 192), b)
			m.VPANDD(b, low, b)
		}
		m.VPORD(a, b, b)
		m.VMOVDQU64(b, m.local.Offset(128*i+64))
	}
}

// scales6 unpacks sixteen 6-bit scales less 32: byte i of the first eight
// holds the low nibbles of i and i+8, byte 8+i the top bits of i, i+4, i+8, i+12.
func (m *mat512) scales6() {
	a, b := m.w, m.w2
	low, top, off := m.d, m.min, m.sum[0]
	m.VPBROADCASTD(m.word("mask0f", 0x0f0f0f0f), low)
	m.VPBROADCASTD(m.word("mask30", 0x30303030), top)
	m.VPBROADCASTD(m.word("off20", 0x20202020), off)
	for q := range 4 {
		src := at(reg.RSI, 32+64*(q%2))
		if q < 2 {
			m.VPANDD(src, low, a)
		} else {
			m.VPSRLW(imm(4), src, a)
			m.VPANDD(a, low, a)
		}
		src = at(reg.RSI, 160)
		switch {
		case q < 2:
			m.VPSLLW(imm(4-2*q), src, b)
		case q == 2:
			m.VMOVDQU64(src, b)
		default:
			m.VPSRLW(imm(2), src, b)
		}
		m.VPTERNLOGD(imm(0xf8), top, b, a)
		m.VPSUBB(off, a, a)
		m.VMOVDQU64(a, m.local.Offset(64*q))
	}
}

// scalesXS unpacks eight 6-bit scales less 32 to float32: byte j of four holds the low
// nibbles of 2j and 2j+1, byte j of two more the top bits of 4j to 4j+3.
func (m *mat512) scalesXS() {
	a, b := m.w, m.w2
	for s := range 8 {
		m.VPMOVZXBD(at(reg.RSI, 32+16*(s/2)), a)
		m.VPSLLD(imm(28-4*(s%2)), a, a)
		m.VPSRLD(imm(28), a, a)
		m.VPMOVZXBD(at(reg.RSI, 96+16*(s/4)), b)
		m.VPSLLD(imm(30-2*(s%4)), b, b)
		m.VPSRLD(imm(30), b, b)
		m.VPSLLD(imm(4), b, b)
		m.VPORD(a, b, a)
		m.VPSUBD_BCST(m.word("thirtyTwo", 32), a, a)
		m.VCVTDQ2PS(a, a)
		m.VMULPS(m.super, a, a)
		m.VMOVUPS(a, m.local.Offset(64*s))
	}
}
