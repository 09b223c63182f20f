package main

import (
	"bytes"
	"fmt"
	"strings"
)

// tileChoice writes the switch that selects a kernel by type and tile size.
func tileChoice(b *bytes.Buffer) {
	b.WriteString("import \"godwit/engine/dtype\"\n\n")
	for _, tier := range []struct {
		name   string
		shapes []shape
	}{{"AVX512", shapes512}, {"AVX2", shapes2}} {
		fmt.Fprintf(b, "// Tile%s multiplies panels, p at once, by n rows of activations, and may fetch weights of the first fetch panels; it reports whether there is a kernel.\n", tier.name)
		fmt.Fprintf(b, "func Tile%s(t dtype.Type, p, n int, y *float32, ldy int, w, a *byte, lda, blocks, panels, fetch int) bool {\n", tier.name)
		b.WriteString("switch p<<8 | n {\n")
		for _, s := range tier.shapes {
			fmt.Fprintf(b, "case %d<<8 | %d:\nswitch t {\n", s.panels, s.n)
			for _, f := range formList {
				if !f.takes(s) {
					continue
				}
				fmt.Fprintf(b, "case %s:\n%s(y, ldy, w, a, lda, blocks, panels, fetch)\n", f.cases(), exported(tileName(f, s, tier.name)))
			}
			b.WriteString("default: return false\n}\n")
		}
		b.WriteString("default: return false\n}\nreturn true\n}\n\n")
	}
	for _, tier := range []struct {
		name   string
		shapes []shape
	}{{"AVX512", floatShapes512}, {"AVX2", floatShapes2}} {
		fmt.Fprintf(b, "// Float%s multiplies panels of floats, p at once, by n rows; it reports whether there is a kernel.\n", tier.name)
		fmt.Fprintf(b, "func Float%s(t dtype.Type, p, n int, y *float32, ldy int, w *byte, x *float32, ldx, cols, panels int) bool {\n", tier.name)
		b.WriteString("switch p<<8 | n {\n")
		for _, s := range tier.shapes {
			fmt.Fprintf(b, "case %d<<8 | %d:\nswitch t {\n", s.panels, s.n)
			for _, t := range floatTypes {
				fmt.Fprintf(b, "case dtype.%s:\n%s(y, ldy, w, x, ldx, cols, panels)\n", t.name, exported(floatName(t.name, s, tier.name)))
			}
			b.WriteString("default: return false\n}\n")
		}
		b.WriteString("default: return false\n}\nreturn true\n}\n\n")
	}
}

// elemChoice writes the choice between the variants of each element-wise
// kernel.
func elemChoice(b *bytes.Buffer) {
	b.WriteString("import \"godwit/engine/cpu/kernel/asm\"\n\n")
	for _, o := range elemOps {
		args := strings.Join(o.params(), ", ")
		ret := ""
		if o.ret != "" {
			ret = "return "
		}
		fmt.Fprintf(b, "func %s(%s) %s {\nswitch active {\n", o.name, o.sig, o.ret)
		for _, tier := range []string{"AVX512", "AVX2"} {
			fmt.Fprintf(b, "case %s:\n%sasm.%s%s(%s)\n", tier, ret, exported(o.name), tier, args)
		}
		fmt.Fprintf(b, "default:\n%s%sGeneric(%s)\n}\n}\n\n", ret, o.name, args)
	}
}

// elemPlain writes the same choice for machines without assembly.
func elemPlain(b *bytes.Buffer) {
	for _, o := range elemOps {
		ret := ""
		if o.ret != "" {
			ret = "return "
		}
		fmt.Fprintf(b, "func %s(%s) %s {\n%s%sGeneric(%s)\n}\n\n", o.name, o.sig, o.ret, ret, o.name, strings.Join(o.params(), ", "))
	}
}
