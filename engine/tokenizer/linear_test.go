package tokenizer

import (
	"strings"
	"testing"
	"time"

	"godwit/engine/internal/spent"
	"godwit/engine/testmodel"
)

// Long texts for which a careless tokenizer takes quadratic time or more.
var hostile = map[string]func(n int) string{
	"spaces":      func(n int) string { return strings.Repeat(" ", n) },
	"letter":      func(n int) string { return strings.Repeat("a", n) },
	"capitals":    func(n int) string { return strings.Repeat("A", n) },
	"digits":      func(n int) string { return strings.Repeat("7", n) },
	"lines":       func(n int) string { return strings.Repeat("\n", n) },
	"tabs":        func(n int) string { return strings.Repeat("\t", n) },
	"marks":       func(n int) string { return strings.Repeat("\u0301", n/2) },
	"ideographs":  func(n int) string { return strings.Repeat("中", n/3) },
	"dots":        func(n int) string { return strings.Repeat(".", n) },
	"apostrophes": func(n int) string { return strings.Repeat("'", n) },
	"brackets":    func(n int) string { return strings.Repeat("<", n) },
	"markers":     func(n int) string { return strings.Repeat("<|im_", n/5) },
	"escapes":     func(n int) string { return strings.Repeat("▁", n/3) },
	"invalid":     func(n int) string { return strings.Repeat("\xff", n) },
	"half":        func(n int) string { return strings.Repeat("\xf0", n) },
	"emoji":       func(n int) string { return strings.Repeat("👩\u200d", n/7) },
	"mixed":       func(n int) string { return strings.Repeat("aA \u0301ª1\n", n/12) },
	"spaced":      func(n int) string { return strings.Repeat(" a", n/2) },
	"zero":        func(n int) string { return strings.Repeat("\x00", n) },
}

// TestLinear encodes a megabyte of each hostile text with the large BPE and SPM
// vocabularies. The time limit is ten times what a slow machine needs and a
// hundredth of what quadratic time would take. It counts processor time, so other
// programs do not affect it.
func TestLinear(t *testing.T) {
	const n, bound = 1 << 20, 5 * time.Second
	for name, path := range map[string]string{"gemma3": testmodel.Gemma3(t), "qwen2": sourceVocab(t, "qwen2")} {
		tok := open(t, path)
		tok.EncodeText("a", true, true)
		for kind, repeat := range hostile {
			text := repeat(n)
			took := spent.Time(t, func() { tok.EncodeText(text, true, true) })
			if took > bound {
				t.Errorf("%s: a megabyte of %s took %v, allowed are %v", name, kind, took, bound)
			}
		}
	}
}

// TestLinearScans runs the passes of every pre-tokenizer on the same texts.
func TestLinearScans(t *testing.T) {
	const n, bound = 1 << 17, 2 * time.Second
	for names := range patterns {
		name := strings.Fields(names)[0]
		for kind, repeat := range hostile {
			text := normalize(nil, []byte(repeat(n)))
			took := spent.Time(t, func() { cutWords(pres[name].scans, text) })
			if took > bound {
				t.Errorf("%s: %d bytes of %s took %v, allowed are %v", name, n, kind, took, bound)
			}
		}
	}
}
