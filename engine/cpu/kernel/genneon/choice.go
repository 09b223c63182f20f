package main

import (
	"fmt"
	"strings"

	"godwit/engine/cpu/neon"
)

// matrixChoice returns the switch that selects a kernel by type and number of
// rows.
func matrixChoice() string {
	var b strings.Builder
	b.WriteString("package asm\n\nimport \"godwit/engine/dtype\"\n")
	for _, dot := range []bool{false, true} {
		tier := "NEON"
		if dot {
			tier = "Dot"
		}
		fmt.Fprintf(&b, "\n// Mat%s multiplies panels by n rows of activations; it reports whether there is a kernel.\n", tier)
		fmt.Fprintf(&b, "func Mat%s(t dtype.Type, n int, y *float32, ldy int, w, a *byte, lda, blocks, panels int) bool {\nswitch n {\n", tier)
		for _, n := range rowsList {
			fmt.Fprintf(&b, "case %d:\nswitch t {\n", n)
			for i := range formList {
				f := &formList[i]
				fmt.Fprintf(&b, "case %s:\n%s(y, ldy, w, a, lda, blocks, panels)\n", f.cases(), neon.Exported(matName(f, n, dot)))
			}
			b.WriteString("default:\nreturn false\n}\n")
		}
		b.WriteString("default:\nreturn false\n}\nreturn true\n}\n")
	}
	b.WriteString("\n// FloatNEON multiplies panels of floats by n rows; it reports whether there is a kernel.\n")
	b.WriteString("func FloatNEON(t dtype.Type, n int, y *float32, ldy int, w *byte, x *float32, ldx, cols, panels int) bool {\nswitch n {\n")
	for _, n := range rowsList {
		fmt.Fprintf(&b, "case %d:\nswitch t {\n", n)
		for _, t := range floatTypes {
			fmt.Fprintf(&b, "case dtype.%s:\n%s(y, ldy, w, x, ldx, cols, panels)\n", t.name, neon.Exported(floatName(t.name, n)))
		}
		b.WriteString("default:\nreturn false\n}\n")
	}
	b.WriteString("default:\nreturn false\n}\nreturn true\n}\n")
	return b.String()
}
