// Command genneon writes the arm64 assembly of kernel/asm, one file per
// family of kernels, together with the Go declarations and the choice between
// them.
//
//	go generate ./engine/cpu/kernel/asm
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"godwit/engine/cpu/neon"
)

const generator = "engine/cpu/kernel/genneon"

// families are the assembly files: name_arm64.s and its declarations.
var families = []struct {
	name string
	emit func(*neon.File)
}{
	{"matrix_dot", func(f *neon.File) { matrix(f, true) }},
	{"matrix_neon", func(f *neon.File) { matrix(f, false) }},
	{"float_neon", floatMatrix},
	{"elem_neon", elements},
	{"convert_neon", blocks},
	{"roofline_neon", roofline},
}

func main() {
	dir := flag.String("dir", ".", "folder of package asm")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintf(os.Stderr, "genneon: %v\n", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	for _, f := range families {
		file := &neon.File{Package: "asm", Generator: generator}
		f.emit(file)
		if err := file.Write(dir, f.name); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err := neon.WriteGo(filepath.Join(dir, "tiles_arm64_gen.go"), generator, matrixChoice()); err != nil {
		return err
	}
	return neon.WriteGo(filepath.Join(dir, "..", "elem_arm64_gen.go"), generator, elementChoice())
}
