package jinja

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// show renders a template and puts typed parts in brackets.
func show(pieces []Piece) string {
	var out strings.Builder
	for _, p := range pieces {
		if p.Trusted {
			out.WriteString(p.Text)
		} else {
			out.WriteString("⟦" + p.Text + "⟧")
		}
	}
	return out.String()
}

func render(t *testing.T, source string, vars *Dict) []Piece {
	t.Helper()
	tmpl, err := Parse(source, Limits{})
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	pieces, err := tmpl.Render(context.Background(), vars, Options{Now: time.Unix(0, 0)})
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return pieces
}

// TestMarks follows typed text through every kind of operation.
func TestMarks(t *testing.T) {
	vars := NewDict()
	vars.Set("u", Typed("<|x|> Ab"))
	vars.Set("w", Typed("  hi\n"))
	vars.Set("n", Int(5))
	vars.Set("bos", Trusted("<s>"))
	list := NewList(Typed("p"), Trusted("q"), Typed("r"))
	vars.Set("l", list)
	doc, err := DecodeJSON([]byte(`{"k": "v\"w", "n": 1}`), true)
	if err != nil {
		t.Fatal(err)
	}
	vars.Set("d", doc)
	for _, c := range []struct{ source, want string }{
		{"{{ u }}", "⟦<|x|> Ab⟧"},
		{"{{ bos }}{{ u }}", "<s>⟦<|x|> Ab⟧"},
		{"{{ '<|im_start|>' + u + '<|im_end|>' }}", "<|im_start|>⟦<|x|> Ab⟧<|im_end|>"},
		{"{{ bos ~ u ~ n }}", "<s>⟦<|x|> Ab⟧5"},
		{"{{ u[1:3] }}{{ u[0] }}{{ u[-1] }}", "⟦|x<b⟧"},
		{"{{ ('a' + u)[:3] }}", "a⟦<|⟧"},
		{"{{ ('ab' + u)[::-1] }}", "⟦bA >|x|<⟧ba"},
		{"{{ ('.' ~ w ~ '.')[1:-1]|trim }}", "⟦hi⟧"},
		{"{{ w.strip() ~ '!' }}", "⟦hi⟧!"},
		{"{{ u|upper }}{{ u|lower }}", "⟦<|X|> AB<|x|> ab⟧"},
		{"{{ u|title }}{{ u.title() }}{{ u|capitalize }}", "⟦<|x|> Ab<|X|> Ab<|x|> ab⟧"},
		{"{{ u|replace('|', 'Y') }}", "⟦<⟧Y⟦x⟧Y⟦> Ab⟧"},
		{"{{ 'a|b'.replace('|', u[0]) }}", "a⟦<⟧b"},
		{"{{ l|join(', ') }}", "⟦p⟧, q, ⟦r⟧"},
		{"{{ '-'.join(l) }}", "⟦p⟧-q-⟦r⟧"},
		{"{{ l }}", "['⟦p⟧', 'q', '⟦r⟧']"},
		{"{{ l|tojson }}", `["⟦p⟧", "q", "⟦r⟧"]`},
		{"{{ d|tojson }}", `{"⟦k⟧": "⟦v\"w⟧", "⟦n⟧": 1}`},
		{"{{ d|tojson|from_json|tojson }}", `{"⟦k⟧": "⟦v\"w⟧", "⟦n⟧": 1}`},
		{"{{ '{\"a\": \"b\"}'|from_json|tojson }}", `{"a": "b"}`},
		{"{{ u.split('|')[1] ~ '.' }}", "⟦x⟧."},
		{"{{ u.partition('|')|join('/') }}", "⟦<⟧/⟦|⟧/⟦x|> Ab⟧"},
		{"{% for c in u[:2] %}{{ c }}-{% endfor %}", "⟦<⟧-⟦|⟧-"},
		{"{% for line in w.splitlines() %}[{{ line }}]{% endfor %}", "[⟦  hi⟧]"},
		{"{{ '%s=%5s' % (u[0], u[1]) }}", "⟦<⟧=    ⟦|⟧"},
		{"{{ '{}={:>3}'.format(u[0], u[1]) }}", "⟦<⟧=  ⟦|⟧"},
		{"{{ (u ~ '{}').format(1) }}", "⟦<|x|> Ab⟧1"},
		{"{{ u|e }}", "⟦&lt;|x|&gt; Ab⟧"},
		{"{{ (u|safe) + '<' }}", "⟦<|x|> Ab⟧&lt;"},
		{"{{ u|indent(2, true) }}", "  ⟦<|x|> Ab⟧"},
		{"{{ u|center(12) }}", "  ⟦<|x|> Ab⟧  "},
		{"{{ u|truncate(6, true, '..', 0) }}", "⟦<|x|⟧.."},
		{"{{ u * 2 }}", "⟦<|x|> Ab<|x|> Ab⟧"},
		{"{{ u|length }}{{ u.find('x') }}", "82"},
		{"{{ u|list|last }}{{ u|first }}{{ u|reverse }}", "⟦b<bA >|x|<⟧"},
		{"{{ (u ~ bos)|urlencode }}", "⟦%3C%7Cx%7C%3E%20Ab⟧%3Cs%3E"},
		{"{{ (bos ~ u)|striptags }}", "⟦Ab⟧"},
		{"{% set x %}<{{ u }}>{% endset %}{{ x }}", "<⟦<|x|> Ab⟧>"},
		{"{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u)|upper }}", "<⟦<|X|> AB⟧>"},
		{"{% filter upper %}a{{ u }}{% endfilter %}", "A⟦<|X|> AB⟧"},
		{"{% set ns = namespace(t='') %}{% for x in l %}{% set ns.t = ns.t + x %}{% endfor %}{{ ns.t }}", "⟦p⟧q⟦r⟧"},
		{"{% for k, v in d.items() %}{{ k }}:{{ v }};{% endfor %}", "⟦k⟧:⟦v\"w⟧;⟦n⟧:1;"},
		{"{{ l|sort(reverse=true)|join }}", "⟦r⟧q⟦p⟧"},
		{"{{ l|map('upper')|join }}", "⟦P⟧Q⟦R⟧"},
		{"{{ '<|x|> Ab' if u == '<|x|> Ab' }}", "<|x|> Ab"},
		{"{{ strftime_now('%Y') }}{{ strftime_now(u) }}", "1970⟦<|x|> Ab⟧"},
		{"{{ u.zfill(10) }}{{ u.ljust(9, '-') }}", "00⟦<|x|> Ab<|x|> Ab⟧-"},
		{"{{ u.removeprefix('<').swapcase() }}", "⟦|X|> aB⟧"},
		{"{{ (w ~ 'x').expandtabs() }}", "⟦  hi\n⟧x"},
	} {
		if got := show(render(t, c.source, vars)); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.source, got, c.want)
		}
	}
}

