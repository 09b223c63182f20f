package engine

import (
	"testing"

	"godwit/engine/grammar"
	"godwit/engine/llm"
)

// A grammar allows a text only as tokens that show it. The name of the unknown token or
// of a control token is thus spelt with ordinary tokens.
func TestGrammarTokensShowText(t *testing.T) {
	tok := openVocab(t, "llama-spm")
	tokens, err := grammar.NewTokens(vocabulary{tok, tok.VocabSize()})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []llm.Token{tok.Unknown(), tok.BOS()} {
		if tok.Text(id) == "" {
			t.Fatalf("token %d has no name", id)
		}
		b := grammar.NewBuilder()
		if err := b.AddLiteral("root", tok.Text(id)); err != nil {
			t.Fatal(err)
		}
		g, err := b.Grammar("root")
		if err != nil {
			t.Fatal(err)
		}
		c, err := grammar.Compile(g, tokens)
		if err != nil {
			t.Fatal(err)
		}
		s, mask := c.Start(), tokens.NewMask()
		var text []byte
		for !s.Complete() {
			if err := s.Mask(mask); err != nil {
				t.Fatal(err)
			}
			if mask.Has(id) {
				t.Fatalf("token %d %q is allowed where its name is text", id, tok.Text(id))
			}
			next := llm.Token(0)
			for !mask.Has(next) {
				next++
			}
			if err := s.Accept(next); err != nil {
				t.Fatal(err)
			}
			text = tok.AppendPiece(text, next, false)
		}
		if string(text) != tok.Text(id) {
			t.Errorf("the tokens show %q, want %q", text, tok.Text(id))
		}
	}
}
