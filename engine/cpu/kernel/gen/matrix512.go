package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Bytes of package kernel's actBlock.
const (
	actSize = 48
	actD    = 32
	actS    = 36
	actNeg  = 40
	actNeg0 = 44
)

// tiles512 are the numbers of activation rows a kernel takes.
var tiles512 = []int{1, 4, 12}

// strided addresses column c of a tile from a running pointer and odd multiples of the
// column stride.
type strided struct {
	base reg.Register
	odd  []reg.Register // 1, 3, 5, … times the stride
}

func (s strided) at(c, disp int) Mem {
	if c == 0 {
		return at(s.base, disp)
	}
	shift := 0
	for c%2 == 0 {
		c /= 2
		shift++
	}
	return mem(s.base, s.odd[c/2], 1<<shift, disp)
}

var oddRegs = []reg.Register{reg.R8, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13}

// strides fills the odd multiples that n columns need; R8 holds the stride.
func (a *asm) strides(n int) strided {
	odd := oddRegs[:max(1, n/2)]
	for i := 1; i < len(odd); i++ {
		a.LEAQ(mem(odd[i-1], reg.R8, 2, 0), odd[i])
	}
	return strided{reg.RBX, odd}
}

// mat512 emits one kernel: 16 rows by n activation rows, over whole panels.
type mat512 struct {
	*asm
	form
	n     int
	col   strided
	off   int // of the group from SI
	local Mem // unpacked scales

	acc, sum                     []reg.Register
	w, w2, bits, mask            reg.Register
	d, super, min, min1, special reg.Register
}

const matSig = "(y *float32, ldy int, w *byte, a *byte, lda int, blocks int, panels int)"

func matrix512(a *asm) {
	for _, f := range formList {
		for _, n := range tiles512 {
			m := &mat512{
				asm: a, form: f, n: n, acc: zs[:n], sum: zs[12 : 12+n],
				w: reg.Z24, w2: reg.Z25, bits: reg.Z26, mask: reg.Z27,
				d: reg.Z28, super: reg.Z29, min: reg.Z30, min1: reg.Z26, special: reg.Z31,
			}
			if n == 1 {
				m.sum = zs[12:14]
			}
			m.emit()
		}
	}
}

func tileName(f form, n int, tier string) string {
	return "mat" + strings.ReplaceAll(f.name, "_", "") + "x" + itoa(n) + tier
}