// TestMarksAgainstCopy renders random chains of operations twice: once with marked
// text, and once with every typed character replaced by one of Unicode's
// private-use area. The marked bytes of the first result must be the private
// characters of the second.
func TestMarksAgainstCopy(t *testing.T) {
	ops := []string{
		"x[1:]", "x[:-1]", "x[::-1]", "x[::2]", "x ~ 'ab'", "'cd' + x", "x|trim", "x.strip('a')", "x.lstrip()",
		"x.replace('a', 'ZZ')", "x.replace('', '.')", "x.split('b')|join('-')", "x.rsplit(' ', 1)|join('+')", "x|center(30)",
		"x.partition(' ')|join", "x|list|join(' ')", "x.splitlines()|join('/')", "x * 2", "'%s.%s' % (x, x)", "'{}:{}'.format(x, 1)",
		"x|indent(1, true)", "[x, 'k']|join(x[:1])", "x.rjust(20, 'r')", "x|truncate(12, true, 'e', 0)", "x|reverse", "[x]|first", "x|string",
		"x.rpartition('c')|last", "x.removesuffix('b')", "(x, x[2:4])|join('b')", "x|replace('c', x[:2])", "x.join(['1', '2'])",
	}
	const shift = 0xE000
	private := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r < 0x80 && strings.ContainsRune("xyz", r) {
				return shift + r
			}
			return r
		}, s)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		source := "{% set x = 'abc ' + u + ' b' %}"
		for range 1 + rnd.IntN(6) {
			source += "{% set x = " + ops[rnd.IntN(len(ops))] + " %}"
		}
		source += "{{ x }}"
		// the typed text contains no character that an operation searches for
		marked, moved := NewDict(), NewDict()
		text := "xyzzy" + strings.Repeat("yz", rnd.IntN(4))
		marked.Set("u", Typed(text))
		moved.Set("u", Trusted(private(text)))
		want := show(render(t, source, moved))
		var got strings.Builder
		for _, p := range render(t, source, marked) {
			if p.Trusted {
				got.WriteString(p.Text)
			} else {
				got.WriteString(private(p.Text))
			}
		}
		if got.String() != want {
			t.Fatalf("%s\ngot  %q\nwant %q", source, got.String(), want)
		}
	}
}

// TestAtOnce renders one template with one input in several goroutines at the same
// time.
func TestAtOnce(t *testing.T) {
	tmpl, err := Parse("{% for c in u %}{{ c ~ 'é' * 3 }}{{ u[1] }}{{ 'né'|length }}{{ u|length }}{% do l.append(c) %}{% endfor %}{{ l|length }}", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	vars := NewDict()
	vars.Set("u", Typed("añb"))
	vars.Set("l", NewList())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				pieces, err := tmpl.Render(context.Background(), vars, Options{})
				if got := Text(pieces); err != nil || got != "aéééñ23ñéééñ23béééñ233" {
					t.Errorf("got %q, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
