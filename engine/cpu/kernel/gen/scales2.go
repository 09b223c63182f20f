package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// frame returns the size of the local memory of the scales. Types with halves
// need one more sum per unit.
func (m *mat2) frame() int {
	switch m.scale {
	case scale6x2:
		return locBytes + 256
	case scale6:
		return locBytes + 256
	case scaleXS:
		return locBytes + 128
	case scale4x2, scaleI8:
		return locBytes
	case scaleGrid:
		return locBytes + 32
	}
	return 0
}

func (m *mat2) stack() int {
	if m.halves {
		return m.frame() + 6*32
	}
	return m.frame()
}

func (m *mat2) half16(src, dst int) {
	for h := range 2 {
		m.VCVTPH2PS(at(reg.RSI, src+16*h), m.d)
		m.VMOVUPS(m.d, m.loc.Offset(dst+32*h))
	}
}

// superScales prepares a block of 256 columns; R15 points at the byte scales of its first group.
func (m *mat2) superScales() {
	if m.scale == scaleGrid {
		for h := range 2 {
			m.VMOVUPS(at(reg.RSI, 16+32*h), m.d)
			m.VMOVUPS(m.d, m.loc.Offset(locD+32*h))
		}
		m.VMOVDQU(at(reg.RSI, 0), reg.X12)
		m.VMOVDQU(reg.X12, m.loc.Offset(locBytes))
		m.LEAQ(at(reg.RSI, 80), reg.R15)
		return
	}
	m.half16(0, locD)
	switch m.scale {
	case scale6x2:
		m.half16(32, locMin)
		m.scales6x2()
		m.LEAQ(m.loc.Offset(locBytes), reg.R15)
	case scaleI8:
		m.LEAQ(at(reg.RSI, 32), reg.R15)
	case scale4x2:
		m.half16(32, locMin)
		for h := range 2 {
			m.VMOVUPS(m.loc.Offset(locMin+32*h), m.d)
			m.VMULPS(m.fill("by32", 0x3d000000), m.d, m.d)
			m.VMOVUPS(m.d, m.loc.Offset(locMin+32*h))
		}
		m.LEAQ(at(reg.RSI, 64), reg.R15)
	case scale6:
		m.scales6()
		m.LEAQ(m.loc.Offset(locBytes), reg.R15)
	case scaleXS:
		m.scalesXS()
		m.LEAQ(m.loc.Offset(locBytes), reg.R15)
	}
}

func (m *mat2) nextScales() {
	switch m.scale {
	case scale6x2, scaleXS:
		m.ADDQ(imm(16), reg.R15)
	case scaleI8, scale6, scale4x2, scaleGrid:
		m.ADDQ(imm(32), reg.R15)
	}
}

// groupScales loads the scale of 32 columns into d and its minimum into w2, for 8 rows.
func (m *mat2) groupScales(rows int) {
	switch m.scale {
	case scaleF16:
		m.VCVTPH2PS(at(reg.RSI, 16*rows), m.d)
		if m.mins {
			m.VCVTPH2PS(at(reg.RSI, 32+16*rows), m.w2)
		}
	case scaleE8:
		// This is halfE8M0: the larger of (e-1)<<23 and 0x00200000<<min(e, 1).
		m.VPMOVZXBD(at(reg.RSI, 8*rows), m.d)
		m.VPMINUD(m.fill("one", 1), m.d, m.w)
		m.VMOVDQU(m.fill("tiny", 0x00200000), m.w2)
		m.VPSLLVD(m.w, m.w2, m.w2)
		m.VPSLLD(imm(23), m.d, m.d)
		m.VPSUBD(m.fill("step", 0x00800000), m.d, m.d)
		m.VPMAXSD(m.w2, m.d, m.d)
	case scale6x2:
		m.byteScale(m.VPMOVZXBD, at(reg.R15, 8*rows), locD+32*rows, m.d)
		m.byteScale(m.VPMOVZXBD, at(reg.R15, 128+8*rows), locMin+32*rows, m.w2)
	case scaleXS:
		m.byteScale(m.VPMOVSXBD, at(reg.R15, 8*rows), locD+32*rows, m.d)
	}
}

func (m *mat2) byteScale(widen func(...Op), src Mem, super int, dst reg.Register) {
	widen(src, dst)
	m.VCVTDQ2PS(dst, dst)
	m.VMULPS(m.loc.Offset(super), dst, dst)
}

// pick loads 32 bytes, shifts them right (left if negative) and masks them.
func (m *mat2) pick(src, right int, mask Mem, dst reg.Register) {
	m.VMOVDQU(at(reg.RSI, src), dst)
	if right > 0 {
		m.VPSRLW(imm(right), dst, dst)
	} else if right < 0 {
		m.VPSLLW(imm(-right), dst, dst)
	}
	m.VPAND(mask, dst, dst)
}

// The three functions below do the same as their AVX-512 counterparts, 32 bytes
// at a time.

func (m *mat2) scales6x2() {
	low, top := m.fill("mask0f", 0x0f0f0f0f), m.fill("mask30", 0x30303030)
	for i := range 2 {
		for h := 0; h < 64; h += 32 {
			m.pick(64+64*i+h, 0, m.fill("mask3f", 0x3f3f3f3f), m.w)
			m.VMOVDQU(m.w, m.loc.Offset(locBytes+128*i+h))
			m.pick(64+64*i+h, 2, top, m.w)
			m.pick(192+h, 4*i, low, m.w2)
			m.VPOR(m.w, m.w2, m.w)
			m.VMOVDQU(m.w, m.loc.Offset(locBytes+128*i+64+h))
		}
	}
}

func (m *mat2) scales6() {
	low, top := m.fill("mask0f", 0x0f0f0f0f), m.fill("mask30", 0x30303030)
	for q := range 4 {
		for h := 0; h < 64; h += 32 {
			m.pick(32+64*(q%2)+h, 4*(q/2), low, m.w)
			m.pick(160+h, 2*q-4, top, m.w2)
			m.VPOR(m.w, m.w2, m.w)
			m.VPSUBB(m.fill("off20", 0x20202020), m.w, m.w)
			m.VMOVDQU(m.w, m.loc.Offset(locBytes+64*q+h))
		}
	}
}

func (m *mat2) scalesXS() {
	for s := range 8 {
		w, w2 := reg.X12, reg.X14
		m.VMOVDQU(at(reg.RSI, 32+16*(s/2)), w)
		if s%2 == 1 {
			m.VPSRLW(imm(4), w, w)
		}
		m.VPAND(m.fill("mask0f", 0x0f0f0f0f), w, w)
		m.VMOVDQU(at(reg.RSI, 96+16*(s/4)), w2)
		switch s % 4 {
		case 0:
			m.VPSLLW(imm(4), w2, w2)
		case 1:
			m.VPSLLW(imm(2), w2, w2)
		case 3:
			m.VPSRLW(imm(2), w2, w2)
		}
		m.VPAND(m.fill("mask30", 0x30303030), w2, w2)
		m.VPOR(w, w2, w)
		m.VPSUBB(m.fill("off20", 0x20202020), w, w)
		m.VMOVDQU(w, m.loc.Offset(locBytes+16*s))
	}
}
