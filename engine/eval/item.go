package eval

import (
	"context"
	"fmt"
	"math"
	"strings"

	"godwit/engine"
	"godwit/engine/llm"
	"godwit/engine/tokenizer"
)

// Floor is the share that f16 itself has to reach in a task. Below it the model
// is too small, and the result of a cache type means nothing.
const Floor = 0.5

// random is SplitMix64, so the items of a seed are the same on every machine and with
// every version of Go. Source: Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", 2014.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1.
func (r *random) below(n int) int { return int(r.next() % uint64(n)) }

// between returns a number from low to high, both included.
func (r *random) between(low, high int) int { return low + r.below(high-low+1) }

func (r *random) word(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.below(len(alphabet))]
	}
	return string(b)
}

// Share is a rate with its standard error.
type Share struct {
	Rate   float64 `json:"rate"`
	Stderr float64 `json:"stderr"`
	Items  int     `json:"items"`
}

// share turns a mean of zeros and ones into a Share.
func (m *mean) share() Share {
	if m.n == 0 {
		return Share{}
	}
	return Share{m.value(), m.stderr(), int(m.n)}
}

func (m *mean) hit(ok bool) {
	if ok {
		m.add(1)
	} else {
		m.add(0)
	}
}

// asker puts questions to a model at temperature 0.
type asker struct {
	e   *engine.Engine
	tok *tokenizer.Tokenizer
	// filler is running text between a fact and its question.
	filler []llm.Token
}

func newAsker(e *engine.Engine) (*asker, error) {
	tok, err := e.Model().Tokenizer()
	if err != nil {
		return nil, err
	}
	return &asker{e: e, tok: tok, filler: tok.EncodeText(readPart("prose"), false, false)}, nil
}

// start returns the beginning of a prompt.
func (a *asker) start() []llm.Token {
	if a.tok.AddBOS() && a.tok.BOS() >= 0 {
		return []llm.Token{a.tok.BOS()}
	}
	return nil
}

func (a *asker) encode(text string) []llm.Token { return a.tok.EncodeText(text, false, false) }

// fill returns n tokens of running text from a place that depends on seed.
func (a *asker) fill(n, seed int) []llm.Token {
	out := make([]llm.Token, n)
	at := seed * 7919
	for i := range out {
		out[i] = a.filler[(at+i)%len(a.filler)]
	}
	return out
}

// continueLine returns the rest of the line that the model writes. The model
// generates at most two tokens more than want has, which is enough to see whether
// it writes exactly want.
func (a *asker) continueLine(ctx context.Context, prompt []llm.Token, want string) (string, error) {
	text, _, err := answer(ctx, a.e, engine.Request{
		Tokens: prompt, MaxTokens: len(a.encode(" "+want)) + 2, Stop: []string{"\n"},
	})
	return strings.TrimSpace(text), err
}

// room rejects a prompt that does not fit into the context.
func (a *asker) room(what string, tokens int) error {
	if most := a.e.Context(); tokens > most {
		return fmt.Errorf("%w: %s of %d tokens does not fit into the context of %d", engine.ErrTooLong, what, tokens, most)
	}
	return nil
}

// repeated returns the share of runs of n tokens that occurred before.
func repeated(tokens []llm.Token, n int) float64 {
	if len(tokens) < n {
		return 0
	}
	seen := make(map[string]bool)
	again := 0
	for i := 0; i+n <= len(tokens); i++ {
		key := fmt.Sprint(tokens[i : i+n])
		if seen[key] {
			again++
		}
		seen[key] = true
	}
	return float64(again) / float64(len(tokens)-n+1)
}

// alike returns the length of the common prefix as a share of the longer list.
func alike(a, b []llm.Token) float64 {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	if longest := max(len(a), len(b)); longest > 0 {
		return float64(n) / float64(longest)
	}
	return 1
}

// tooSmall returns the note for a task that f16 itself does not pass.
func tooSmall(base Share) string {
	if base.Items == 0 || base.Rate >= Floor {
		return ""
	}
	return fmt.Sprintf("f16 itself scores %.2f, under the floor of %.2f: the model is too small for this task", base.Rate, Floor)
}

// round6 rounds to six digits, because more digits mean nothing.
func round6(x float64) float64 { return math.Round(x*1e6) / 1e6 }
