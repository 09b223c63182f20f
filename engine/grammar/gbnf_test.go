package grammar

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// accepts reports whether the grammar matches the text, fed byte by byte.
func accepts(t testing.TB, c *Compiled, text string) bool {
	t.Helper()
	st := c.Start()
	if err := st.AcceptText([]byte(text)); err != nil {
		if !errors.Is(err, ErrRejected) {
			t.Fatal(err)
		}
		return false
	}
	return st.Done()
}

func TestGBNF(t *testing.T) {
	toks := newTokens(t, newVocab(jsonTexts...))
	for _, c := range []struct {
		name, text string
		yes, no    []string
	}{
		{"literal", `root ::= "abc"`, []string{"abc"}, []string{"", "ab", "abcd", "abd"}},
		{"empty", `root ::= ""`, []string{""}, []string{"a"}},
		{"alternatives", `root ::= "a" | "bc" |`, []string{"a", "bc", ""}, []string{"b", "abc"}},
		{"alternatives on lines", "root ::= \"a\"\n  | \"b\" # more\n  | x\nx ::= \"c\"", []string{"a", "b", "c"}, []string{"d"}},
		{"group", `root ::= ("a" | "b" "c")+ "d"`, []string{"ad", "bcad"}, []string{"d", "bd"}},
		{"group on lines", "root ::= (\n \"a\"\n \"b\" # note\n)*\n", []string{"", "abab"}, []string{"a"}},
		{"star", `root ::= [a-c]* "x"`, []string{"x", "abcx"}, []string{"adx"}},
		{"optional", `root ::= "a"? "b"`, []string{"b", "ab"}, []string{"aab"}},
		{"exact", `root ::= "ab"{2}`, []string{"abab"}, []string{"ab", "ababab"}},
		{"at least", `root ::= "a"{2,}`, []string{"aa", "aaaaa"}, []string{"a"}},
		{"between", `root ::= "a"{1, 3}`, []string{"a", "aaa"}, []string{"", "aaaa"}},
		{"zero", `root ::= "a"{0} "b"`, []string{"b"}, []string{"ab"}},
		{"counted", `root ::= "a"{60,70}`, []string{strings.Repeat("a", 60), strings.Repeat("a", 70)}, []string{strings.Repeat("a", 59), strings.Repeat("a", 71)}},
		{"counted open", `root ::= "a"{60,}`, []string{strings.Repeat("a", 60), strings.Repeat("a", 170)}, []string{strings.Repeat("a", 59)}},
		{"counted in counted", `root ::= ("b" "a"{60,61} "c"){50}`, []string{strings.Repeat("b"+strings.Repeat("a", 60)+"c", 50)}, []string{
			strings.Repeat("b"+strings.Repeat("a", 60)+"c", 49), strings.Repeat("b"+strings.Repeat("a", 62)+"c", 50),
		}},
		{"counted rounds that may be empty", `root ::= ("a"? "b"?){60,70}`, []string{"", "ab", strings.Repeat("ab", 70), strings.Repeat("b", 70)}, []string{strings.Repeat("b", 71), "c"}},
		{"repeated loop", `root ::= (("a"*)* "b"*)+ "c"`, []string{"c", "aabbac"}, []string{"d"}},
		{"class", `root ::= [a-zA-Z0-9_-]`, []string{"q", "-", "_", "7"}, []string{".", "é"}},
		{"class of signs", `root ::= [\]\[\\^"-]`, []string{"]", "[", "\\", "^", "\"", "-"}, []string{"a"}},
		{"class in unicode", `root ::= [à-ÿ日\U0001F600-\U0001F64F]`, []string{"é", "日", "😀"}, []string{"a", "本", "\xc3", "😐😐"}},
		{"inverse class", `root ::= [^a-c\n]`, []string{"d", "é", "日", "😀", "\x00"}, []string{"a", "\n", "\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80"}},
		{"dot", `root ::= .`, []string{"a", "\n", "😀", "\U0010FFFF"}, []string{"", "ab", "\x80"}},
		{"escapes", `root ::= "\x41\u00e9\U0001F600\n\r\t\\\"\[\]"`, []string{"Aé😀\n\r\t\\\"[]"}, nil},
		{"recursion", `root ::= "(" root ")" | "x"`, []string{"x", "((x))"}, []string{"((x)", "()"}},
		{"recursion on the right", "root ::= item root | item\nitem ::= [0-9] \";\"", []string{"1;", "1;2;3;"}, []string{"", "1"}},
		{"recursion through an empty rule", "root ::= a root \"y\" | \"x\"\na ::= \"q\"", []string{"qqxyy"}, []string{"qx"}},
		{"unreachable and endless rules", "root ::= \"a\" | b\nb ::= \"b\" b", []string{"a"}, []string{"b", "bb"}},
		{"ambiguous", `root ::= ("a" | "a" "a" | "aa")* "b"`, []string{"aaab", "b"}, []string{"a"}},
		{"two ways back", "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"\"", []string{"", "aaabcb"}, []string{"aab"}},
		{"names", "root ::= A-b_9\nA-b_9 ::= \"x\"", []string{"x"}, nil},
		{"carriage returns", "root ::= a\r\na ::= \"x\"\r\n", []string{"x"}, nil},
		{"a token that the vocabulary has as text", `root ::= <tool> "x"`, []string{"<tool>x"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := compile(t, gbnf(t, c.text), toks)
			for _, s := range c.yes {
				if !accepts(t, g, s) {
					t.Errorf("%q is refused", s)
				}
			}
			for _, s := range c.no {
				if accepts(t, g, s) {
					t.Errorf("%q is accepted", s)
				}
			}
		})
	}
}

