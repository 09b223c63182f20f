package main

import (
	"bytes"
	"fmt"
)

// tileChoice writes the switch from type and tile size to kernel.
func tileChoice(b *bytes.Buffer) {
	b.WriteString("import \"godwit/engine/dtype\"\n\n")
	for _, tier := range []struct {
		name  string
		sizes []int
	}{{"AVX512", tiles512}, {"AVX2", tiles2}} {
		fmt.Fprintf(b, "// tile%s multiplies panels by n rows of activations; it reports whether there is a kernel.\n", tier.name)
		fmt.Fprintf(b, "func tile%s(t dtype.Type, n int, y *float32, ldy int, w, a *byte, lda, blocks, panels int) bool {\n", tier.name)
		b.WriteString("switch n {\n")
		for _, n := range tier.sizes {
			fmt.Fprintf(b, "case %d:\nswitch t {\n", n)
			for _, f := range formList {
				fmt.Fprintf(b, "case dtype.%s:\n%s(y, ldy, w, a, lda, blocks, panels)\n", f.name, tileName(f, n, tier.name))
			}
			b.WriteString("default: return false\n}\n")
		}
		b.WriteString("default: return false\n}\nreturn true\n}\n\n")
	}
}
