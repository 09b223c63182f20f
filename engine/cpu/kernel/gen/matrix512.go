package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Bytes of package kernel's actBlock.
const (
	actSize = 84
	actD    = 64
	actS    = 68
	actNeg  = 72
	actOff  = 76
)

// shape is the tile of a kernel: panels of weights by rows of activations.
type shape struct{ panels, n int }

// A kernel for one panel reads activations from memory, with the broadcast that
// VPDPWSSD does itself. Two panels share each broadcast, which halves the
// loads.
var shapes512 = []shape{{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 7}, {1, 8}, {2, 4}, {2, 6}}

// ahead is the prefetch distance of kernels for one panel, in bytes. Two panels
// are two streams, which gain less from prefetching. They run after the first
// tile.
const ahead = 6144

// ahead returns the prefetch distance of a kernel. With eight rows, 32 columns
// take the same time for every type, so types with more bytes need a longer
// distance.
func (m *mat512) ahead() int {
	if m.n == 8 {
		return max(ahead, 20*m.blk/m.subs)
	}
	return ahead
}

// strided addresses column c of a tile, from a running pointer and odd multiples of the column
// stride.
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

// strides computes the odd multiples that n columns need; R8 holds the stride.
func (a *asm) strides(n int) strided {
	odd := oddRegs[:max(1, n/2)]
	for i := 1; i < len(odd); i++ {
		a.LEAQ(mem(odd[i-1], reg.R8, 2, 0), odd[i])
	}
	return strided{reg.RBX, odd}
}

// mat512 emits one kernel.
//
//	DI y   SI weights   DX activations   BX the same, running   CX blocks left
//	R8–R11 strides of activations   R12 the last group
//	R13 stride of panels, if two; else the next prefetch, if blocks have groups
//	R14 groups left of a block   R15 scales of the group   AX scratch
//	Z0–Z23 results, integer sums, sums of odd columns   the rest as named below
type mat512 struct {
	*asm
	form
	shape
	col strided
	off int // offset of the group from SI
	loc Mem // unpacked scales

	acc, sum            [][]reg.Register // [panel][column]
	w, odd              [2]reg.Register  // even and odd columns of a step as words; also minimum and scale
	t, x, mask, special reg.Register
	evens               reg.Register // mask that keeps the even bytes; nil if a load does it
	offset              reg.Register // offset subtracted from the codes; nil if the sums start with it
}

const (
	matSig = "(y *float32, ldy int, w *byte, a *byte, lda int, blocks int, panels int, fetch int)"
)

const fetchDoc = "The weights of the first fetch panels may be prefetched."

func matrix512(a *asm) {
	for _, f := range formList {
		for _, s := range shapes512 {
			m := &mat512{
				asm: a, form: f, shape: s,
				w: [2]reg.Register{reg.Z24, reg.Z25}, odd: [2]reg.Register{reg.Z30, reg.Z31},
				t: reg.Z26, x: reg.Z27, mask: reg.Z28, special: reg.Z29,
			}
			if !f.takes(s) {
				continue
			}
			if s.panels == 1 {
				m.evens = m.odd[1]
			}
			if s == (shape{1, 8}) && f.shift > 0 && !f.halves {
				m.offset = m.w[1]
			}
			for p := range s.panels {
				m.acc = append(m.acc, zs[p*s.n:(p+1)*s.n])
				m.sum = append(m.sum, zs[(s.panels+p)*s.n:(s.panels+p+1)*s.n])
			}
			m.emit()
		}
	}
}

func tileName(f form, s shape, tier string) string {
	return "mat" + strings.ReplaceAll(f.name, "_", "") + "p" + itoa(s.panels) + "n" + itoa(s.n) + tier
}

