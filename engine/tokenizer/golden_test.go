package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

// open reads the vocabulary of a file for the length of a test.
func open(t testing.TB, path string) *Tokenizer {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tok, err := New(f.KV)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// sourceVocab is the path of a vocabulary of the llama.cpp source package.
func sourceVocab(t testing.TB, name string) string {
	t.Helper()
	return testmodel.Vocabulary(t, name)
}

// vectors is a file of cases, as golden/models/README.md describes it.
type vectors struct {
	Cases []struct {
		Text    []byte `json:"text_b64"`
		IDs     map[string][]llm.Token
		Plain   []byte `json:"detok_plain_b64"`
		Special []byte `json:"detok_special_b64"`
		Error   string
	}
}

// run compares every key of every case. A case that the reference could not encode
// must only encode without an error.
func (v vectors) run(t *testing.T, tok *Tokenizer) {
	t.Helper()
	if len(v.Cases) == 0 {
		t.Fatal("no cases")
	}
	for i, c := range v.Cases {
		plain, text := c.IDs["plain"], string(c.Text)
		if c.Error != "" {
			tok.EncodeText(text, true, true)
			continue
		}
		get := func(key, fallback string, def []llm.Token) []llm.Token {
			for _, k := range []string{key, fallback} {
				if ids, ok := c.IDs[k]; ok {
					return ids
				}
			}
			return def
		}
		for _, k := range []struct {
			name       string
			add, parse bool
			want       []llm.Token
		}{
			{"plain", false, false, plain},
			{"parse", false, true, get("parse", "", plain)},
			{"add", true, false, get("add", "", plain)},
			{"add_parse", true, true, get("add_parse", "add", plain)},
		} {
			if got := tok.EncodeText(text, k.add, k.parse); !slices.Equal(got, k.want) {
				t.Errorf("case %d %q %s:\n got %v\nwant %v", i, text, k.name, got, k.want)
			}
		}
		ids := get("add_parse", "add", plain)
		if got := tok.Decode(ids, false); !bytes.Equal(got, c.Plain) {
			t.Errorf("case %d %q decoded to %q, want %q", i, text, got, c.Plain)
		}
		if got := tok.Decode(ids, true); !bytes.Equal(got, c.Special) {
			t.Errorf("case %d %q decoded with special tokens to %q, want %q", i, text, got, c.Special)
		}
	}
}

func readVectors(t *testing.T, data []byte) vectors {
	t.Helper()
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestGoldenVocab compares with the vectors stored next to the small vocabularies.
func TestGoldenVocab(t *testing.T) {
	var manifest struct {
		Vocabs []struct {
			Name, File string
			Cases      string `json:"cases_file"`
			Pair       bool
		}
	}
	if err := json.Unmarshal(golden.Read(t, "vocab", "manifest.json"), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Vocabs) == 0 {
		t.Fatal("no vocabularies in the manifest")
	}
	for _, m := range manifest.Vocabs {
		t.Run(m.Name, func(t *testing.T) {
			path := golden.Path(t, "vocab", m.File)
			tok := open(t, path)
			readVectors(t, golden.Read(t, "vocab", m.Cases)).run(t, tok)
			if m.Pair {
				testPair(t, tok, path)
			}
		})
	}
}

// TestGoldenModels compares with the vectors of the two real models.
func TestGoldenModels(t *testing.T) {
	for name, path := range map[string]func(testing.TB) string{"smollm2": testmodel.SmolLM2, "gemma3": testmodel.Gemma3} {
		t.Run(name, func(t *testing.T) {
			readVectors(t, golden.Read(t, "models", "tokenizer", name+".json")).run(t, open(t, path(t)))
		})
	}
}

// TestGoldenPrompts compares with the prompts of the two real models, in one piece
// and split at every place where a word may continue.
func TestGoldenPrompts(t *testing.T) {
	for name, path := range map[string]func(testing.TB) string{"smollm2": testmodel.SmolLM2, "gemma3": testmodel.Gemma3} {
		var real struct {
			Greedy   []prompt
			Template struct{ Cases []prompt } `json:"chat_template"`
		}
		if err := json.Unmarshal(golden.Read(t, "models", "real", name+".json"), &real); err != nil {
			t.Fatal(err)
		}
		tok := open(t, path(t))
		prompts := append(real.Greedy, real.Template.Cases...)
		if len(prompts) == 0 {
			t.Fatal("no prompts")
		}
		for _, p := range prompts {
			whole := tok.Encode(nil, []Piece{{p.Rendered, true}}, Options{AddSpecial: true, ParseSpecial: true})
			var pieces []Piece
			for _, line := range strings.SplitAfter(p.Rendered, "\n") {
				words := strings.SplitAfter(line, " ")
				for i, w := range words {
					pieces = append(pieces, Piece{w, i%2 == 0 || strings.ContainsAny(w, "<|>")})
				}
			}
			parts := tok.Encode(nil, pieces, Options{AddBOS: true, ParseSpecial: true})
			if !slices.Equal(whole, p.Tokens) || !slices.Equal(parts, p.Tokens) {
				t.Errorf("%s: %q:\n got %v\n and %v\nwant %v", name, p.Rendered, whole, parts, p.Tokens)
			}
		}
	}
}

// prompt is a text in golden/models/real with its tokens.
type prompt struct {
	Rendered string
	Tokens   []llm.Token
}

// TestSourceVocabs compares with the .inp and .out files of the larger
// vocabularies.
func TestSourceVocabs(t *testing.T) {
	pairs, err := filepath.Glob(strings.TrimSuffix(sourceVocab(t, "*"), ".gguf") + ".gguf.inp")
	if err != nil || len(pairs) < 15 {
		t.Fatalf("%d pairs, error %v", len(pairs), err)
	}
	for _, inp := range pairs {
		path := strings.TrimSuffix(inp, ".inp")
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "ggml-vocab-"), ".gguf")
		t.Run(name, func(t *testing.T) { testPair(t, open(t, path), path) })
	}
}

// testPair reads path.inp and path.out, which contain texts between lines of
// __ggml_vocab_test__ and one line of ids for each text.
func testPair(t *testing.T, tok *Tokenizer, path string) {
	t.Helper()
	inp, err := os.ReadFile(path + ".inp")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(path + ".out")
	if err != nil {
		t.Fatal(err)
	}
	texts := strings.Split(string(inp), "\n__ggml_vocab_test__\n")
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(texts) == len(lines)+1 && texts[len(lines)] == "" { // after the last separator
		texts = texts[:len(lines)]
	}
	if len(texts) != len(lines) {
		t.Fatalf("%d texts for %d lines", len(texts), len(lines))
	}
	for i, line := range lines {
		var want []llm.Token
		for _, f := range strings.Fields(line) {
			id, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, llm.Token(id))
		}
		if got := tok.EncodeText(texts[i], false, false); !slices.Equal(got, want) {
			t.Errorf("text %d %q:\n got %v\nwant %v", i, texts[i], got, want)
		}
	}
}

// TestTinyVocabs loads the vocabularies of the small models and encodes and decodes
// text.
func TestTinyVocabs(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(golden.Smalls(t), "*.gguf"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, error %v", len(paths), err)
	}
	const text = "The café's 12345 ids \n\n don't matter: 世界 🙂"
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			tok := open(t, path)
			ids := tok.EncodeText(text, true, false)
			if got := string(tok.Decode(ids, false)); strings.TrimPrefix(got, " ") != text {
				t.Errorf("%v decoded to %q", ids, got)
			}
		})
	}
}
