package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var shapes2 = []shape{{1, 1}, {1, 2}, {1, 3}, {1, 4}}

// mat2 emits one AVX2 kernel. Up to three rows of activations multiply 16 rows
// of weights at once. Four rows multiply 8, the lower half of the panel first.
// Constants and scales stay in memory because the sums need the registers.
type mat2 struct {
	*asm
	form
	n    int
	col  strided
	off  int // offset of the group from SI
	rows []int
	loc  Mem

	units       []unit2
	w, t, w2, d reg.Register
}

// unit2 is 8 rows by one row of activations.
type unit2 struct {
	half, col int
	acc, sum  reg.Register
}

func matrix2(a *asm) {
	for _, f := range formList {
		for _, s := range shapes2 {
			m := &mat2{asm: a, form: f, n: s.n, w: ys[12], t: ys[13], w2: ys[14], d: ys[15]}
			m.emit()
		}
	}
}

func (m *mat2) emit() {
	m.fn(tileName(m.form, shape{1, m.n}, "AVX2"), matSig, "multiplies panels of "+m.name+" by "+itoa(m.n)+" rows of activations; ldy and lda are in bytes. "+fetchDoc)
	if n := m.stack(); n > 0 {
		m.loc = m.AllocLocal(n)
	}
	m.ld("y", reg.RDI)
	m.ld("w", reg.RSI)
	m.ld("a", reg.RDX)
	m.ld("lda", reg.R8)
	m.col = m.strides(m.n)
	m.ld("blocks", reg.R11)
	m.IMUL3Q(I32(int32(m.blk)), reg.R11, reg.R11)
	m.IMULQ(m.arg("fetch"), reg.R11)
	m.LEAQ(mem(reg.RSI, reg.R11, 1, -m.grp), reg.R11)
	panel := m.label("panel")
	m.Label(panel)
	m.MOVQ(reg.RSI, reg.R10)
	if m.n < 4 {
		m.pass(0, 1)
	} else {
		m.pass(0)
		m.MOVQ(reg.R10, reg.RSI)
		m.pass(1)
	}
	m.ld("blocks", reg.RSI)
	m.IMUL3Q(I32(int32(m.blk)), reg.RSI, reg.RSI)
	m.ADDQ(reg.R10, reg.RSI)
	m.ADDQ(imm(64), reg.RDI)
	m.DECQ(m.arg("panels"))
	m.JNZ(LabelRef(panel))
	m.VZEROUPPER()
	m.RET()
}

// pass computes the given halves of a panel.
func (m *mat2) pass(halves ...int) {
	m.units = nil
	for _, h := range halves {
		for c := range m.n {
			i := len(m.units)
			m.units = append(m.units, unit2{h, c, ys[i], ys[6+i]})
		}
	}
	m.MOVQ(reg.RDX, reg.RBX)
	m.ld("blocks", reg.RCX)
	for _, u := range m.units {
		m.VXORPS(u.acc, u.acc, u.acc)
	}
	block, group := m.label("block"), m.label("group")
	m.Label(block)
	if m.subs == 1 {
		m.off = m.form.first
		m.group()
		m.ADDQ(imm(m.blk), reg.RSI)
		m.ADDQ(imm(actSize), reg.RBX)
	} else {
		m.superScales()
		m.ADDQ(imm(m.form.first), reg.RSI)
		m.MOVQ(U32(uint32(m.subs)), reg.R14)
		m.Label(group)
		m.group()
		m.ADDQ(imm(m.grp), reg.RSI)
		m.ADDQ(imm(actSize), reg.RBX)
		m.nextScales()
		m.DECQ(reg.R14)
		m.JNZ(LabelRef(group))
	}
	m.DECQ(reg.RCX)
	m.JNZ(LabelRef(block))
	for _, u := range m.units {
		if u.col == 0 {
			m.MOVQ(reg.RDI, reg.RAX)
		} else {
			m.ADDQ(m.arg("ldy"), reg.RAX)
		}
		m.VMOVUPS(u.acc, at(reg.RAX, 32*u.half))
	}
}

// fetch prefetches the lines of a later group. The last groups prefetch the end
// again.
func (m *mat2) fetch() {
	m.LEAQ(at(reg.RSI, m.off+ahead), reg.RAX)
	m.CMPQ(reg.RAX, reg.R11)
	m.CMOVQGT(reg.R11, reg.RAX)
	lines := m.grp
	if m.subs == 1 {
		lines = m.blk
	}
	for i := 0; i < lines; i += 64 {
		m.PREFETCHT0(at(reg.RAX, i))
	}
}

// group adds 32 columns.
func (m *mat2) group() {
	if m.units[0].half == 0 {
		m.fetch()
	}
	if m.halves {
		m.groupHalves()
		return
	}
	m.dots(0, 8)
	m.offset()
	m.finish()
}

