package tokenizer

import (
	"math"
	"strings"
	"testing"
	"time"

	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/testmodel"
)

// long texts that a careless tokenizer takes quadratic time or more for.
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

func BenchmarkEncode(b *testing.B) {
	text := prose(b)
	for name, path := range benchVocabs(b) {
		tok := open(b, path)
		b.Run(name, func(b *testing.B) {
			dst := tok.Encode(nil, []Piece{{Text: text}}, Options{})
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				dst = tok.Encode(dst[:0], []Piece{{Text: text}}, Options{})
			}
			b.ReportMetric(float64(len(dst))*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	text := prose(b)
	for name, path := range benchVocabs(b) {
		tok := open(b, path)
		ids := tok.EncodeText(text, false, false)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var dst []byte
			d := tok.NewDecoder(false)
			for b.Loop() {
				dst = dst[:0]
				for _, id := range ids {
					dst = d.Append(dst, id)
				}
			}
		})
	}
}

// BenchmarkNew measures what a command that reads metadata waits for: the
// vocabulary, and the vocabulary with the first encoding.
func BenchmarkNew(b *testing.B) {
	for name, path := range benchVocabs(b) {
		f, err := gguf.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for _, encode := range []bool{false, true} {
			b.Run(name+map[bool]string{false: "/open", true: "/first"}[encode], func(b *testing.B) {
				for b.Loop() {
					tok, err := New(f.KV)
					if err != nil {
						b.Fatal(err)
					}
					if encode {
						tok.EncodeText("Hello", true, true)
					}
				}
			})
		}
	}
}

func benchVocabs(b *testing.B) map[string]string {
	return map[string]string{
		"smollm2": testmodel.SmolLM2(b), "gemma3": testmodel.Gemma3(b), "qwen2": sourceVocab(b, "qwen2"),
		"llama-bpe": sourceVocab(b, "llama-bpe"), "gemma-4": sourceVocab(b, "gemma-4"),
		"llama-spm": golden.Path(b, "vocab", "ggml-vocab-llama-spm.gguf"),
	}
}

func prose(t testing.TB) string {
	return string(golden.Read(t, "models", "ppl", "corpus_en.txt"))
}

// quickest returns how long f took, the best of three where it took longer than
// bound: another program may have had the processor.
func quickest(bound time.Duration, f func()) time.Duration {
	best := time.Duration(math.MaxInt64)
	for range 3 {
		start := time.Now()
		f()
		if best = min(best, time.Since(start)); best <= bound {
			break
		}
	}
	return best
}

// TestLinear gives vocabularies of both large kinds a megabyte of each hostile
// text. The bound is an order of magnitude above what a slow machine needs, and
// two below what quadratic time would.
func TestLinear(t *testing.T) {
	const n, bound = 1 << 20, 5 * time.Second
	for name, path := range map[string]string{"gemma3": testmodel.Gemma3(t), "qwen2": sourceVocab(t, "qwen2")} {
		tok := open(t, path)
		tok.EncodeText("a", true, true)
		for kind, repeat := range hostile {
			text := repeat(n)
			took := quickest(bound, func() { tok.EncodeText(text, true, true) })
			if took > bound {
				t.Errorf("%s: a megabyte of %s took %v, allowed are %v", name, kind, took, bound)
			}
		}
	}
}

// TestLinearScans gives the same texts to every pre-tokenizer's passes alone.
func TestLinearScans(t *testing.T) {
	const n, bound = 1 << 17, 2 * time.Second
	for names := range patterns {
		name := strings.Fields(names)[0]
		for kind, repeat := range hostile {
			text := normalize(nil, []byte(repeat(n)))
			took := quickest(bound, func() { cutWords(pres[name].scans, text) })
			if took > bound {
				t.Errorf("%s: %d bytes of %s took %v, allowed are %v", name, n, kind, took, bound)
			}
		}
	}
}
