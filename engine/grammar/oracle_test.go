package grammar

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// writer writes random expressions in two notations: GBNF and that of the regexp
// package.
type writer struct{ rng *rand.Rand }

func (w writer) expr(depth int) (gbnf, re string) {
	switch n := w.rng.IntN(8); {
	case depth == 0 || n < 2:
		c := []string{"a", "b", "ab", "é", "aé"}[w.rng.IntN(5)]
		return `"` + c + `"`, c
	case n == 2:
		c := []string{"[ab]", "[^a]", "[b-é]", "[^b\\u00e0-\\u00ff]"}[w.rng.IntN(4)]
		return c, strings.NewReplacer(`\u00e0`, `\x{e0}`, `\u00ff`, `\x{ff}`).Replace(c)
	case n < 5:
		g1, r1 := w.expr(depth - 1)
		g2, r2 := w.expr(depth - 1)
		return g1 + " " + g2, r1 + r2
	case n == 5:
		g1, r1 := w.expr(depth - 1)
		g2, r2 := w.expr(depth - 1)
		return "(" + g1 + " | " + g2 + ")", "(?:" + r1 + "|" + r2 + ")"
	}
	g, r := w.expr(depth - 1)
	op := []string{"*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,40}", "{30,60}", "{25,}"}[w.rng.IntN(9)]
	return "(" + g + ")" + op, "(?:" + r + ")" + op
}

// text draws a short text over the alphabet, sometimes with many repetitions.
func (w writer) text() string {
	var b strings.Builder
	for range w.rng.IntN(6) {
		b.WriteString(strings.Repeat([]string{"a", "b", "é", "ab", "c", "aé", "d"}[w.rng.IntN(7)], 1+w.rng.IntN(1+w.rng.IntN(70))))
	}
	return b.String()
}

func TestGBNFAgainstRegexp(t *testing.T) {
	toks := newTokens(t, newVocab())
	w := writer{rand.New(rand.NewPCG(1, 9))}
	matched := 0
	for range 1500 {
		text, pattern := w.expr(4)
		re, err := regexp.Compile(`^(?:` + pattern + `)$`)
		if err != nil {
			continue // regexp limits nested repetitions
		}
		c := compile(t, gbnf(t, "root ::= "+text), toks)
		for range 30 {
			s := w.text()
			want := re.MatchString(s)
			if got := accepts(t, c, s); got != want {
				t.Fatalf("%s on %q: %v, want %v", text, s, got, want)
			}
			if want {
				matched++
			}
		}
	}
	if matched < 1000 {
		t.Errorf("%d texts matched", matched)
	}
}

// Schema patterns match the same texts as the regexp package: alone, combined with
// lengths, and excluding one another.
func TestPatternsAgainstRegexp(t *testing.T) {
	toks := newTokens(t, newVocab())
	w := writer{rand.New(rand.NewPCG(2, 9))}
	built := 0
	for i := range 300 {
		_, pattern := w.expr(3)
		pattern = strings.NewReplacer(`\x{e0}`, "à", `\x{ff}`, "ÿ").Replace(pattern)
		switch i % 4 {
		case 0:
			pattern = "^(?:" + pattern + ")$"
		case 1:
			pattern = "^" + pattern + "|" + pattern + "$"
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			continue
		}
		lo, hi := w.rng.IntN(4), 4+w.rng.IntN(60)
		for _, limits := range []string{"", fmt.Sprintf(`,"minLength":%d,"maxLength":%d`, lo, hi)} {
			g, err := FromSchema([]byte(`{"type":"string","pattern":` + quoted(pattern) + limits + `}`))
			if err != nil {
				continue // the automaton has too many states, or the texts exceed the limits
			}
			c, err := Compile(g, toks)
			if err != nil {
				t.Fatal(err)
			}
			built++
			for range 20 {
				s := w.text()
				n := len([]rune(s))
				want := re.MatchString(s) && (limits == "" || n >= lo && n <= hi)
				if got := accepts(t, c, quoted(s)); got != want {
					t.Fatalf("%s %s on %q: %v, want %v", pattern, limits, s, got, want)
				}
			}
		}
	}
	if built < 250 {
		t.Errorf("%d schemas built", built)
	}
}

func TestAutomataOfTexts(t *testing.T) {
	w := writer{rand.New(rand.NewPCG(3, 9))}
	for range 300 {
		_, p := w.expr(3)
		_, q := w.expr(3)
		re1, err1 := regexp.Compile(`^(?:` + p + `)$`)
		re2, err2 := regexp.Compile(`^(?:` + q + `)$`)
		if err1 != nil || err2 != nil {
			continue
		}
		automaton := func(src string) *dfa {
			e, err := parseRegex("^(?:" + strings.NewReplacer(`\x{e0}`, "à", `\x{ff}`, "ÿ").Replace(src) + ")$")
			if err != nil {
				t.Fatal(err)
			}
			d, err := newDFA(e, new(int))
			if err != nil {
				t.Skip(err)
			}
			return d
		}
		a, b := automaton(p), automaton(q)
		both, err1 := a.intersect(b, new(int))
		only, err2 := a.without(b, new(int))
		if err1 != nil || err2 != nil {
			continue
		}
		for range 30 {
			s := w.text()
			x, y := re1.MatchString(s), re2.MatchString(s)
			if a.match(s) != x || both.match(s) != (x && y) || only.match(s) != (x && !y) {
				t.Fatalf("%s and %s on %q: %v %v %v, want %v %v %v", p, q, s, a.match(s), both.match(s), only.match(s), x, x && y, x && !y)
			}
		}
		if list := a.words(20); list != nil {
			for _, s := range list {
				if !re1.MatchString(s) {
					t.Fatalf("%s: word %q", p, s)
				}
			}
		}
	}
}

// Compares number ranges with arithmetic: all numbers near the bounds and many
// others, with and without decimals.
func TestNumbersAgainstArithmetic(t *testing.T) {
	toks := newTokens(t, newVocab())
	rng := rand.New(rand.NewPCG(4, 9))
	for range 300 {
		unit := []int{1, 4, 10, 100}[rng.IntN(4)] // the bounds are multiples of a quarter, tenth or hundredth
		lo := rng.IntN(4000) - 2000
		hi := lo + rng.IntN(1+rng.IntN(3000))
		step := []int{0, 0, 1, 3, 7, 25, 50}[rng.IntN(7)]
		kind := []string{"number", "integer"}[rng.IntN(2)]
		schema := fmt.Sprintf(`{"type":%q,"minimum":%v,"maximum":%v`, kind, float64(lo)/float64(unit), float64(hi)/float64(unit))
		if step > 0 {
			schema += fmt.Sprintf(`,"multipleOf":%v`, float64(step)/float64(unit))
		}
		g, err := FromSchema([]byte(schema + "}"))
		if err != nil {
			continue // the range is empty
		}
		c := compile(t, g, toks)
		for range 200 {
			n := lo - 5 + rng.IntN(hi-lo+10)
			if rng.IntN(4) == 0 {
				n = rng.IntN(8000) - 4000
			}
			want := n >= lo && n <= hi && (step == 0 || n%step == 0)
			text := fmt.Sprint(float64(n) / float64(unit))
			if n%unit != 0 && kind == "integer" {
				want = false
			}
			if got := accepts(t, c, text); got != want {
				t.Fatalf("%s on %s: %v, want %v", schema, text, got, want)
			}
		}
	}
}
