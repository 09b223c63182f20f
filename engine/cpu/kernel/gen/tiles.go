package main

import (
	"bytes"
	"fmt"
)

// tileChoice writes the switch from type and tile size to kernel.
func tileChoice(b *bytes.Buffer) {
	b.WriteString("import \"godwit/engine/dtype\"\n\n")
	for _, tier := range []struct {
		name   string
		shapes []shape
	}{{"AVX512", shapes512}, {"AVX2", shapes2}} {
		fmt.Fprintf(b, "// tile%s multiplies panels, p at once, by n rows of activations; it reports whether there is a kernel.\n", tier.name)
		fmt.Fprintf(b, "func tile%s(t dtype.Type, p, n int, y *float32, ldy int, w, a *byte, lda, blocks, panels int) bool {\n", tier.name)
		b.WriteString("switch p<<8 | n {\n")
		for _, s := range tier.shapes {
			fmt.Fprintf(b, "case %d<<8 | %d:\nswitch t {\n", s.panels, s.n)
			for _, f := range formList {
				if !f.takes(s) {
					continue
				}
				fmt.Fprintf(b, "case dtype.%s:\n%s(y, ldy, w, a, lda, blocks, panels)\n", f.name, tileName(f, s, tier.name))
			}
			b.WriteString("default: return false\n}\n")
		}
		b.WriteString("default: return false\n}\nreturn true\n}\n\n")
	}
	for _, tier := range []struct {
		name   string
		shapes []shape
	}{{"AVX512", floatShapes512}, {"AVX2", floatShapes2}} {
		fmt.Fprintf(b, "// float%s multiplies panels of floats, p at once, by n rows; it reports whether there is a kernel.\n", tier.name)
		fmt.Fprintf(b, "func float%s(t dtype.Type, p, n int, y *float32, ldy int, w *byte, x *float32, ldx, cols, panels int) bool {\n", tier.name)
		b.WriteString("switch p<<8 | n {\n")
		for _, s := range tier.shapes {
			fmt.Fprintf(b, "case %d<<8 | %d:\nswitch t {\n", s.panels, s.n)
			for _, t := range floatTypes {
				fmt.Fprintf(b, "case dtype.%s:\n%s(y, ldy, w, x, ldx, cols, panels)\n", t.name, floatName(t.name, s, tier.name))
			}
			b.WriteString("default: return false\n}\n")
		}
		b.WriteString("default: return false\n}\nreturn true\n}\n\n")
	}
}
