// Package neon writes arm64 assembly for Go's assembler. The generators of the
// CPU backend's NEON kernels use it. Vector instructions that Go's assembler
// has no mnemonics for become WORD directives with the instruction in a comment.
//
//	f := neon.File{Package: "asm", Generator: "engine/cpu/kernel/genneon"}
//	f.Func("addNEON", "(dst, a *float32)", "adds four values.", 0)
//	f.Arg("dst", neon.R0)
//	f.Arg("a", neon.R1)
//	f.Load(neon.V0, neon.R0, 0)
//	f.Load(neon.V1, neon.R1, 0)
//	f.V("fadd.4s", neon.V0, neon.V0, neon.V1)
//	f.Store(neon.V0, neon.R0, 0)
//	f.Ret()
//
// Registers R16 to R18 and R27 to R30 belong to the linker, the system, the
// assembler and Go; kernels may use the others and all vector registers.
package neon

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
)

// R is a general register.
type R int

// V is a vector register.
type V int

// The registers that kernels may use.
const (
	R0 R = iota
	R1
	R2
	R3
	R4
	R5
	R6
	R7
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
)

// More general registers.
const (
	R19 R = 19 + iota
	R20
	R21
	R22
	R23
	R24
	R25
)

// The first vector registers; others are V(n).
const (
	V0 V = iota
	V1
)

func (r R) String() string { return fmt.Sprintf("R%d", int(r)) }

// File collects the functions and constants of one assembly file, and the Go
// declarations beside it.
type File struct {
	Package   string
	Generator string // named in the first line
	text      bytes.Buffer
	decls     bytes.Buffer
	data      bytes.Buffer
	known     map[string]string // constants by name
	labels    int
	frame     int
	params    map[string]param
}

// param is the location of an argument and its spelling.
type param struct {
	off  int
	kind string
}

// Func opens a function. doc continues the comment after its name. frame is the
// number of bytes of local memory, a multiple of 16, which [File.Local]
// returns.
func (f *File) Func(name, sig, doc string, frame int) {
	f.frame = frame
	name = Exported(name)
	size := f.layout(sig)
	if frame > 0 {
		frame += 16
	}
	fmt.Fprintf(&f.text, "\n// func %s%s\nTEXT ·%s(SB), NOSPLIT, $%d-%d\n", name, sig, name, frame, size)
	fmt.Fprintf(&f.decls, "\n// %s %s\n//\n//go:noescape\nfunc %s%s\n", name, doc, name, sig)
}

