package main

import . "godwit/engine/cpu/neon"

// The functions in this file use the registers of the codes as scratch, because
// codes are decoded later.

// wideHalf leaves 16 float16 at src as float32 at dst in local memory.
func (m *mat) wideHalf(src, dst int) {
	for i := range 2 {
		m.Load(vW, R1, src+16*i)
		m.N("fcvtl", vW+1, vW)
		m.N("fcvtl2", vW+2, vW)
		m.StorePair(vW+1, vW+2, R15, dst+32*i)
	}
}

// superScales prepares a block of 256 columns; R22 points at the byte scales of its first group.
func (m *mat) superScales() {
	if m.scale == scaleGrid {
		m.gridTable()
		return
	}
	m.wideHalf(0, locD)
	switch m.scale {
	case scale6x2:
		m.wideHalf(32, locMin)
		m.scales6x2()
	case scaleI8:
		m.Op("ADD $32, R1, R22")
		return
	case scale4x2:
		m.wideHalf(32, locMin)
		m.Fill(vW+2, 0x3d000000, R19) // 1/32
		for i := range 4 {
			m.Load(vW, R15, locMin+16*i)
			m.V("fmul.4s", vW, vW, vW+2)
			m.Store(vW, R15, locMin+16*i)
		}
		m.Op("ADD $64, R1, R22")
		return
	case scale6:
		m.scales6()
	case scaleXS:
		m.scalesXS()
	}
	m.Op("ADD $%d, R15, R22", locBytes)
}

// gridTable loads the levels of a block and moves the units of its rows.
func (m *mat) gridTable() {
	m.Load(vMask2, R1, 0)
	m.Fill(vW, 0x40404040, R19)
	m.V("sub.16b", vMask2, vMask2, vW)
	for i := range 4 {
		m.Load(vW, R1, 16+16*i)
		m.Store(vW, R15, locD+16*i)
	}
	m.Op("ADD $80, R1, R22")
}

// scaleStep returns the stride of the byte scales of groups.
func (m *mat) scaleStep() int {
	if m.halves {
		return 32
	}
	return 16
}

// quarterStep returns the stride of the scales of quarters.
func (m *mat) quarterStep() int {
	if m.scale == scaleF16 {
		return 8
	}
	return 4
}

// groupScales loads the scale of a quarter into vD and its minimum into vM.
// With halves it loads two scales, into vD and the next register, and two
// minima, into vMin and the next register.
func (m *mat) groupScales() {
	switch m.scale {
	case scaleF16:
		m.LoadHalf(vD, R13, 0)
		m.N("fcvtl", vD, vD)
		if m.mins {
			m.LoadHalf(vM, R13, 32)
			m.N("fcvtl", vM, vM)
		}
	case scaleE8:
		m.scaleE8()
	case scale6x2:
		m.byteScale(vD, false, 0, locD)
		m.byteScale(vM, false, 128, locMin)
	case scaleXS:
		m.byteScale(vD, true, 0, locD)
	case scaleI8, scale6, scaleGrid:
		m.byteScale(vD, true, 0, locD)
		m.byteScale(vD+1, true, 16, locD)
	case scale4x2:
		m.scales4x2()
	}
}

// widen widens four bytes to words.
func (m *mat) widen(v V, signed bool) {
	if signed {
		m.Shift("sshll", v, v, 0)
		m.Shift("sshll.4s", v, v, 0)
	} else {
		m.Shift("ushll", v, v, 0)
		m.Shift("ushll.4s", v, v, 0)
	}
}

// byteScale multiplies four byte scales of the group by four floats of the
// block.
func (m *mat) byteScale(dst V, signed bool, off, super int) {
	m.LoadQuarter(dst, R13, off)
	m.Load(vW, R14, super)
	m.widen(dst, signed)
	m.N("scvtf.4s", dst, dst)
	m.V("fmul.4s", dst, dst, vW)
}

