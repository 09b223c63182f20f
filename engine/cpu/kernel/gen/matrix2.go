package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var shapes2 = []shape{{1, 1}, {1, 4}}

// mat2 emits one AVX2 kernel. One row of activations meets 16 rows of weights
// at once; four meet 8, the lower half of the panel first. Constants and
// scales stay in memory: the sums need the registers.
type mat2 struct {
	*asm
	form
	n    int
	col  strided
	off  int // of the group from SI
	rows []int
	loc  Mem
	again

	units              []unit2
	w, t, w2, d, first reg.Register
}

// unit2 is 8 rows by one row of activations.
type unit2 struct {
	half, col     int
	acc, s16, s32 reg.Register
}

func matrix2(a *asm) {
	for _, f := range formList {
		for _, s := range shapes2 {
			m := &mat2{asm: a, form: f, n: s.n, w: ys[12], t: ys[13], w2: ys[14], d: ys[15]}
			m.emit()
		}
	}
}

// signed reports whether the codes need all eight bits, so that they multiply
// by magnitude and sign.
func (m *mat2) signed() bool { return m.top > 127 }

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
	m.again = m.newAgain()
	m.Label(panel)
	m.MOVQ(reg.RSI, reg.R10)
	if m.n == 1 {
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
			m.units = append(m.units, unit2{h, c, ys[i], ys[4+i], ys[8+i]})
		}
	}
	m.reset(m.again)
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
	m.MOVQ(reg.R10, reg.RSI)
	m.second(m.again, block)
	m.MOVQ(reg.RDI, reg.RAX)
	for i, u := range m.units {
		if i > 0 && u.col > 0 {
			m.ADDQ(m.arg("ldy"), reg.RAX)
		}
		m.VMOVUPS(u.acc, at(reg.RAX, 32*u.half))
	}
}

// fetch asks for the lines of a group further on; the last ones ask for the end again.
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

// weight leaves step k of half a panel in w.
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
			m.VBROADCASTI128(m.levelTable(m.form, m.signed()), m.w2)
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
		m.VPXOR(m.fill("mask80", 0x80808080), m.w, m.w)
	}
	if m.signed() {
		m.VPABSB(m.w, m.w2)
	}
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

// period is the number of steps whose products fit int16: two products of at
// most top·127 each.
func (m *mat2) period() int { return 32767 / (2 * 127 * min(m.top, 127)) }

// dots leaves the integer sums of steps from to to-1 in s16, as int32.
func (m *mat2) dots(from, to int) {
	period := min(to-from, m.period())
	for k := from; k < to; k++ {
		m.eachUnit(func(half int) { m.weight(k, half) }, func(u unit2) {
			m.VPBROADCASTD(m.col.at(u.col, 4*k), m.t)
			if m.signed() {
				m.signedDot(u, k == from)
				return
			}
			m.pairs(u, (k-from)%period == 0)
			if (k-from+1)%period == 0 {
				m.widen(u, k-from+1 == period, k+1 == to)
			}
		})
	}
}

// eachUnit calls rows for every half of the panel, and f for the units in it.
func (m *mat2) eachUnit(rows func(half int), f func(unit2)) {
	for i, u := range m.units {
		if i == 0 || u.half != m.units[i-1].half {
			rows(u.half)
		}
		f(u)
	}
}

// pairs adds pairs of products to s16.
func (m *mat2) pairs(u unit2, first bool) {
	if first {
		m.VPMADDUBSW(m.t, m.w, u.s16)
		return
	}
	m.VPMADDUBSW(m.t, m.w, m.t)
	m.VPADDW(m.t, u.s16, u.s16)
}

// widen adds the pairs of s16 into int32 sums; the last time the sum moves to s16.
func (m *mat2) widen(u unit2, first, last bool) {
	ones := m.fill("ones", 0x00010001)
	switch {
	case first && last:
		m.VPMADDWD(ones, u.s16, u.s16)
	case first:
		m.VPMADDWD(ones, u.s16, u.s32)
	case last:
		m.VPMADDWD(ones, u.s16, u.s16)
		m.VPADDD(u.s32, u.s16, u.s16)
	default:
		m.VPMADDWD(ones, u.s16, u.s16)
		m.VPADDD(u.s16, u.s32, u.s32)
	}
}

// signedDot moves the sign of the weight to the activation.
func (m *mat2) signedDot(u unit2, first bool) {
	ones := m.fill("ones", 0x00010001)
	m.VPSIGNB(m.w, m.t, m.t)
	m.VPMADDUBSW(m.t, m.w2, m.t)
	if first {
		m.VPMADDWD(ones, m.t, u.s16)
		return
	}
	m.VPMADDWD(ones, m.t, m.t)
	m.VPADDD(m.t, u.s16, u.s16)
}

// offset takes the offset of the codes times the activations off the sums.
func (m *mat2) offset() {
	if m.signed() || m.shift == 0 {
		return
	}
	for _, u := range m.units {
		m.VPBROADCASTD(m.col.at(u.col, actNeg), m.t)
		m.VPSLLD(imm(m.shift), m.t, m.t)
		m.VPADDD(m.t, u.s16, u.s16)
	}
}

// finish scales the integer sums into the results.
func (m *mat2) finish() {
	m.eachUnit(m.groupScales, func(u unit2) {
		m.VCVTDQ2PS(u.s16, u.s16)
		m.VMULPS(m.d, u.s16, u.s16)
		m.VBROADCASTSS(m.col.at(u.col, actD), m.t)
		m.VFMADD231PS(m.t, u.s16, u.acc)
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
