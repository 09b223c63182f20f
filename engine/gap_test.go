package engine

import (
	"errors"
	"testing"

	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/tokenizer"
)

func openVocab(t *testing.T, name string) *tokenizer.Tokenizer {
	t.Helper()
	f, err := gguf.Open(golden.Path(t, "vocab", "ggml-vocab-"+name+".gguf"))
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

// A gap is written between the tokens of the vocabulary; what looks like one of
// them in the text stays text.
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