// scales4x2 splits bytes into scales (low) and minima. For the minima, the
// stored sums of activations are negative and 32 times too large, and dmin is
// 32 times too small.
func (m *mat) scales4x2() {
	m.Load(vW, R14, locD)
	m.Load(vW+1, R14, locMin)
	m.Fill(vW+2, 15, R19)
	for h := range V(2) {
		d, low := vD+h, vMin+h
		m.LoadQuarter(d, R13, 16*int(h))
		m.widen(d, false)
		m.Shift("ushr.4s", low, d, 4)
		m.V("and.16b", d, d, vW+2)
		m.N("scvtf.4s", d, d)
		m.V("fmul.4s", d, d, vW)
		m.N("scvtf.4s", low, low)
		m.V("fmul.4s", low, low, vW+1)
	}
}

// scaleE8 computes halfE8M0: the larger of (e-1)<<23 and 0x00200000<<min(e, 1).
func (m *mat) scaleE8() {
	m.LoadQuarter(vD, R13, 0)
	m.widen(vD, false)
	m.Fill(vW, 1, R19)
	m.V("umin.4s", vW, vD, vW)
	m.Fill(vW+1, 0x00200000, R19)
	m.V("ushl.4s", vW, vW+1, vW)
	m.Shift("shl.4s", vD, vD, 23)
	m.Fill(vW+1, 0x00800000, R19)
	m.V("sub.4s", vD, vD, vW+1)
	m.V("smax.4s", vD, vD, vW)
}

// scales6x2 unpacks 12 bytes per row to eight scales and eight minima of 6
// bits.
func (m *mat) scales6x2() {
	low, top, six := vW+4, vW+5, vW+6
	m.Fill(low, 0x0f0f0f0f, R19)
	m.Fill(top, 0x30303030, R19)
	m.Fill(six, 0x3f3f3f3f, R19)
	for i := range 4 {
		m.Load(vW+2, R1, 192+16*i)
		for k := range 2 {
			to := locBytes + 128*k + 16*i
			m.Load(vW, R1, 64+64*k+16*i)
			m.V("and.16b", vW+1, vW, six)
			m.Store(vW+1, R15, to)
			m.Shift("ushr.16b", vW, vW, 2)
			if k == 0 {
				m.V("and.16b", vW+1, vW+2, low)
			} else {
				m.Shift("ushr.16b", vW+1, vW+2, 4)
			}
			m.V("bit.16b", vW+1, vW, top)
			m.Store(vW+1, R15, to+64)
		}
	}
}

// pick combines four bits of the byte at lo, starting at bit shift, with two
// bits of the byte at hi, starting at bit 2·pair, as its upper bits. It
// subtracts 32.
func (m *mat) pick(lo, shift, hi, pair, to int) {
	low, top, off := vW+4, vW+5, vW+6
	m.Load(vW, R1, lo)
	m.Load(vW+1, R1, hi)
	if shift > 0 {
		m.Shift("ushr.16b", vW, vW, shift)
	} else {
		m.V("and.16b", vW, vW, low)
	}
	if left := 4 - 2*pair; left > 0 {
		m.Shift("shl.16b", vW+1, vW+1, left)
	} else if left < 0 {
		m.Shift("ushr.16b", vW+1, vW+1, -left)
	}
	m.V("bit.16b", vW, vW+1, top)
	m.V("sub.16b", vW, vW, off)
	m.Store(vW, R15, to)
}

func (m *mat) pickConstants() {
	m.Fill(vW+4, 0x0f0f0f0f, R19)
	m.Fill(vW+5, 0x30303030, R19)
	m.Fill(vW+6, 0x20202020, R19)
}

// scales6 unpacks the 16 scales of Q3_K.
func (m *mat) scales6() {
	m.pickConstants()
	for k := range 16 {
		m.pick(32+16*(k%8), 4*(k/8), 160+16*(k%4), k/4, locBytes+16*k)
	}
}

// scalesXS unpacks the eight scales of IQ4_XS.
func (m *mat) scalesXS() {
	m.pickConstants()
	for k := range 8 {
		m.pick(32+16*(k/2), 4*(k%2), 96+16*(k/4), k%4, locBytes+16*k)
	}
}