func TestGBNFErrors(t *testing.T) {
	toks := newTokens(t, newVocab())
	for text, want := range map[string]string{
		``:                                   `no rule "root"`,
		`x ::= "a"`:                          `no rule "root"`,
		"root ::= a b\nb ::= \"x\"":          `line 1, column 10: no rule "a"`,
		"root ::= \"a\"\nroot ::= \"b\"":     `line 2, column 1: rule "root" is defined twice`,
		`root = "a"`:                         `line 1, column 6: want ::=`,
		"root ::= \"a":                       `line 1, column 10: text without its closing quote`,
		"root ::= \"a\" \"b\n\"":             `line 1, column 14: text without`,
		`root ::= [a-`:                       `class without`,
		`root ::= [z-a]`:                     `column 11: range 'z' to 'a'`,
		`root ::= ("a"`:                      `want )`,
		`root ::= "a")`:                      `column 13: unexpected ')'`,
		`root ::= *`:                         `nothing to repeat`,
		`root ::= "a"{3,2}`:                  `at least 3 and at most 2`,
		`root ::= "a"{,2}`:                   `want a number`,
		`root ::= "a"{2`:                     `want }`,
		`root ::= "a"{99999999999999999999}`: `repetition of more than`,
		`root ::= "\q"`:                      `unknown escape`,
		`root ::= "\x4"`:                     `2 hexadecimal digits`,
		`root ::= "\uD800"`:                  `U+D800 is not a character`,
		`root ::= "\UFFFFFFFF"`:              `is not a character`,
		"root ::= \"\xff\"":                  `not UTF-8`,
		"root ::= \"é\" $":                   `line 1, column 14: unexpected '$'`,
		`root ::= <x`:                        `closing >`,
		`root ::= <[x]>`:                     `not a number`,
		`root ::= root "a" | "b"`:            `left recursion: root → root`,
		"root ::= a\na ::= b? c\nb ::= \"b\"\nc ::= \"q\"* a | \"z\"": `left recursion: a → c → a`,
		`root ::= "a" root`: `matches no text that ends`,
		`root ::= []`:       `matches no text that ends`,
		`root ::= <[9999]>`: `matches no text that ends`,
		"root ::= " + strings.Repeat("(", 500) + "\"a\"" + strings.Repeat(")", 500): `nest deeper`,
		"root ::= " + strings.Repeat("x", 1<<20):                                    `bytes`,
	} {
		g, err := ParseGBNF(text)
		if err == nil {
			_, err = Compile(g, toks)
		}
		if !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
}

// Texts drawn token by token through the mask match the grammar byte by byte. The
// mask contains exactly the tokens whose bytes are accepted one by one.
func TestMaskIsTheGrammar(t *testing.T) {
	v := newVocab(append(jsonTexts, "aa", "aaa", "ab", "(x", "))", ")b", "日", "1;2", ";3;")...)
	toks := newTokens(t, v)
	for name, text := range map[string]string{
		"json":      "root ::= v\nv ::= \"{\" (s \":\" v (\", \" s \":\" v)*)? \"}\" | s | [0-9]+ | \"[\" (v (\",\" v)*)? \"]\"\ns ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" [\"\\\\n])* \"\\\"\"",
		"nested":    `root ::= "(" root ")" | "x" | "(x" root "))"`,
		"ambiguous": `root ::= ("a" | "aa" | "ab" | "b" root ")")* ";"?`,
		"counted":   `root ::= ([a-c] | "日"){3,60} ";" [0-9;]{100}`,
		"two ways":  "root ::= s \";\"\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"\"",
		"tokens":    `root ::= "a"* <|call|> "b"* ([TOOL_CALLS] | <[258]>)?`,
		"control":   `root ::= ("a" | <|im_start|>){2,5}`,
	} {
		if name == "tokens" {
			text = strings.ReplaceAll(text, "[TOOL_CALLS]", "<|im_start|>")
		}
		t.Run(name, func(t *testing.T) {
			c := compile(t, gbnf(t, text), toks)
			rng := rand.New(rand.NewPCG(1, 1))
			mask := toks.NewMask()
			for range 40 {
				st := c.Start()
				for n := range 60 {
					if err := st.Mask(mask); err != nil {
						t.Fatal(err)
					}
					for tok := range int32(v.Size()) {
						err := st.Clone().Accept(tok)
						if (err == nil) != mask.Has(tok) {
							t.Fatalf("token %q: mask %v, accept %v", v.text[tok], mask.Has(tok), err)
						}
					}
					tok := pick(rng, mask, v, n > 30)
					if err := st.Accept(tok); err != nil {
						t.Fatal(err)
					}
					if v.IsEOG(tok) {
						break
					}
				}
			}
		})
	}
}
