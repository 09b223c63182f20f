package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// floatTypes are the weights that multiply float activations, with their sizes
// in bytes.
var floatTypes = []struct {
	name string
	size int
}{{"F32", 4}, {"F16", 2}, {"BF16", 2}}

var (
	floatShapes512 = []shape{{1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 6}}
	floatShapes2   = []shape{{1, 1}, {1, 2}, {1, 3}, {1, 4}}
)

const floatSig = "(y *float32, ldy int, w *byte, x *float32, ldx int, cols int, panels int)"

// floats emits one kernel: even and odd columns have separate sums, added at
// the end.
//
//	DI y   SI weights   DX activations   BX the same, running   CX columns left
//	R8–R12 strides of activations   R13 bytes of a panel   AX scratch
type floats struct {
	*asm
	shape
	name  string
	size  int
	tier  string
	col   strided
	parts []part
	regs  []reg.Register // vector registers by number
}

// part is one vector of rows: of a whole panel with AVX-512, of half a panel
// with AVX2.
type part struct {
	weight Mem // weights of column 0
	y      int
	acc    [2][]reg.Register // sums of even and odd columns
	w      reg.Register
}

func float512(a *asm) {
	for _, t := range floatTypes {
		for _, s := range floatShapes512 {
			f := &floats{asm: a, shape: s, name: t.name, size: t.size, tier: "AVX512", regs: zs[:]}
			f.emit(func() {
				var parts []part
				for p := range s.panels {
					w := at(reg.RSI, 0)
					if p == 1 {
						w = mem(reg.RSI, reg.R13, 1, 0)
					}
					parts = append(parts, f.part(p, w, 64*p, 28))
				}
				f.pass(parts)
			})
		}
	}
}

func float2(a *asm) {
	for _, t := range floatTypes {
		for _, s := range floatShapes2 {
			f := &floats{asm: a, shape: s, name: t.name, size: t.size, tier: "AVX2", regs: ys[:]}
			f.emit(func() {
				lo := f.part(0, at(reg.RSI, 0), 0, 12)
				if s.n < 4 {
					f.pass([]part{lo, f.part(1, at(reg.RSI, 8*t.size), 32, 12)})
					return
				}
				f.MOVQ(reg.RSI, reg.R14)
				f.pass([]part{lo})
				f.MOVQ(reg.R14, reg.RSI)
				f.pass([]part{f.part(0, at(reg.RSI, 8*t.size), 32, 12)})
			})
		}
	}
}

// part assigns the registers of the i-th vector. Its weights use a register
// from w up.
func (f *floats) part(i int, weight Mem, y, w int) part {
	at := 2 * f.n * i
	return part{weight, y, [2][]reg.Register{f.regs[at : at+f.n], f.regs[at+f.n : at+2*f.n]}, f.regs[w+i]}
}

func floatName(name string, s shape, tier string) string {
	return "float" + name + "p" + itoa(s.panels) + "n" + itoa(s.n) + tier
}

func (f *floats) emit(panel func()) {
	f.fn(floatName(f.name, f.shape, f.tier), floatSig, "multiplies panels of "+f.name+", "+itoa(f.panels)+" at once, by "+itoa(f.n)+" rows of floats; ldy and ldx are in bytes.")
	f.ld("y", reg.RDI)
	f.ld("w", reg.RSI)
	f.ld("x", reg.RDX)
	f.ld("ldx", reg.R8)
	f.col = f.strides(f.n)
	if f.panels == 2 {
		f.ld("cols", reg.R13)
		f.IMUL3Q(imm(16*f.size), reg.R13, reg.R13)
	}
	again := f.label("panel")
	f.Label(again)
	panel()
	if f.panels == 2 {
		f.ADDQ(reg.R13, reg.RSI)
	}
	f.ADDQ(imm(64*f.panels), reg.RDI)
	f.SUBQ(imm(f.panels), f.arg("panels"))
	f.JNZ(LabelRef(again))
	f.VZEROUPPER()
	f.RET()
}

// pass runs over all columns for some vectors of rows.
func (f *floats) pass(parts []part) {
	f.parts = parts
	pair, tail, done := f.label("pair"), f.label("odd"), f.label("done")
	f.MOVQ(reg.RDX, reg.RBX)
	f.ld("cols", reg.RCX)
	for _, p := range f.parts {
		for _, accs := range p.acc {
			for _, r := range accs {
				f.VXORPS(r, r, r)
			}
		}
	}
	f.SUBQ(imm(2), reg.RCX)
	f.JLT(LabelRef(tail))
	f.Label(pair)
	if f.panels == 1 && f.parts[0].y == 0 {
		f.PREFETCHT0(at(reg.RSI, ahead))
		if f.size == 4 {
			f.PREFETCHT0(at(reg.RSI, ahead+64))
		}
	}
	f.column(0)
	f.column(1)
	f.ADDQ(imm(32*f.size), reg.RSI)
	f.ADDQ(imm(8), reg.RBX)
	f.SUBQ(imm(2), reg.RCX)
	f.JGE(LabelRef(pair))
	f.Label(tail)
	f.ADDQ(imm(2), reg.RCX)
	f.JZ(LabelRef(done))
	f.column(0)
	f.ADDQ(imm(16*f.size), reg.RSI)
	f.Label(done)
	f.MOVQ(reg.RDI, reg.RAX)
	for c := range f.n {
		if c > 0 {
			f.ADDQ(f.arg("ldy"), reg.RAX)
		}
		for _, p := range f.parts {
			f.VADDPS(p.acc[1][c], p.acc[0][c], p.acc[0][c])
			f.VMOVUPS(p.acc[0][c], at(reg.RAX, p.y))
		}
	}
}

// column adds an even or odd column.
func (f *floats) column(odd int) {
	for _, p := range f.parts {
		f.widen(p.weight.Offset(odd*16*f.size), p.w)
	}
	x := f.regs[len(f.regs)-2]
	for c := range f.n {
		if f.tier == "AVX512" && f.panels == 1 {
			f.VFMADD231PS_BCST(f.col.at(c, 4*odd), f.parts[0].w, f.parts[0].acc[odd][c])
			continue
		}
		f.VBROADCASTSS(f.col.at(c, 4*odd), x)
		for _, p := range f.parts {
			f.VFMADD231PS(x, p.w, p.acc[odd][c])
		}
	}
}

func (f *floats) widen(src Mem, dst reg.Register) {
	switch f.name {
	case "F32":
		f.VMOVUPS(src, dst)
	case "F16":
		f.VCVTPH2PS(src, dst)
	case "BF16":
		f.VPMOVZXWD(src, dst)
		f.VPSLLD(imm(16), dst, dst)
	}
}
