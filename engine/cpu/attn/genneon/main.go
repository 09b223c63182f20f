// Command genneon writes the arm64 assembly of attn/asm, one file per
// family of kernels, together with the Go declarations.
//
//	go generate ./engine/cpu/attn/asm
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"

	"godwit/engine/cpu/neon"
)

// families are the assembly files: name_arm64.s and its declarations.
var families = []struct {
	name string
	emit func(*asm)
}{
	{"float_neon", floats},
	{"codes_neon", codes},
	{"dot_neon", func(a *asm) { dots(a, false) }},
	{"dot_dotprod", func(a *asm) { dots(a, true) }},
	{"weigh_neon", weigh},
	{"prep_neon", prep},
	{"trellis_neon", trellis},
	{"viterbi_neon", viterbi},
}

func main() {
	dir := flag.String("dir", ".", "folder of package asm")
	flag.Parse()
	for _, f := range families {
		a := &asm{&neon.File{Package: "asm", Generator: "engine/cpu/attn/genneon"}}
		f.emit(a)
		if err := a.Write(*dir, f.name); err != nil {
			fmt.Fprintf(os.Stderr, "genneon: %s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
}

// asm adds to the assembler what several families need.
type asm struct{ *neon.File }

// args loads arguments into general registers from R0 on.
func (a *asm) args(names ...string) {
	for i, n := range names {
		a.Arg(n, neon.R(i))
	}
}

// bits loads a 32-bit constant into every lane; R19 is overwritten.
func (a *asm) bits(v neon.V, name string, b uint32) {
	var data [16]byte
	for i := range 4 {
		binary.LittleEndian.PutUint32(data[4*i:], b)
	}
	a.Const(v, name, data, neon.R19)
}

// eachBit runs body for every set bit of mask, with its index in at, and clears
// the bit. It overwrites R19.
func (a *asm) eachBit(mask, at neon.R, body func()) {
	again := a.NewLabel("bit")
	a.Label(again)
	a.Op("RBIT %v, %v", mask, at)
	a.Op("CLZ %v, %v", at, at)
	a.Op("SUB $1, %v, R19", mask)
	a.Op("AND R19, %v, %v", mask, mask)
	body()
	a.Op("CBNZ %v, %s", mask, again)
}