func (m *mat512) emit() {
	m.fn(tileName(m.form, m.shape, "AVX512"), matSig, "multiplies panels of "+m.name+", "+itoa(m.panels)+" at once, by "+itoa(m.n)+" rows of activations; ldy and lda are in bytes. "+fetchDoc)
	if n := m.stack(); n > 0 {
		m.loc = m.AllocLocal(n)
	}
	m.ld("y", reg.RDI)
	m.ld("w", reg.RSI)
	m.ld("a", reg.RDX)
	m.ld("lda", reg.R8)
	m.col = m.strides(m.n)
	m.consts()
	if m.panels == 2 {
		m.panelStride(reg.R13)
	}
	if m.panels == 1 {
		m.end(reg.R12)
	}

	panel, block, group := m.label("panel"), m.label("block"), m.label("group")
	m.Label(panel)
	m.MOVQ(reg.RDX, reg.RBX)
	m.ld("blocks", reg.RCX)
	for _, acc := range m.acc {
		for _, r := range acc {
			m.VPXORD(r, r, r)
		}
	}
	m.Label(block)
	if m.subs == 1 {
		m.off = m.first
		m.group()
		m.ADDQ(imm(m.blk), reg.RSI)
		m.ADDQ(imm(actSize), reg.RBX)
	} else {
		if m.panels == 1 {
			m.LEAQ(at(reg.RSI, m.ahead()), reg.R13)
		}
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
	m.store(panel)
	m.VZEROUPPER()
	m.RET()
}

// panelStride computes the bytes of a panel.
func (m *mat512) panelStride(r reg.Register) {
	m.ld("blocks", r)
	m.IMUL3Q(I32(int32(m.blk)), r, r)
}

// end computes the address of the last group to prefetch.
func (m *mat512) end(r reg.Register) {
	m.panelStride(r)
	m.IMULQ(m.arg("fetch"), r)
	m.LEAQ(mem(reg.RSI, r, 1, -m.grp), r)
}

func (m *mat512) store(next string) {
	m.MOVQ(reg.RDI, reg.RAX)
	for c := range m.n {
		if c > 0 {
			m.ADDQ(m.arg("ldy"), reg.RAX)
		}
		for p, acc := range m.acc {
			m.VMOVUPS(acc[c], at(reg.RAX, 64*p))
		}
	}
	if m.panels == 2 {
		m.ADDQ(reg.R13, reg.RSI)
	}
	m.ADDQ(imm(64*m.panels), reg.RDI)
	m.SUBQ(imm(m.panels), m.arg("panels"))
	m.JNZ(LabelRef(next))
}

// arg returns a parameter's location in the frame.
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
	if m.evens != nil {
		m.VPBROADCASTD(m.word("maskff", 0x00ff00ff), m.evens)
	}
	if m.offset != nil {
		m.MOVL(U32(0x00010001<<m.shift), reg.EAX)
		m.VPBROADCASTD(reg.EAX, m.offset)
	}
	switch {
	case m.nibbles():
		m.VPBROADCASTD(m.word("nibbles", 0x000f000f), m.mask)
	case m.nib >= 0:
		m.bytes(0x0f, m.mask)
	case m.crumb >= 0:
		m.bytes(0x03, m.mask)
	}
	switch {
	case m.table == "block": // superScales
	case m.table != "":
		m.VBROADCASTI32X4(m.levelTable(m.form), m.special)
	case m.nib >= 0 && m.plane >= 0:
		m.bytes(0x10, m.special)
	case m.plane >= 0:
		m.bytes(0x04, m.special)
	}
}

// at addresses panel p of the block or group at SI.
func (m *mat512) at(p, disp int) Mem {
	if p == 0 {
		return at(reg.RSI, disp)
	}
	return mem(reg.RSI, reg.R13, 1, disp)
}

// weight leaves step k, columns 4k to 4k+3 of the 16 rows of panel p, as words:
// columns 4k and 4k+2 in w[p], and 4k+1 and 4k+3 in odd[p].
func (m *mat512) weight(k, p int) {
	w := m.w[p]
	code := func(off int) Mem { return m.at(p, m.off+off) }
	switch {
	case m.nibbles():
		m.nibble(k, p, code(m.nib+64*(k%4)))
		return
	case m.six:
		m.sixth(k, code(k/4*192+k%4*64), p)
	case m.nib >= 0:
		m.masked(code(m.nib+64*(k%4)), k/4*4, w)
		switch {
		case m.table != "":
			m.VPSHUFB(w, m.special, w)
		case m.plane >= 0:
			m.merge(4-k, code(m.plane), w)
		}
	case m.crumb >= 0:
		m.masked(code(m.crumb+64*(k/4)), k%4*2, w)
		if m.plane >= 0 {
			m.merge(2-k, code(m.plane), w)
		}
	default:
		m.VMOVDQU64(code(64*k), w)
	}
	m.VPSRLW(imm(8), w, m.odd[p])
	if m.evens != nil {
		m.VPANDD(m.evens, w, w)
		return
	}
	m.VPANDD_BCST(m.word("maskff", 0x00ff00ff), w, w)
}

// nibble extracts the words of step k from the nibbles at src. Steps k and k+4
// share their bytes, so order puts step k+4 directly after step k.
func (m *mat512) nibble(k, p int, src Mem) {
	w, odd, both := m.w[p], m.odd[p], []reg.Register{m.t, m.special}[p]
	if k >= 4 {
		m.VPSRLW(imm(4), both, w)
		m.VPANDD(m.mask, w, w)
		m.VPSRLW(imm(12), both, odd)
		return
	}
	m.VMOVDQU64(src, both)
	m.VPANDD(m.mask, both, w)
	m.VPSRLW(imm(8), both, odd)
	m.VPANDD(m.mask, odd, odd)
}

// order returns the order of the steps in [from, to).
func (m *mat512) order(from, to int) (list []int) {
	for k := from; k < to; k++ {
		if m.nibbles() {
			list = append(list, k/2+k%2*4)
		} else {
			list = append(list, k)
		}
	}
	return list
}

// masked loads codes, starting at bit right.
func (m *mat512) masked(src Mem, right int, w reg.Register) {
	if right == 0 {
		m.VPANDD(src, m.mask, w)
		return
	}
	m.VPSRLW(imm(right), src, w)
	m.VPANDD(w, m.mask, w)
}

