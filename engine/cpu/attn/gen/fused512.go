package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fusedRows is the largest number of rows for which codes are looked up and
// multiplied in one pass. For more rows it is cheaper to store the bytes first.
const fusedRows = 4

// Offsets of Visit, and its size; a test compares them.
const (
	visitPage  = 0
	visitAhead = 24
	visitAt    = 32
	visitUsed  = 48
	visitSize  = 80
)

// fused512 makes the integer dot products over the codes of several pages, in
// planes or in bytes.
func fused512(a *asm) {
	for _, bits := range []int{2, 3, 4, 8} {
		for n := 1; n <= fusedRows; n++ {
			if bits < 8 {
				(&fused{asm: a, bits: bits, n: n, per: 1, vecs: 4}).tokens()
			}
			(&fused{asm: a, bits: bits, n: n, vecs: 4}).values()
			(&fused{asm: a, bits: bits, n: n, vecs: 2}).values()
		}
	}
	for n := 2; n <= panel; n += 2 {
		(&fused{asm: a, bits: 8, n: n, per: 2, vecs: 4}).tokens()
	}
}

// fused is one kernel. It computes n rows of vecs vectors of sums, with per
// rows for each query. With planes of less than 8 bits, Z16 to Z20 are planes,
// Z21 to Z24 the other operand, Z25 to Z27 and Z29 are free, and Z31, Z30, Z28,
// Z19 and Z20 are tables. With bytes, Z24 to Z27 are codes and Z28 the other
// operand.
type fused struct {
	*asm
	bits, n, per, vecs int
}

func (f *fused) low() int { return f.bits &^ 1 }

// sets returns the number of sums per lane. If there are few rows, more sums
// hide the latency.
func (f *fused) sets() int {
	if f.bits < 8 && f.n*f.vecs <= 8 {
		return 2
	}
	return 1
}

func (f *fused) acc(set, i, v int) reg.VecPhysical { return zs[(set*f.n+i)*f.vecs+v] }

// group returns how many steps of 64 codes are looked up at once.
func (f *fused) group() int {
	if f.bits == 8 {
		return f.vecs
	}
	return 8
}

// open loads the visits and their number into R13 and R15.
func (f *fused) open() {
	f.ld("visits", reg.R13)
	f.ld("n", reg.R15)
}

// places returns, for each step, the position of its code's bits in a byte at
// the look-up, and the table for that position. A byte permute reads six bits
// of an index and ignores the others. With three bits, most steps therefore
// need no shift, which would cost as much as a look-up.
func (f *fused) places() []place {
	switch f.bits {
	case 2:
		return []place{{}, {low: 2}, {low: 4}, {low: 6}}
	case 3:
		return []place{
			{table: 0, high: -4, at: 4},
			{table: 1, at: 1},
			{table: 2, at: 2},
			{table: 3, low: 2, at: 3},
			{table: 0, at: 4},
			{table: 4, at: 5},
			{table: 2, high: 4, at: 2},
			{table: 3, low: 2, high: 4, at: 3},
		}
	}
	return []place{{}, {low: 4}}
}

// place describes how a step finds its levels: the table, the right shifts of the
// low and the high plane, and the bit of the index that comes from the shifted
// high plane.
type place struct{ table, low, high, at int }

// tables loads the tables in the order of placements in package attn. It
// overwrites RAX.
func (f *fused) tables() {
	if f.bits == 8 {
		return
	}
	n := 0
	for _, p := range f.places() {
		n = max(n, p.table+1)
	}
	f.ld("table", reg.RAX)
	for i := range n {
		f.VMOVDQU64(at(reg.RAX, 64*i), f.table(i))
	}
}

// table returns the register of table i.
func (f *fused) table(i int) reg.VecPhysical {
	return []reg.VecPhysical{reg.Z31, reg.Z30, reg.Z28, reg.Z19, reg.Z20}[i]
}

// page loads the addresses of a visit's planes and scales into RSI, R14 and
// R10, and the address to prefetch into R12. Lines are prefetched in ascending
// order, whatever the order in which the page's lines are read, because the
// processor's own prefetcher continues a run of lines.
func (f *fused) page() {
	f.MOVQ(at(reg.R13, visitPage), reg.RSI)
	f.MOVQ(at(reg.R13, visitAhead), reg.R12)
	f.ADDQ(reg.RSI, reg.R12)
	f.ADDQ(operand.NewParamAddr("low", f.param("low")), reg.R12)
	f.MOVQ(reg.RSI, reg.R10)
	f.ADDQ(operand.NewParamAddr("scales", f.param("scales")), reg.R10)
	if f.bits == 3 {
		f.MOVQ(reg.RSI, reg.R14)
		f.ADDQ(operand.NewParamAddr("high", f.param("high")), reg.R14)
	}
	f.ADDQ(operand.NewParamAddr("low", f.param("low")), reg.RSI)
}