// weight leaves step k of half a panel as words: columns 4k and 4k+2 in w, and
// 4k+1 and 4k+3 in w2.
func (m *mat2) weight(k, half int) {
	code := func(off int) Mem { return at(reg.RSI, m.off+off+32*half) }
	switch {
	case m.six && k%4 == 3:
		g := k / 4 * 192
		m.pickCode(code(g), 2, "mask30", 0x30303030, m.w)
		m.pickCode(code(g+64), 4, "mask0c", 0x0c0c0c0c, m.w2)
		m.VPOR(m.w2, m.w, m.w)
		m.pickCode(code(g+128), 6, "mask03", 0x03030303, m.w2)
		m.VPOR(m.w2, m.w, m.w)
	case m.six:
		m.pickCode(code(k/4*192+k%4*64), 0, "mask3f", 0x3f3f3f3f, m.w)
	case m.nib >= 0:
		m.VMOVDQU(code(m.nib+64*(k%4)), m.w)
		if k >= 4 {
			m.VPSRLW(imm(4), m.w, m.w)
		}
		m.VPAND(m.fill("mask0f", 0x0f0f0f0f), m.w, m.w)
		switch {
		case m.table != "":
			m.VBROADCASTI128(m.levelsMem(), m.w2)
			m.VPSHUFB(m.w, m.w2, m.w)
		case m.plane >= 0:
			m.merge(4-k, code(m.plane), m.fill("mask10", 0x10101010))
		}
	case m.crumb >= 0:
		m.VMOVDQU(code(m.crumb+64*(k/4)), m.w)
		if k%4 > 0 {
			m.VPSRLW(imm(2*(k%4)), m.w, m.w)
		}
		m.VPAND(m.fill("mask03", 0x03030303), m.w, m.w)
		if m.plane >= 0 {
			m.merge(2-k, code(m.plane), m.fill("mask04", 0x04040404))
		}
	default:
		m.VMOVDQU(code(64*k), m.w)
	}
	m.VPSRLW(imm(8), m.w, m.w2)
	m.VPAND(m.fill("maskff", 0x00ff00ff), m.w, m.w)
}

// levelsMem returns the location of the table of levels.
func (m *mat2) levelsMem() Mem {
	if m.table == "block" {
		return m.loc.Offset(locBytes)
	}
	return m.levelTable(m.form)
}

// pickCode loads codes, shifts them right and masks them.
func (m *mat2) pickCode(src Mem, right int, name string, mask uint32, dst reg.Register) {
	m.VMOVDQU(src, dst)
	if right > 0 {
		m.VPSRLW(imm(right), dst, dst)
	}
	m.VPAND(m.fill(name, mask), dst, dst)
}

// merge shifts src left and ors the bits of mask into w.
func (m *mat2) merge(left int, src, mask Mem) {
	m.VMOVDQU(src, m.w2)
	if left > 0 {
		m.VPSLLW(imm(left), m.w2, m.w2)
	} else if left < 0 {
		m.VPSRLW(imm(-left), m.w2, m.w2)
	}
	m.VPAND(mask, m.w2, m.w2)
	m.VPOR(m.w2, m.w, m.w)
}

// dots leaves the integer products of the steps in [from, to) in the sums.
func (m *mat2) dots(from, to int) {
	for k := from; k < to; k++ {
		m.eachUnit(func(half int) { m.weight(k, half) }, func(u unit2) {
			for i, w := range []reg.Register{m.w, m.w2} {
				m.VPBROADCASTD(m.col.at(u.col, 8*k+4*i), m.t)
				if k == from && i == 0 {
					m.VPMADDWD(m.t, w, u.sum)
					continue
				}
				m.VPMADDWD(m.t, w, m.t)
				m.VPADDD(m.t, u.sum, u.sum)
			}
		})
	}
}

// eachUnit calls rows for every half of the panel, and then f for the units in
// it.
func (m *mat2) eachUnit(rows func(half int), f func(unit2)) {
	for i, u := range m.units {
		if i == 0 || u.half != m.units[i-1].half {
			rows(u.half)
		}
		f(u)
	}
}

// offset subtracts the codes' offset times the activations from the sums.
func (m *mat2) offset() {
	if m.shift == 0 {
		return
	}
	for _, u := range m.units {
		m.VPBROADCASTD(m.col.at(u.col, actNeg), m.t)
		m.VPSLLD(imm(m.shift), m.t, m.t)
		m.VPADDD(m.t, u.sum, u.sum)
	}
}

// finish scales the integer sums into the results.
func (m *mat2) finish() {
	m.eachUnit(m.groupScales, func(u unit2) {
		m.VCVTDQ2PS(u.sum, u.sum)
		m.VMULPS(m.d, u.sum, u.sum)
		m.VBROADCASTSS(m.col.at(u.col, actD), m.t)
		m.VFMADD231PS(m.t, u.sum, u.acc)
		if !m.mins {
			return
		}
		m.VBROADCASTSS(m.col.at(u.col, actS), m.t)
		if m.scale == scaleF16 {
			m.VFMADD231PS(m.t, m.w2, u.acc)
		} else {
			m.VFNMADD231PS(m.t, m.w2, u.acc)
		}
	})
}