func (m *mat512) emit() {
	m.fn(tileName(m.form, m.n, "AVX512"), matSig, "multiplies panels of "+m.name+" by "+itoa(m.n)+" rows of activations; ldy and lda are in bytes.")
	if n := m.stack(); n > 0 {
		m.local = m.AllocLocal(n)
	}
	m.ld("y", reg.RDI)
	m.ld("w", reg.RSI)
	m.ld("a", reg.RDX)
	m.ld("lda", reg.R8)
	m.col = m.strides(m.n)
	m.consts()

	panel, block, group := m.label("panel"), m.label("block"), m.label("group")
	m.Label(panel)
	m.MOVQ(reg.RDX, reg.RBX)
	m.ld("blocks", reg.RCX)
	for _, r := range m.acc {
		m.VPXORD(r, r, r)
	}
	m.Label(block)
	if m.subs == 1 {
		m.off = m.first
		m.blockScales()
		m.group()
		m.ADDQ(imm(m.blk), reg.RSI)
		m.ADDQ(imm(actSize), reg.RBX)
	} else {
		m.superScales()
		m.ADDQ(imm(m.first), reg.RSI)
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

	m.MOVQ(reg.RDI, reg.RAX)
	for i, r := range m.acc {
		if i > 0 {
			m.ADDQ(m.arg("ldy"), reg.RAX)
		}
		m.VMOVUPS(r, at(reg.RAX, 0))
	}
	m.ADDQ(imm(64), reg.RDI)
	m.DECQ(m.arg("panels"))
	m.JNZ(LabelRef(panel))
	m.VZEROUPPER()
	m.RET()
}

// arg is a parameter's place in the frame.
func (a *asm) arg(name string) Mem {
	c, err := a.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return c.Addr
}

// bytes fills r with the byte b.
func (a *asm) bytes(b int, r reg.Register) {
	a.MOVL(U32(uint32(b)*0x01010101), reg.EAX)
	a.VPBROADCASTD(reg.EAX, r)
}

func (m *mat512) consts() {
	switch {
	case m.nib >= 0:
		m.bytes(0x0f, m.mask)
	case m.crumb >= 0:
		m.bytes(0x03, m.mask)
	}
	switch {
	case m.table != "":
		m.VBROADCASTI32X4(m.levelTable(m.form, false), m.special)
	case m.nib >= 0 && m.plane >= 0:
		m.bytes(0x10, m.special)
	case m.nib >= 0 && m.crumb >= 0:
		m.bytes(0x30, m.special)
	case m.plane >= 0:
		m.bytes(0x04, m.special)
	}
}

// weight leaves step k, columns 4k to 4k+3 of the 16 rows, in the returned register.
func (m *mat512) weight(k int) reg.Register {
	switch {
	case m.nib >= 0:
		src := at(reg.RSI, m.off+m.nib+64*(k%4))
		if k < 4 {
			m.VPANDD(src, m.mask, m.w)
		} else {
			m.VPSRLW(imm(4), src, m.w)
			m.VPANDD(m.w, m.mask, m.w)
		}
		switch {
		case m.table != "":
			m.VPSHUFB(m.w, m.special, m.w)
		case m.plane >= 0:
			m.merge(4-k, m.bits)
		case m.crumb >= 0:
			m.merge(4-2*(k%4), at(reg.RSI, m.off+m.crumb+64*(k/4)))
		}
	case m.crumb >= 0:
		src := at(reg.RSI, m.off+m.crumb+64*(k/4))
		if k%4 == 0 {
			m.VPANDD(src, m.mask, m.w)
		} else {
			m.VPSRLW(imm(2*(k%4)), src, m.w)
			m.VPANDD(m.w, m.mask, m.w)
		}
		if m.plane >= 0 {
			m.merge(2-k, m.bits)
		}
	default:
		m.VMOVDQU64(at(reg.RSI, m.off+64*k), m.w)
	}
	return m.w
}

// merge shifts src left and ors the bits that special keeps into w.
func (m *mat512) merge(left int, src Op) {
	switch {
	case left > 0:
		m.VPSLLW(imm(left), src, m.w2)
	case left < 0:
		m.VPSRLW(imm(-left), src, m.w2)
	default:
		if r, ok := src.(reg.Register); ok {
			m.VPTERNLOGD(imm(0xf8), m.special, r, m.w)
			return
		}
		m.VMOVDQU64(src, m.w2)
	}
	m.VPTERNLOGD(imm(0xf8), m.special, m.w2, m.w)
}

// group adds 32 columns.
func (m *mat512) group() {
	if m.plane >= 0 {
		m.VMOVDQU64(at(reg.RSI, m.off+m.plane), m.bits)
	}
	if !m.halves {
		m.groupScales(0)
		m.start(0)
		m.dots(0, 8)
		m.finish()
		return
	}
	for h := range 2 {
		m.groupScales(h)
		m.start(h)
		m.dots(4*h, 4*h+4)
		m.finish()
	}
	if m.mins {
		m.minHalves()
	}
}

// start sets the integer sums to minus the offset times the sum of activations.
func (m *mat512) start(half int) {
	for i, r := range m.sum {
		if i >= m.n || m.shift == 0 {
			m.VPXORD(r, r, r)
			continue
		}
		switch {
		case !m.halves:
			m.VPSLLD_BCST(imm(m.shift), m.col.at(i, actNeg), r)
		case half == 0:
			m.VPSLLD_BCST(imm(m.shift), m.col.at(i, actNeg0), r)
		default:
			m.VPBROADCASTD(m.col.at(i, actNeg), r)
			m.VPSUBD_BCST(m.col.at(i, actNeg0), r, r)
			m.VPSLLD(imm(m.shift), r, r)
		}
	}
}

func (m *mat512) dots(from, to int) {
	for k := from; k < to; k++ {
		w := m.weight(k)
		for c := range m.n {
			sum := m.sum[c]
			if m.n == 1 {
				sum = m.sum[k%2]
			}
			m.VPDPBUSD_BCST(m.col.at(c, 4*k), w, sum)
		}
	}
	if m.n == 1 {
		m.VPADDD(m.sum[1], m.sum[0], m.sum[0])
	}
}

// finish scales the integer sums into the results.
func (m *mat512) finish() {
	for c := range m.n {
		m.VCVTDQ2PS(m.sum[c], m.sum[c])
		m.VMULPS(m.d, m.sum[c], m.sum[c])
	}
	for c := range m.n {
		m.VFMADD231PS_BCST(m.col.at(c, actD), m.sum[c], m.acc[c])
		if !m.mins || m.halves {
			continue
		}
		if m.scale == scaleF16 {
			m.VFMADD231PS_BCST(m.col.at(c, actS), m.min, m.acc[c])
		} else {
			m.VFNMADD231PS_BCST(m.col.at(c, actS), m.min, m.acc[c])
		}
	}
}

// minHalves takes off the minima of the two halves: the activation sums are negative.
func (m *mat512) minHalves() {
	for c := range m.n {
		m.VCVTDQ2PS_BCST(m.col.at(c, actNeg0), m.sum[c])
		m.VMULPS(m.min, m.sum[c], m.sum[c])
		m.VPBROADCASTD(m.col.at(c, actNeg), m.w)
		m.VPSUBD_BCST(m.col.at(c, actNeg0), m.w, m.w)
		m.VCVTDQ2PS(m.w, m.w)
		m.VFMADD231PS(m.w, m.min1, m.sum[c])
		m.VFMADD231PS_BCST(m.col.at(c, actD), m.sum[c], m.acc[c])
	}
}