// param returns the offset of an eight-byte parameter. The first parameters
// have this order.
func (f *fused) param(name string) int {
	for i, p := range []string{"dst", "visits", "n", "low", "high", "scales"} {
		if p == name {
			return 8 * i
		}
	}
	panic("gen: parameter " + name)
}

// load loads the planes of eight steps, or one vector of bytes per vector of
// sums. It prefetches the same number of lines.
func (f *fused) load() {
	if f.bits == 8 {
		for v := range f.vecs {
			f.VMOVDQU64(at(reg.RSI, 64*v), zs[24+v])
			f.PREFETCHT0(at(reg.R12, 64*v))
		}
		return
	}
	for i := range f.low() {
		f.VMOVDQU64(at(reg.RSI, 64*i), zs[17+i])
		f.PREFETCHT0(at(reg.R12, 64*i))
	}
	if f.bits == 3 {
		f.VMOVDQU64(at(reg.R14, 0), reg.Z16)
		f.PREFETCHT0(at(reg.R12, 64*f.low()))
	}
}

func (f *fused) next() {
	n := 8 * f.low() * f.group()
	f.ADDQ(imm(n), reg.RSI)
	if f.bits == 3 {
		f.ADDQ(imm(64), reg.R14)
		n += 64
	}
	f.ADDQ(imm(n), reg.R12)
}

// askScales prefetches as many bytes as a block's scales have.
func (f *fused) askScales() {
	f.PREFETCHT0(at(reg.R12, 0))
	f.PREFETCHT0(at(reg.R12, 64))
	f.ADDQ(imm(128), reg.R12)
}

// step looks up step s of a group.
func (f *fused) step(s int) reg.VecPhysical {
	if f.bits == 8 {
		return zs[24+s]
	}
	all, per := f.places(), 8/f.low()
	p := all[s%len(all)]
	src, idx := zs[17+s/per], zs[25+s%3]
	if p.low > 0 || f.bits == 3 {
		f.shift(p.low, src, idx)
		src = idx
	}
	if f.bits == 3 {
		high := reg.Z16
		if p.high != 0 {
			high = reg.Z29
			if s == 0 || all[s-1].high != p.high {
				f.shift(p.high, reg.Z16, high)
			}
		}
		f.VPTERNLOGD_BCST(imm(0xd8), f.word(fmt.Sprintf("bit%d", p.at), 0x01010101<<p.at), high, idx)
	}
	f.VPERMB(f.table(p.table), src, idx)
	return idx
}

func (f *fused) join(i, v int) reg.VecPhysical {
	x := f.acc(0, i, v)
	if f.sets() == 2 {
		f.VPADDD(f.acc(1, i, v), x, x)
	}
	f.VCVTDQ2PS(x, x)
	return x
}

// name returns the name of the kernel for f's number of rows.
func (f *fused) name(what string) string {
	if f.bits == 8 && f.per == 2 {
		return fmt.Sprintf("%s%dtwiceAVX512", what, f.n/2)
	}
	return fmt.Sprintf("%s%dbits%dAVX512", what, f.n, f.bits)
}

func (f *fused) tokens() {
	f.fn(f.name("tokens"),
		"(dst *float32, visits *byte, n, low, high, scales int, table *byte, q *int8, qscale *float32, init *int32, blocks, chunks int)",
		"adds the scores of %d rows of queries, %d per query, with codes of %d bits of n pages; chunks are those of 32 values of a block.", f.n, f.per, f.bits)
	f.open()
	f.tables()
	page, block, chunk, loop := f.label("page"), f.label("block"), f.label("chunk"), f.label("loop")
	f.Label(page)
	f.page()
	f.MOVQ(at(reg.R13, visitAt), reg.RAX)
	f.ld("dst", reg.RDI)
	f.LEAQ(ix(reg.RDI, reg.RAX, 4, 0), reg.RDI)
	f.ld("q", reg.RDX)
	f.ld("qscale", reg.R8)
	f.ld("init", reg.R9)
	f.ld("blocks", reg.R11)
	f.Label(block)
	f.ld("chunks", reg.RCX)
	for i := range f.n {
		f.VPBROADCASTD(at(reg.R9, 4*i), f.acc(0, i, 0))
		for v := 1; v < 4; v++ {
			f.VMOVDQA64(f.acc(0, i, 0), f.acc(0, i, v))
		}
		for v := range 4 * (f.sets() - 1) {
			f.VPXORD(f.acc(1, i, v), f.acc(1, i, v), f.acc(1, i, v))
		}
	}
	f.Label(chunk)
	f.MOVQ(operand.U32(uint32(32/f.group())), reg.RBX)
	f.Label(loop)
	f.load()
	f.multiplyTokens()
	f.next()
	f.ADDQ(imm(f.group()), reg.RDX)
	f.DECQ(reg.RBX)
	f.JNZ(operand.LabelRef(loop))
	f.ADDQ(imm(32*(panel-1)), reg.RDX)
	f.DECQ(reg.RCX)
	f.JNZ(operand.LabelRef(chunk))
	f.askScales()
	f.scale()
	f.ADDQ(imm(4*panel), reg.R8)
	f.ADDQ(imm(4*panel), reg.R9)
	f.ADDQ(imm(128), reg.R10)
	f.DECQ(reg.R11)
	f.JNZ(operand.LabelRef(block))
	f.ADDQ(imm(visitSize), reg.R13)
	f.DECQ(reg.R15)
	f.JNZ(operand.LabelRef(page))
	f.end()
}