// Exported returns the Go name of the kernel called name in a generator.
// Kernels are exported because their callers are in the package above.
func Exported(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// layout computes the locations of the arguments and of the result, which is
// called ret.
func (f *File) layout(sig string) (size int) {
	f.params = map[string]param{}
	in, out, _ := strings.Cut(strings.TrimPrefix(sig, "("), ")")
	var names []string
	at := 0
	place := func(name, kind string) {
		n := 8
		switch kind {
		case "float32", "uint32", "int32":
			n = 4
		case "uint8", "bool":
			n = 1
		}
		at = (at + n - 1) / n * n
		f.params[name] = param{at, kind}
		if strings.HasPrefix(kind, "[]") {
			n = 24
		}
		at += n
	}
	for part := range strings.SplitSeq(in, ",") {
		name, kind, typed := strings.Cut(strings.TrimSpace(part), " ")
		names = append(names, name)
		if typed {
			for _, n := range names {
				place(n, kind)
			}
			names = nil
		}
	}
	if out = strings.TrimSpace(out); out != "" {
		at = (at + 7) &^ 7
		place("ret", out)
	}
	return at
}

// arg returns the spelling of an argument or the result. Slices have the names
// name_base and name_len.
func (f *File) arg(name string) string {
	base, part, slice := strings.Cut(name, "_")
	p, ok := f.params[base]
	if !ok {
		panic("neon: no parameter " + name)
	}
	off := p.off
	if slice {
		base += "_" + part
		if part == "len" {
			off += 8
		}
	}
	return fmt.Sprintf("%s+%d(FP)", base, off)
}

// Arg loads an argument into a general register. The parts of a slice are
// name_base and name_len.
func (f *File) Arg(name string, r R) {
	op := "MOVD"
	if k := f.params[name].kind; k == "uint32" {
		op = "MOVWU"
	}
	f.Op("%s %s, %v", op, f.arg(name), r)
}

// Scalar loads a float argument into every lane of a register.
func (f *File) Scalar(name string, v V) {
	f.Op("FMOVS %s, F%d", f.arg(name), int(v))
	f.Dup(v, v, 0)
}

// Return stores a general register as the result.
func (f *File) Return(r R) {
	op := "MOVD"
	if k := f.params["ret"].kind; k == "uint32" || k == "int32" {
		op = "MOVW"
	}
	f.Op("%s %v, %s", op, r, f.arg("ret"))
}

// ReturnFloat stores the first lane as the result.
func (f *File) ReturnFloat(v V) { f.Op("FMOVS F%d, %s", int(v), f.arg("ret")) }

// Local puts the address of the local memory into a register.
func (f *File) Local(r R) { f.Op("ADD $16, RSP, %v", r) }

// Op writes a formatted line.
func (f *File) Op(line string, args ...any) { fmt.Fprintf(&f.text, "\t"+line+"\n", args...) }

// Ret ends a function.
func (f *File) Ret() { f.Op("RET") }

// NewLabel makes a unique label.
func (f *File) NewLabel(s string) string {
	f.labels++
	return fmt.Sprintf("%s%d", s, f.labels)
}

// Label places a label.
func (f *File) Label(name string) { fmt.Fprintf(&f.text, "\n%s:\n", name) }

// Loop repeats body. After each round it subtracts step from counter and
// continues while counter is positive.
func (f *File) Loop(counter R, step int, body func()) {
	again := f.NewLabel("again")
	f.Label(again)
	body()
	f.Op("SUBS $%d, %v, %v", step, counter, counter)
	f.Op("BGT %s", again)
}

// Load reads 16 bytes.
func (f *File) Load(v V, base R, disp int) { f.Op("FMOVQ %d(%v), F%d", disp, base, int(v)) }

// LoadHalf reads 8 bytes, and zeroes the rest of the register.
func (f *File) LoadHalf(v V, base R, disp int) { f.Op("FMOVD %d(%v), F%d", disp, base, int(v)) }

// LoadQuarter reads 4 bytes, and zeroes the rest of the register.
func (f *File) LoadQuarter(v V, base R, disp int) { f.Op("FMOVS %d(%v), F%d", disp, base, int(v)) }

// LoadPair reads 32 bytes; disp is a multiple of 16.
func (f *File) LoadPair(v, w V, base R, disp int) {
	f.Op("FLDPQ %d(%v), (F%d, F%d)", disp, base, int(v), int(w))
}

// Store writes 16 bytes.
func (f *File) Store(v V, base R, disp int) { f.Op("FMOVQ F%d, %d(%v)", int(v), disp, base) }

// StoreHalf writes the first 8 bytes.
func (f *File) StoreHalf(v V, base R, disp int) { f.Op("FMOVD F%d, %d(%v)", int(v), disp, base) }

// StoreQuarter writes the first 4 bytes.
func (f *File) StoreQuarter(v V, base R, disp int) { f.Op("FMOVS F%d, %d(%v)", int(v), disp, base) }

// StorePair writes 32 bytes; disp is a multiple of 16.
func (f *File) StorePair(v, w V, base R, disp int) {
	f.Op("FSTPQ (F%d, F%d), %d(%v)", int(v), int(w), disp, base)
}

// Repeat loads 4 bytes at base into every lane.
func (f *File) Repeat(v V, base R) {
	f.word(0x4d40c800|uint32(base)<<5|uint32(v), "ld1r {v%d.4s}, [x%d]", int(v), int(base))
}

// Const makes 16 bytes of read-only data, one per name in a file, and loads
// them. It overwrites r.
func (f *File) Const(v V, name string, data [16]byte, r R) {
	f.Address(name, data[:], r)
	f.Load(v, r, 0)
}

// Address puts the address of read-only data into a register.
func (f *File) Address(name string, data []byte, r R) {
	if old, ok := f.known[name]; ok && old != string(data) {
		panic("neon: two constants " + name)
	} else if !ok {
		if f.known == nil {
			f.known = map[string]string{}
		}
		f.known[name] = string(data)
		f.data.WriteByte('\n')
		for i := 0; i < len(data); i += 8 {
			var v uint64
			for j := range 8 {
				v |= uint64(data[i+j]) << (8 * j)
			}
			fmt.Fprintf(&f.data, "DATA %s<>+%d(SB)/8, $0x%016x\n", name, i, v)
		}
		fmt.Fprintf(&f.data, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", name, len(data))
	}
	f.Op("MOVD $%s<>(SB), %v", name, r)
}

// Fill puts a 32-bit constant into every lane. It overwrites r.
func (f *File) Fill(v V, word uint32, r R) {
	b := word & 0xff
	switch word {
	case b * 0x01010101:
		f.word(0x4f00e400|b>>5<<16|b&31<<5|uint32(v), "movi v%d.16b, #%d", int(v), b)
	case b:
		f.word(0x4f000400|b>>5<<16|b&31<<5|uint32(v), "movi v%d.4s, #%d", int(v), b)
	default:
		f.Op("MOVW $0x%08x, %v", word, r)
		f.Op("VDUP %v, V%d.S4", r, int(v))
	}
}

// Zero clears a register.
func (f *File) Zero(v V) { f.word(0x6f00e400|uint32(v), "movi v%d.2d, #0", int(v)) }

// Move copies a register.
func (f *File) Move(dst, src V) { f.V("orr.16b", dst, src, src) }

func (f *File) word(w uint32, text string, args ...any) {
	fmt.Fprintf(&f.text, "\tWORD $0x%08x // "+text+"\n", append([]any{w}, args...)...)
}

// Write writes dir/name_arm64.s and dir/name_gen.go.
func (f *File) Write(dir, name string) error {
	head := "// Code generated by " + f.Generator + ". DO NOT EDIT.\n\n"
	src := head + "#include \"textflag.h\"\n" + f.data.String() + f.text.String()
	if err := os.WriteFile(filepath.Join(dir, name+"_arm64.s"), []byte(src), 0o666); err != nil {
		return err
	}
	return WriteGo(filepath.Join(dir, name+"_gen.go"), f.Generator, "package "+f.Package+"\n"+f.decls.String())
}

// WriteGo writes a generated Go file for arm64.
func WriteGo(path, generator, text string) error {
	src, err := format.Source([]byte("// Code generated by " + generator + ". DO NOT EDIT.\n\n//go:build arm64\n\n" + text))
	if err != nil {
		return fmt.Errorf("%w in\n%s", err, text)
	}
	return os.WriteFile(path, src, 0o666)
}
