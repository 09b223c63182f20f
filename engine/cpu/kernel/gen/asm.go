package main

import (
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// asm adds to avo's context what all families need. Vector and general
// registers are physical and assigned by hand.
type asm struct {
	*build.Context
	labels int
	consts map[string]operand.Mem
}

// word returns a read-only 32-bit constant. A file has one for each name.
func (a *asm) word(name string, v uint32) operand.Mem {
	return a.constant(name, operand.U32(v))
}

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

// fill returns 32 bytes that repeat a read-only 32-bit constant.
func (a *asm) fill(name string, v uint32) operand.Mem {
	c := operand.U32(v)
	return a.constant(name, c, c, c, c, c, c, c, c)
}

// levelTable holds the codes of a table type as stored.
func (a *asm) levelTable(f form) operand.Mem {
	var parts []operand.Constant
	for _, v := range f.levels() {
		parts = append(parts, operand.U8(v))
	}
	return a.constant(f.table, parts...)
}

var (
	zs = [32]reg.Register{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
		reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
		reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	}
	ys = [16]reg.Register{
		reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
		reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
	}
)

// fn opens a function with signature sig and comment doc.
func (a *asm) fn(name, sig, doc string) {
	name = exported(name)
	a.Function(name)
	a.Attributes(attr.NOSPLIT)
	a.SignatureExpr("func" + sig)
	a.Doc(name + " " + doc)
	a.Pragma("noescape")
}

// exported returns the Go name of the kernel called name here. Kernels are
// exported because their callers are in the package above.
func exported(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// label makes a name unique in the file.
func (a *asm) label(s string) string {
	a.labels++
	return s + itoa(a.labels)
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// ld loads a parameter.
func (a *asm) ld(name string, r reg.Register) { a.Load(a.Param(name), r) }

// mem returns the operand disp(base)(index·scale). A nil index means none.
func mem(base, index reg.Register, scale uint8, disp int) operand.Mem {
	m := operand.Mem{Base: base, Disp: disp}
	if index != nil {
		m.Index, m.Scale = index, scale
	}
	return m
}

// at returns the operand disp(base).
func at(base reg.Register, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }

func imm(n int) operand.Op {
	if n < 0 {
		return operand.I32(int32(n))
	}
	if n < 256 {
		return operand.U8(uint8(n))
	}
	return operand.U32(uint32(n))
}