// multiplyTokens adds the products of the loaded steps.
func (f *fused) multiplyTokens() {
	for g := range f.group() / 4 {
		if f.bits == 8 {
			for i := range f.n {
				f.VPBROADCASTD(at(reg.RDX, 32*i+4*g), reg.Z28)
				for v := range 4 {
					f.VPDPBUSD(reg.Z28, f.step(v), f.acc(0, i, v))
				}
			}
			continue
		}
		for i := range f.n {
			f.VPBROADCASTD(at(reg.RDX, 32*i+4*g), zs[21+i])
		}
		for v := range 4 {
			c := f.step(4*g + v)
			for i := range f.n {
				f.VPDPBUSD(zs[21+i], c, f.acc(g%f.sets(), i, v))
			}
		}
	}
}

// scale adds the sums of a block, times the scales of tokens and queries, to
// the scores.
func (f *fused) scale() {
	for v := range 4 {
		f.VCVTPH2PS(at(reg.R10, 32*v), zs[24+v])
	}
	for i := range f.n {
		for v := range 4 {
			x := f.join(i, v)
			f.VMULPS_BCST(at(reg.R8, 4*i), zs[24+v], reg.Z29)
			f.VMULPS(reg.Z29, x, x)
			f.VADDPS(at(reg.RDI, 256*(i/f.per)+64*v), x, x)
			f.VMOVUPS(x, at(reg.RDI, 256*(i/f.per)+64*v))
		}
	}
}

func (f *fused) values() {
	f.fn(fmt.Sprintf("values%dx%dbits%dAVX512", f.n, f.vecs, f.bits),
		"(acc *float32, visits *byte, n, low, high, scales int, table *byte, w *float32, rounded *byte, scale *float32, unit float32, ld, blocks, chunks int) (left, blocksLeft int)",
		"adds values of %d bits of n pages weighted for %d rows, ld bytes apart; chunks are those of %d values of a block. "+
			"A block with a negative weight ends it; left counts its page and those behind, blocksLeft it and those behind in the page.", f.bits, f.n, 16*f.vecs)
	f.open()
	page, block, chunk, done, skip := f.label("page"), f.label("block"), f.label("chunk"), f.label("done"), f.label("skip")
	f.ld("rounded", reg.RDX)
	f.ld("scale", reg.R9)
	f.ld("ld", reg.R8)
	f.Label(page)
	f.groups(skip)
	f.page()
	f.ld("acc", reg.RDI)
	f.ld("blocks", reg.R11)
	f.Label(block)
	f.round(done)
	f.tables()
	f.ld("chunks", reg.RAX)
	f.Label(chunk)
	f.chunk()
	f.ADDQ(imm(64*f.vecs), reg.RDI)
	f.DECQ(reg.RAX)
	f.JNZ(operand.LabelRef(chunk))
	f.askScales()
	f.ADDQ(imm(128), reg.R10)
	f.DECQ(reg.R11)
	f.JNZ(operand.LabelRef(block))
	f.Label(skip)
	f.ADDQ(imm(visitSize), reg.R13)
	f.DECQ(reg.R15)
	f.JNZ(operand.LabelRef(page))
	f.Label(done)
	f.Store(reg.R15, f.ReturnIndex(0))
	f.Store(reg.R11, f.ReturnIndex(1))
	f.end()
}