// merge shifts src left and ors the bits that special keeps into w.
func (m *mat512) merge(left int, src Mem, w reg.Register) {
	switch {
	case left > 0:
		m.VPSLLW(imm(left), src, m.t)
	case left < 0:
		m.VPSRLW(imm(-left), src, m.t)
	default:
		m.VPTERNLOGD(imm(0xf8), src, m.special, w)
		return
	}
	m.VPTERNLOGD(imm(0xf8), m.t, m.special, w)
}

// group adds 32 columns.
func (m *mat512) group() {
	if m.panels == 1 {
		m.fetch()
	}
	if m.halves {
		m.groupHalves()
		return
	}
	for c := range m.n {
		m.start(c, m.sum, func(r reg.Register) { m.VPSLLD_BCST(imm(m.shift), m.col.at(c, actNeg), r) })
	}
	m.dots(0, 8, m.sum, zs[2*m.panels*m.n:24])
	m.finish()
}

// fetch prefetches the lines of a later group, but nothing beyond the last
// group to prefetch. If a block has several groups, the lines of its head are
// divided among them.
func (m *mat512) fetch() {
	if m.subs == 1 {
		m.LEAQ(at(reg.RSI, m.off+m.ahead()), reg.RAX)
	} else {
		m.MOVQ(reg.R13, reg.RAX)
		m.ADDQ(imm(m.blk/m.subs), reg.R13)
	}
	m.CMPQ(reg.RAX, reg.R12)
	m.CMOVQGT(reg.R12, reg.RAX)
	for i := 0; i < m.blk/m.subs; i += 64 {
		m.PREFETCHT0(at(reg.RAX, i))
	}
}

// start sets the integer sums of column c to minus the offset times the sum of
// activations, which load puts into a register.
func (m *mat512) start(c int, sums [][]reg.Register, load func(reg.Register)) {
	first := sums[0][c]
	for p, sum := range sums {
		switch {
		case m.shift == 0 || m.offset != nil:
			m.VPXORD(sum[c], sum[c], sum[c])
		case p == 0:
			load(first)
		default:
			m.VMOVDQA64(first, sum[c])
		}
	}
}

// dots adds the integer products of the steps in [from, to). A sum waits for its
// product. Kernels for one panel therefore use separate sums for the odd
// columns if registers are free.
func (m *mat512) dots(from, to int, sums [][]reg.Register, free []reg.Register) {
	odd, apart := sums[0], m.panels == 1 && m.n <= len(free)
	if apart {
		odd = free[:m.n]
		for _, r := range odd {
			m.VPXORD(r, r, r)
		}
	}
	for _, k := range m.order(from, to) {
		for p := range m.panels {
			m.weight(k, p)
		}
		if m.offset != nil { // eight rows need few loads
			m.VPSUBW(m.offset, m.w[0], m.w[0])
			m.VPSUBW(m.offset, m.odd[0], m.odd[0])
		}
		for i, w := range [][2]reg.Register{m.w, m.odd} {
			for c := range m.n {
				x := m.col.at(c, 8*k+4*i)
				if m.panels == 1 {
					m.VPDPWSSD_BCST(x, w[0], [][]reg.Register{sums[0], odd}[i][c])
					continue
				}
				m.VPBROADCASTD(x, m.x)
				for p, sum := range sums {
					m.VPDPWSSD(m.x, w[p], sum[c])
				}
			}
		}
	}
	if apart {
		for c, r := range odd {
			m.VPADDD(r, sums[0][c], sums[0][c])
		}
	}
}

// finish scales the integer sums into the results.
func (m *mat512) finish() {
	for p, sum := range m.sum {
		m.groupScales(p)
		if m.mins {
			m.groupMin(p)
		}
		for _, r := range sum {
			m.VCVTDQ2PS(r, r)
			m.VMULPS(m.odd[p], r, r)
		}
	}
	for c := range m.n {
		m.addProduct(c, actD, m.VFMADD231PS, m.VFMADD231PS_BCST, m.sum[0][c], m.sum[len(m.sum)-1][c])
		switch {
		case !m.mins:
		case m.scale == scaleF16:
			m.addProduct(c, actS, m.VFMADD231PS, m.VFMADD231PS_BCST, m.w[0], m.w[1])
		default:
			m.addProduct(c, actS, m.VFNMADD231PS, m.VFNMADD231PS_BCST, m.w[0], m.w[1])
		}
	}
}

// addProduct adds a value of column c to the results, multiplied by a register
// for each panel.
func (m *mat512) addProduct(c, disp int, fma, fmaBcst func(...Op), by ...reg.Register) {
	if m.panels == 1 {
		fmaBcst(m.col.at(c, disp), by[0], m.acc[0][c])
		return
	}
	m.VBROADCASTSS(m.col.at(c, disp), m.x)
	for p, acc := range m.acc {
		fma(m.x, by[p], acc[c])
	}
}
