package grammar

import (
	"math/rand/v2"
	"testing"
	"time"

	"godwit/engine/gguf"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
	"godwit/engine/tokenizer"
)

// realVocab is the vocabulary in a model file.
type realVocab struct{ *tokenizer.Tokenizer }

func (v realVocab) Size() int { return v.VocabSize() }

func (v realVocab) Bytes(t llm.Token) []byte { return v.Piece(t) }

func openVocab(t testing.TB, path string) realVocab {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tok, err := tokenizer.New(f.KV)
	if err != nil {
		t.Fatal(err)
	}
	return realVocab{tok}
}

func sourceVocab(t testing.TB, name string) realVocab {
	t.Helper()
	return openVocab(t, testmodel.Vocabulary(t, name))
}

var realNames = []string{"gpt-2", "llama-spm", "phi-3", "starcoder", "deepseek-coder"}

// Documents drawn through the masks of real vocabularies are valid. The
// vocabularies are byte-level ones, and SentencePiece ones with byte tokens for
// characters that have no token.
func TestRealVocabularies(t *testing.T) {
	schema := []byte(`{"type":"object","properties":{
		"name":{"type":"string","maxLength":30},"when":{"type":"string","format":"date-time"},"n":{"type":"integer","minimum":-5,"maximum":1200},
		"tags":{"type":"array","items":{"enum":["é","日本","\ud83d\ude00 smile"]},"minItems":1,"maxItems":4},
		"more":{"type":"object","additionalProperties":{"type":["number","null"]},"minProperties":2}},
		"required":["name","tags","more"]}`)
	g, err := FromSchema(schema)
	if err != nil {
		t.Fatal(err)
	}
	valid := validator(t, schema)
	for _, name := range realNames {
		t.Run(name, func(t *testing.T) {
			v := openVocab(t, testmodel.Vocabulary(t, name))
			c := compile(t, g, newTokens(t, v))
			rng := rand.New(rand.NewPCG(1, 2))
			ended := 0
			for range 6 {
				if doc, ok := generate(t, c, v, rng, 20, 600); ok {
					ended++
					checkDocument(t, doc, valid)
				}
			}
			if ended == 0 {
				t.Error("no document ended")
			}
		})
	}
}

// run draws a text of n tokens and returns how long masks and steps took.
func run(b testing.TB, c *Compiled, v Vocab, rng *rand.Rand, n int) (took, worst time.Duration, tokens int) {
	st, mask := c.Start(), c.toks.NewMask()
	for range n {
		start := time.Now()
		if err := st.Mask(mask); err != nil {
			b.Fatal(err)
		}
		d := time.Since(start)
		tok := pick(rng, mask, v, tokens > n/2)
		start = time.Now()
		if err := st.Accept(tok); err != nil {
			b.Fatal(err)
		}
		d += time.Since(start)
		took, worst, tokens = took+d, max(worst, d), tokens+1
		if v.IsEOG(tok) {
			break
		}
	}
	return took, worst, tokens
}

func BenchmarkMask(b *testing.B) {
	for _, name := range []string{"qwen2", "gemma-4"} {
		v := sourceVocab(b, name)
		start := time.Now()
		toks := newTokens(b, v)
		b.Logf("%s: %d tokens, %d nodes, index %v", name, v.Size(), len(toks.char), time.Since(start))
		schema := []byte(`{"type":"object","properties":{"location":{"type":"string"},"unit":{"enum":["celsius","fahrenheit"]},
			"days":{"type":"integer","minimum":1,"maximum":14},"note":{"type":"string","maxLength":80},"tags":{"type":"array","items":{"type":"string"}}},"required":["location","unit","note"]}`)
		bySchema, err := FromSchema(schema)
		if err != nil {
			b.Fatal(err)
		}
		for _, g := range []struct {
			name string
			g    *Grammar
		}{{"json", JSON()}, {"schema", bySchema}} {
			b.Run(name+"/"+g.name, func(b *testing.B) {
				c := compile(b, g.g, toks)
				rng := rand.New(rand.NewPCG(1, 1))
				first, worst, n := run(b, c, v, rng, 100)
				var took time.Duration
				tokens := 0
				for b.Loop() {
					d, _, n := run(b, c, v, rng, 200)
					took, tokens = took+d, tokens+n
				}
				b.ReportMetric(float64(first.Microseconds())/float64(n), "first-µs/tok")
				b.ReportMetric(float64(worst.Microseconds()), "first-worst-µs")
				b.ReportMetric(float64(took.Microseconds())/float64(tokens), "µs/tok")
			})
		}
	}
}
