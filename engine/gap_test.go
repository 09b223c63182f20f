package engine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"godwit/engine/gguf"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
	"godwit/engine/tokenizer"
)

// openVocab opens a vocabulary. more adds keys to its metadata.
func openVocab(t *testing.T, name string, more ...gguf.KV) *tokenizer.Tokenizer {
	t.Helper()
	path := testmodel.Vocabulary(t, name)
	if more != nil {
		old, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for key, v := range old.KV.All() {
			more = append(more, gguf.KV{Key: key, Value: v})
		}
		var b bytes.Buffer
		if err := errors.Join(gguf.Write(&b, more, nil), old.Close()); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(t.TempDir(), "vocab.gguf")
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	tok, err := tokenizer.New(f.KV)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Special tokens of the vocabulary mark the parts of a gap's prompt. Text that looks
// like one of these tokens stays text.
func TestGapPrompt(t *testing.T) {
	tok := openVocab(t, "starcoder")
	got, err := gapPrompt(tok, Gap{
		Before: "a := <fim_suffix>", After: "\nreturn a", Files: []GapFile{{"b.go", "package b"}}, Begin: "f(",
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "<fim_prefix>a := <fim_suffix><fim_suffix>\nreturn a<fim_middle>f("
	text := string(tok.Decode(got, true))
	if len(text) < len(want) || text[len(text)-len(want):] != want {
		t.Errorf("the prompt is %q, want an end of %q", text, want)
	}
	marks := map[string]int{}
	for _, id := range got {
		marks[tok.Text(id)]++
	}
	for _, mark := range []string{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"} {
		if marks[mark] != 1 {
			t.Errorf("%d times %s as a token, want once", marks[mark], mark)
		}
	}
	if _, err := gapPrompt(openVocab(t, "llama-spm"), Gap{}); !errors.Is(err, ErrGap) {
		t.Errorf("a vocabulary without the tokens: %v", err)
	}
}

// After the suffix and middle tokens, a text continues where it was cut, so
// SentencePiece adds no dummy space there.
func TestGapDummySpace(t *testing.T) {
	tok := openVocab(t, "llama-spm", gguf.KV{Key: "tokenizer.ggml.prefix_token_id", Value: uint32(31997)},
		gguf.KV{Key: "tokenizer.ggml.suffix_token_id", Value: uint32(31998)}, gguf.KV{Key: "tokenizer.ggml.middle_token_id", Value: uint32(31999)})
	f := tok.FIM()
	split := func(tokens []llm.Token) (before, after, begin []llm.Token) {
		s, m := slices.Index(tokens, f.Suffix), slices.Index(tokens, f.Middle)
		return tokens[slices.Index(tokens, f.Prefix)+1 : s], tokens[s+1 : m], tokens[m+1:]
	}
	for _, word := range []string{"cd", " cd", "  cd", ""} {
		got, err := gapPrompt(tok, Gap{Before: word, After: word, Begin: word})
		if err != nil {
			t.Fatal(err)
		}
		before, after, begin := split(got)
		if want := tok.EncodeText(word, false, false); !slices.Equal(before, want) {
			t.Errorf("%q before the gap: %v, want %v", word, before, want)
		}
		for _, part := range [][]llm.Token{after, begin} {
			if text := string(tok.Decode(append([]llm.Token{f.Suffix}, part...), false)); text != string(tok.Piece(f.Suffix))+word {
				t.Errorf("%q behind a token: %v, which is %q", word, part, text)
			}
			if full := tok.EncodeText(word, false, false); word != "" && len(part) > len(full) {
				t.Errorf("%q behind a token: %v", word, part)
			}
		}
	}
}
