package openai

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"godwit/engine"
)

// Tokens that are parts of characters have separate bytes. Offsets count characters
// of the text, in one piece or in several. Of two tokens with the same text, the
// more likely one counts.
func TestTextLogprobs(t *testing.T) {
	top := []engine.TopToken{{Bytes: []byte{0xe4}, Logprob: -1}, {Bytes: []byte{0xe5}, Logprob: -2}, {Bytes: []byte("\n"), Logprob: -3}, {Bytes: []byte("\n"), Logprob: -4}}
	var tokens []engine.Token
	for _, b := range []string{"a", "\xe4", "\xb8", "\x96b", "é", "\xff", "c"} {
		tokens = append(tokens, engine.Token{Bytes: []byte(b), Logprob: -1, Top: top})
	}
	want := TextLogprobs{
		Tokens:  []string{"a", `bytes:\xe4`, `bytes:\xb8`, `bytes:\x96\x62`, "é", `bytes:\xff`, "c"},
		Offsets: []int{0, 1, 1, 1, 3, 4, 5},
	}
	for range tokens {
		want.Logprobs = append(want.Logprobs, -1)
		want.Top = append(want.Top, map[string]float64{`bytes:\xe4`: -1, `bytes:\xe5`: -2, "\n": -3})
	}
	whole := newTextLogprobs(place{})
	whole.add(tokens)
	pieces := newTextLogprobs(place{})
	var at place
	for i := range tokens {
		l := newTextLogprobs(at)
		l.add(tokens[i : i+1])
		at = l.at
		pieces.Tokens, pieces.Logprobs = append(pieces.Tokens, l.Tokens...), append(pieces.Logprobs, l.Logprobs...)
		pieces.Top, pieces.Offsets = append(pieces.Top, l.Top...), append(pieces.Offsets, l.Offsets...)
	}
	for _, got := range []*TextLogprobs{whole, pieces} {
		got.at = place{}
		if d := cmp.Diff(want, *got, cmp.AllowUnexported(TextLogprobs{}, place{})); d != "" {
			t.Error(d)
		}
	}
}
