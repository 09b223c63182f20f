package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// asm adds to avo's context what all families need. Registers are physical and
// assigned by hand.
type asm struct {
	*build.Context
	labels int
	consts map[string]operand.Mem
}

var zs = [32]reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
	reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
	reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
}

var ks = [8]reg.OpmaskPhysical{reg.K0, reg.K1, reg.K2, reg.K3, reg.K4, reg.K5, reg.K6, reg.K7}

// fn opens a function with signature sig and comment doc.
func (a *asm) fn(name, sig, doc string, args ...any) {
	name = exported(name)
	a.Function(name)
	a.Attributes(attr.NOSPLIT)
	a.SignatureExpr("func" + sig)
	a.Doc(name + " " + fmt.Sprintf(doc, args...))
	a.Pragma("noescape")
}

// exported returns the Go name of the kernel called name here. Kernels are
// exported because their callers are in the package above.
func exported(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// label makes a name unique in the file.
func (a *asm) label(s string) string {
	a.labels++
	return fmt.Sprintf("%s%d", s, a.labels)
}

// ld loads parameters into registers.
func (a *asm) ld(name string, r reg.Register) { a.Load(a.Param(name), r) }

// word returns a read-only 32-bit constant. A file has one for each name.
func (a *asm) word(name string, v uint32) operand.Mem { return a.constant(name, operand.U32(v)) }

// float is a read-only float32.
func (a *asm) float(name string, v float32) operand.Mem { return a.word(name, math.Float32bits(v)) }

func (a *asm) constant(name string, parts ...operand.Constant) operand.Mem {
	if m, ok := a.consts[name]; ok {
		return m
	}
	m := a.StaticGlobal(name)
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	off := 0
	for _, p := range parts {
		a.AddDatum(off, p)
		off += p.Bytes()
	}
	if a.consts == nil {
		a.consts = map[string]operand.Mem{}
	}
	a.consts[name] = m
	return m
}

// at returns the operand disp(base).
func at(base reg.Register, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }

// ix returns the operand disp(base)(index·scale).
func ix(base, index reg.Register, scale uint8, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: index, Scale: scale, Disp: disp}
}

func imm(n int) operand.Op {
	switch {
	case n < 0:
		return operand.I32(int32(n))
	case n < 256:
		return operand.U8(uint8(n))
	}
	return operand.U32(uint32(n))
}

// masks loads 64 bits, from memory or through a pointer, into K1 to K4. It
// overwrites tmp.
func (a *asm) masks(from operand.Op, tmp reg.GPPhysical) {
	if p, ok := from.(reg.Register); ok {
		for v := range 4 {
			a.KMOVW(at(p, 2*v), ks[1+v])
		}
		return
	}
	a.MOVQ(from, tmp)
	for v := range 4 {
		if v > 0 {
			a.SHRQ(imm(16), tmp)
		}
		a.KMOVW(tmp.As32(), ks[1+v])
	}
}

// prefetch prefetches lines at a distance from base. With distance 0 it does
// nothing.
func (a *asm) prefetch(distance, base reg.Register, lines int) {
	skip := a.label("skip")
	a.TESTQ(distance, distance)
	a.JZ(operand.LabelRef(skip))
	for i := range lines {
		a.PREFETCHT0(ix(base, distance, 1, 64*i))
	}
	a.Label(skip)
}

// end emits the return of a function that used wide registers.
func (a *asm) end() {
	a.VZEROUPPER()
	a.RET()
}