// groups sets a bit in CX for every four cells that contain a used one. If
// there are no more bits, it jumps to none.
func (f *fused) groups(none string) {
	f.MOVQ(at(reg.R13, visitUsed), reg.RAX)
	f.TESTQ(reg.RAX, reg.RAX)
	f.JZ(operand.LabelRef(none))
	f.MOVQ(reg.RAX, reg.RCX)
	f.SHRQ(imm(1), reg.RCX)
	f.ORQ(reg.RCX, reg.RAX)
	f.MOVQ(reg.RAX, reg.RCX)
	f.SHRQ(imm(2), reg.RCX)
	f.ORQ(reg.RCX, reg.RAX)
	f.MOVQ(operand.U64(0x1111111111111111), reg.RCX)
	f.PEXTQ(reg.RCX, reg.RAX, reg.RCX)
}

// round multiplies the weights of a block's tokens by their scales and rounds
// to a 255th of the largest, as roundWeights does. Z0 to Z15 are products, Z20
// to Z23 largest magnitudes, Z29 signs.
func (f *fused) round(negative string) {
	f.MOVQ(at(reg.R13, visitAt), reg.RAX)
	f.ld("w", reg.RBX)
	f.LEAQ(ix(reg.RBX, reg.RAX, 4, 0), reg.RBX)
	f.roundConsts()
	for v := range 4 {
		f.VCVTPH2PS(at(reg.R10, 32*v), zs[16+v])
	}
	f.VPXORD(reg.Z29, reg.Z29, reg.Z29)
	for first := 0; first < f.n; first += 4 {
		f.roundRows(first, min(4, f.n-first))
	}
	f.VPMOVD2M(reg.Z29, reg.K1)
	f.KORTESTW(reg.K1, reg.K1)
	f.JNE(operand.LabelRef(negative))
}

// roundRows rounds n rows, at most four.
func (f *fused) roundRows(first, n int) {
	row := func(i int) func(v int) reg.VecPhysical {
		return func(v int) reg.VecPhysical { return zs[4*i+v] }
	}
	top := func(i int) reg.VecPhysical { return zs[20+i] }
	for i := range n {
		f.products(row(i), reg.RBX, 256*(first+i), top(i))
	}
	for i := range n {
		f.fold(top(i), reg.Z28, f.maxPS)
	}
	for i := range n {
		m := top(i).AsX()
		f.VDIVSS(f.float("full", 255), m, reg.X28)
		f.VMULSS(operand.NewParamAddr("unit", 80), reg.X28, reg.X28)
		f.VCMPSS(imm(13), f.float("tiny", tiny), m, reg.K1)
		f.VMOVSS_Z(reg.X28, reg.X28, reg.K1, reg.X28)
		f.VMOVSS(reg.X28, at(reg.R9, 4*(first+i)))
		f.inverse(top(i), reg.X28)
	}
	for i := range n {
		f.bytes(row(i), top(i), at(reg.RDX, 64*(first+i)), reg.Z29)
	}
}

// chunk adds the values of a chunk.
func (f *fused) chunk() {
	for s := range f.sets() {
		for i := range f.n {
			for v := range f.vecs {
				f.VPXORD(f.acc(s, i, v), f.acc(s, i, v), f.acc(s, i, v))
			}
		}
	}
	groups := f.group() / f.vecs
	loop, skip := f.label("loop"), f.label("skip")
	f.MOVQ(operand.U32(uint32(16/groups)), reg.RBX)
	f.Label(loop)
	f.TESTQ(operand.U32(1<<groups-1), reg.RCX)
	f.JZ(operand.LabelRef(skip))
	f.load()
	for g := range groups {
		if f.bits == 8 {
			for i := range f.n {
				f.VPBROADCASTD(at(reg.RDX, 64*i), zs[28])
				for v := range f.vecs {
					f.VPDPBUSD(f.step(v), zs[28], f.acc(0, i, v))
				}
			}
			continue
		}
		for i := range f.n {
			f.VPBROADCASTD(at(reg.RDX, 64*i+4*g), zs[21+i])
		}
		for v := range f.vecs {
			c := f.step(f.vecs*g + v)
			for i := range f.n {
				f.VPDPBUSD(c, zs[21+i], f.acc(g%f.sets(), i, v))
			}
		}
	}
	f.Label(skip)
	f.next()
	f.RORW(imm(groups), reg.CX)
	f.ADDQ(imm(4*groups), reg.RDX)
	f.DECQ(reg.RBX)
	f.JNZ(operand.LabelRef(loop))
	f.SUBQ(imm(64), reg.RDX)
	f.MOVQ(reg.RDI, reg.RBX)
	for i := range f.n {
		f.VBROADCASTSS(at(reg.R9, 4*i), reg.Z29)
		for v := range f.vecs {
			x := f.join(i, v)
			f.VMULPS(reg.Z29, x, x)
			f.VADDPS(at(reg.RBX, 64*v), x, x)
			f.VMOVUPS(x, at(reg.RBX, 64*v))
		}
		f.ADDQ(reg.R8, reg.RBX)
	}
}
