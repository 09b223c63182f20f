package grammar

import (
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/llm"
)

// testVocab is a small vocabulary: all single bytes, then the given texts, then
// control tokens, of which the first ends the generation.
type testVocab struct {
	text    [][]byte
	control int // first control token
}

func newVocab(texts ...string) *testVocab {
	v := &testVocab{}
	for b := range 256 {
		v.text = append(v.text, []byte{byte(b)})
	}
	for _, s := range texts {
		v.text = append(v.text, []byte(s))
	}
	v.control = len(v.text)
	for _, s := range []string{"<|end|>", "<|im_start|>", "<|call|>", "[TOOL_CALLS]"} {
		v.text = append(v.text, []byte(s))
	}
	return v
}

func (v *testVocab) Size() int                  { return len(v.text) }
func (v *testVocab) Bytes(t llm.Token) []byte   { return v.text[t] }
func (v *testVocab) IsEOG(t llm.Token) bool     { return int(t) == v.control }
func (v *testVocab) IsControl(t llm.Token) bool { return int(t) >= v.control }

// jsonTexts are tokens that span several JSON elements, and tokens that are half a
// character.
var jsonTexts = []string{
	`{"`, `":`, `": `, `": "`, `", "`, `","`, `"}`, `"},{"`, `}}`, `}]`, `]}`, `[]`, `{}`, `: [`, `, {`, `": {"`, `"a":`,
	`"name"`, `name`, `id`, `true`, `false`, `null`, `tru`, `12`, `345`, `0.`, `-1`, `e1`, ` "`, `  `, "\n", "\n\n", `\"`, `\\`, `\n`,
	`\u00`, "é", "\xc3", "日本", "\xe6\x97", "\xa5x", "hello", " world", "abc", `c"`, `x", "y`, `}, {"a": 1`, `2025-`, `01-`, `:00`, `@x.`, `.com`,
	`1,2`, `"x":0,"y":1`, `[1, [2, [`, `]]]`, `\u`, `d8`,
}

func newTokens(t testing.TB, v Vocab) *Tokens {
	t.Helper()
	toks, err := NewTokens(v)
	if err != nil {
		t.Fatal(err)
	}
	return toks
}

func compile(t testing.TB, g *Grammar, toks *Tokens) *Compiled {
	t.Helper()
	c, err := Compile(g, toks)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func gbnf(t testing.TB, text string) *Grammar {
	t.Helper()
	g, err := ParseGBNF(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// generate draws a text through the mask. After soft tokens it prefers the shortest
// way to end: an end token, or else closing characters.
func generate(t testing.TB, c *Compiled, v Vocab, rng *rand.Rand, soft, hard int) (text string, ok bool) {
	t.Helper()
	st, mask := c.Start(), c.toks.NewMask()
	var out, way []byte
	for n := range hard {
		if err := st.Mask(mask); err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		var tok llm.Token
		if n == soft+200 {
			way = shortest(st)
		}
		if len(way) > 0 {
			if tok, way = llm.Token(way[0]), way[1:]; !mask.Has(tok) {
				t.Fatalf("after %q: byte %q is refused on the shortest way out", out, tok)
			}
		} else {
			tok = pick(rng, mask, v, n > soft)
		}
		if err := st.Accept(tok); err != nil {
			t.Fatalf("after %q: an allowed token is refused: %v", out, err)
		}
		if v.IsEOG(tok) {
			if !st.Done() {
				t.Fatalf("after %q: an end token is allowed before the end", out)
			}
			return string(out), true
		}
		out = append(out, v.Bytes(tok)...)
	}
	return string(out), false
}

// shortest returns the fewest bytes that complete the text, or none if the search
// takes too long. The first 256 tokens are the bytes.
func shortest(st *State) []byte {
	type step struct {
		at   *stacks
		from int
		c    byte
	}
	seen := map[*stacks]bool{st.at: true}
	for steps, i := []step{{at: st.at, from: -1}}, 0; i < len(steps) && i < 200; i++ {
		if steps[i].at.empty {
			var way []byte
			for ; steps[i].from >= 0; i = steps[i].from {
				way = append(way, steps[i].c)
			}
			slices.Reverse(way)
			return way
		}
		for _, c := range st.c.m.rep {
			next := State{c: st.c, at: steps[i].at}
			if next.AcceptText([]byte{c}) == nil && !seen[next.at] {
				seen[next.at] = true
				steps = append(steps, step{next.at, i, c})
			}
		}
	}
	return nil
}

// pick draws from the mask with random logits. If closing is set, it prefers tokens
// that end the text.
func pick(rng *rand.Rand, mask Bitmask, v Vocab, hurry bool) llm.Token {
	best, tok := -1.0, llm.Token(-1)
	for t := range llm.Token(v.Size()) {
		if !mask.Has(t) {
			continue
		}
		x := rng.Float64()
		if hurry {
			switch b := v.Bytes(t); {
			case v.IsEOG(t):
				x += 10
			case len(b) > 0 && (b[0] == '"' || b[0] == ']' || b[0] == '}'):
				x += 2 + 1/float64(len(b))
			case len(b) == 1 && b[0] != ',' && b[0] != '[' && b[0] != '{':
				x++
			}
		}
		if x > best {
			best, tok = x, t
		}
	}
	return tok
}
