package tokenizer

import (
	"testing"

	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/testmodel"
)

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

// BenchmarkNew measures the time to load the vocabulary, alone and with the first
// encoding.
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
		"llama-spm": sourceVocab(b, "llama-spm"),
	}
}

func prose(t testing.TB) string {
	return string(golden.Read(t, "models", "ppl", "corpus_en.txt"))
}
