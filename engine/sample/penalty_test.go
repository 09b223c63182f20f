package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"godwit/engine/llm"
)

func TestCountsAreAMultiset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, want := newCounts(0), map[llm.Token]int32{}
		for _, op := range rapid.SliceOfN(rapid.IntRange(-40, 40), 0, 400).Draw(t, "ops") {
			tok := llm.Token(max(op, -op))
			if op >= 0 {
				c.add(tok)
				want[tok]++
			} else {
				c.remove(tok)
				if want[tok]--; want[tok] <= 0 {
					delete(want, tok)
				}
			}
		}
		got := map[llm.Token]int32{}
		for _, s := range c.slots {
			if s.n != 0 {
				got[s.tok] = s.n
			}
		}
		if len(got) != len(want) || c.used != len(want) {
			t.Fatalf("%d tokens, %d used, want %d", len(got), c.used, len(want))
		}
		for tok, n := range want {
			if got[tok] != n || c.slots[c.find(tok)].n != n {
				t.Fatalf("token %d: %d, want %d", tok, got[tok], n)
			}
		}
	})
}

func TestPenalties(t *testing.T) {
	history := []llm.Token{5, 1, 1, 2, 1}
	logits := []float32{1, 2, -3, 4, 5, 6}
	for name, c := range map[string]struct {
		p    Params
		want []float32
	}{
		"repeat":    {Params{RepeatPenalty: 2, RepeatLastN: -1}, []float32{1, 1, -6, 4, 5, 3}},
		"window":    {Params{RepeatPenalty: 2, RepeatLastN: 4}, []float32{1, 1, -6, 4, 5, 6}},
		"frequency": {Params{FrequencyPenalty: 0.5, RepeatLastN: 64}, []float32{1, 0.5, -3.5, 4, 5, 5.5}},
		"presence":  {Params{PresencePenalty: 0.5, RepeatLastN: 2}, []float32{1, 1.5, -3.5, 4, 5, 6}},
		"negative":  {Params{PresencePenalty: -1, RepeatLastN: 1}, []float32{1, 3, -3, 4, 5, 6}},
		"none":      {Params{RepeatPenalty: 2}, logits},
		"bias":      {Params{LogitBias: map[llm.Token]float64{0: -1, 2: math.Inf(-1)}}, []float32{0, 2, float32(math.Inf(-1)), 4, 5, 6}},
		"both": {
			Params{LogitBias: map[llm.Token]float64{1: 2}, RepeatPenalty: 2, RepeatLastN: 1},
			[]float32{1, 2, -3, 4, 5, 6},
		},
	} {
		s := mustNew(t, c.p, len(logits), nil)
		s.Prime(history)
		row := slices.Clone(logits)
		s.adjust(row)
		if !slices.Equal(row, c.want) {
			t.Errorf("%s: %v, want %v", name, row, c.want)
		}
		s.restore(row)
		if !slices.Equal(row, logits) {
			t.Errorf("%s: restored to %v", name, row)
		}
	}
}

// The window's counts stay correct while the history is shortened many times.
func TestWindowMoves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const window = 7
	s := mustNew(t, Params{PresencePenalty: 1, RepeatLastN: window}, 20, nil)
	var hist []llm.Token
	for range 500 {
		tok := llm.Token(rng.IntN(20))
		s.Accept(tok)
		hist = append(hist, tok)
		last := hist[max(0, len(hist)-window):]
		for id := range llm.Token(20) {
			n := 0
			for _, h := range last {
				if h == id {
					n++
				}
			}
			if got := s.seen.slots[s.seen.find(id)].n; int(got) != n {
				t.Fatalf("after %d tokens: token %d counted %d times, want %d", len(hist), id, got, n)
			}
		}
	}
}

// naiveDRY finds, for each token, the longest passage that it would repeat.
func naiveDRY(hist []llm.Token, since int) map[llm.Token]int {
	out := map[llm.Token]int{}
	for i := range len(hist) - 1 {
		n := 0
		for n <= i && n < since && hist[i-n] == hist[len(hist)-1-n] {
			n++
		}
		if n > 0 {
			out[hist[i+1]] = max(out[hist[i+1]], n)
		}
	}
	return out
}

func TestDRYAgainstTheDefinition(t *testing.T) {
	pieces := []string{"a", "b", "c", "x\n", "-", "-y"}
	piece := func(t llm.Token) []byte { return []byte(pieces[t]) }
	rapid.Check(t, func(t *rapid.T) {
		toks := rapid.SliceOfN(rapid.Int32Range(0, 5), 0, 80).Draw(t, "tokens")
		p := Params{
			DRYMultiplier: 2, DRYBase: 3, DRYAllowedLength: rapid.IntRange(1, 4).Draw(t, "allowed"),
			DRYLastN: rapid.SampledFrom([]int{-1, 0, 1, 5, 30}).Draw(t, "last"), DRYBreakers: []string{"\n", "--"},
		}
		s, err := New(p, len(pieces), piece)
		if err != nil {
			t.Fatal(err)
		}
		s.Prime(toks)
		row := make([]float32, len(pieces))
		s.adjust(row)

		since, text := len(toks), ""
		for i, tok := range toks { // a breaker ends in token i if it starts before it and was not complete before
			was := len(text)
			text += pieces[tok]
			for _, b := range p.DRYBreakers {
				if strings.Contains(text[max(0, was-len(b)+1):], b) {
					since = len(toks) - 1 - i
				}
			}
		}
		hist := toks
		if p.DRYLastN >= 0 {
			hist = toks[max(0, len(toks)-p.DRYLastN):]
		}
		want := make([]float32, len(pieces))
		for tok, n := range naiveDRY(hist, since) {
			if n >= p.DRYAllowedLength && !strings.Contains(pieces[tok], "\n") {
				want[tok] = -float32(2 * math.Pow(3, float64(n-p.DRYAllowedLength)))
			}
		}
		for i := range want {
			// powers of three below 2²⁴ are exact
			if d := math.Abs(float64(row[i] - want[i])); d > 1e-6*math.Abs(float64(want[i])) {
				t.Fatalf("history %v, %+v: token %d gets %v, want %v", toks, p, i, row[i], want[i])
			}
		}
	})
}

func TestDRYStaysFinite(t *testing.T) {
	s := mustNew(t, Params{DRYMultiplier: 100, DRYBase: 100, DRYLastN: -1}, 2, nil)
	for range 5000 {
		s.Accept(1)
	}
	if tok, err := s.Sample([]float32{-50, 50}, nil); err != nil || tok != 0 {
		t.Errorf("token %d, error %v", tok, err)
	}
}
