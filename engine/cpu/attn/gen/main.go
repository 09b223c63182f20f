// Command gen writes the amd64 assembly of attn/asm, one file per family of
// kernels and tier, together with the Go declarations. It is a module of its
// own, so that avo is not a requirement of the product.
//
//	go generate ./engine/cpu/attn/asm
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// A family is one assembly file: name_amd64.s and its declarations.
type family struct {
	name string
	emit func(*asm)
}

var families = []family{
	{"codes_avx512", codes512},
	{"dot_avx512", dot512},
	{"encode_avx512", encode512},
	{"float_avx512", float512},
	{"fused_avx512", fused512},
	{"trellis_avx512", trellis512},
	{"viterbi_avx512", viterbi512},
	{"weigh_avx512", weigh512},
	{"prep_avx512", prep512},
	{"codes_avx2", codes2},
	{"dot_avx2", dot2},
	{"float_avx2", float2},
	{"trellis_avx2", trellis2},
	{"viterbi_avx2", viterbi2},
	{"weigh_avx2", weigh2},
	{"prep_avx2", prep2},
}

func main() {
	dir := flag.String("dir", "../asm", "folder of package asm")
	flag.Parse()
	for _, f := range families {
		if err := f.write(*dir); err != nil {
			fmt.Fprintf(os.Stderr, "gen: %s: %v\n", f.name, err)
			os.Exit(1)
		}
	}
}

func (f family) write(dir string) error {
	a := &asm{Context: build.NewContext()}
	a.ConstraintExpr("amd64")
	f.emit(a)
	file, err := a.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Name: "engine/cpu/attn/gen", Pkg: "asm"}
	src, err := printer.NewGoAsm(cfg).Print(file)
	if err != nil {
		return err
	}
	stubs, err := printer.NewStubs(cfg).Print(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, f.name+"_amd64.s"), src, 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, f.name+"_gen.go"), stubs, 0o666)
}
