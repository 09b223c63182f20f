package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/engine/internal/spent"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

func (v *testVocab) find(t testing.TB, text string) llm.Token {
	t.Helper()
	for i, b := range v.text {
		if string(b) == text {
			return llm.Token(i)
		}
	}
	t.Fatalf("no token %q", text)
	return 0
}

func maskOf(t testing.TB, st *State) Bitmask {
	t.Helper()
	m := st.c.toks.NewMask()
	if err := st.Mask(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestState(t *testing.T) {
	v := newVocab("ab", "abc", "ab", "é", "")
	toks := newTokens(t, v)
	st := compile(t, gbnf(t, `root ::= "ab" ("c" | "é")?`), toks).Start()
	end := llm.Token(v.control)
	m := maskOf(t, st)
	for _, text := range []string{"a", "ab", "abc"} {
		if !m.Has(v.find(t, text)) {
			t.Errorf("%q is not allowed", text)
		}
	}
	if m.Has(end) || m.Has(v.find(t, "")) || m.Has(v.find(t, "<|call|>")) || st.Done() {
		t.Error("the end, an empty token or a control token is allowed at the start")
	}
	if twin := llm.Token(258); !m.Has(twin) || st.Clone().Accept(twin) != nil {
		t.Error("the second token with the same text is not allowed")
	}
	copied := st.Clone()
	if err := st.Accept(v.find(t, "ab")); err != nil {
		t.Fatal(err)
	}
	if m = maskOf(t, st); !m.Has(end) || !st.Done() || st.Complete() || !m.Has('c') || !m.Has(0xc3) || !m.Has(v.find(t, "é")) || m.Has('a') {
		t.Error("after ab: wrong mask")
	}
	if err := st.Accept('x'); !errors.Is(err, ErrRejected) {
		t.Errorf("x: %v", err)
	}
	for _, b := range []llm.Token{0xc3, 0xa9} { // é in two tokens
		if err := st.Accept(b); err != nil {
			t.Fatal(err)
		}
	}
	if !st.Complete() {
		t.Error("not complete after é")
	}
	if err := st.Accept(end); err != nil {
		t.Fatal(err)
	}
	if err := st.Accept('a'); !errors.Is(err, ErrRejected) {
		t.Errorf("after the end: %v", err)
	}
	if m := maskOf(t, copied); !m.Has('a') {
		t.Error("the copy moved")
	}
	for _, bad := range []llm.Token{-1, llm.Token(v.Size()), end} {
		if err := copied.Accept(bad); !errors.Is(err, ErrRejected) {
			t.Errorf("token %d: %v", bad, err)
		}
	}
	if err := copied.Mask(make(Bitmask, 1)); err == nil {
		t.Error("a mask of the wrong size is taken")
	}
	if copied.Set(st); !copied.Complete() {
		t.Error("Set")
	}
}

// A token that ends the generation may also occur in the grammar.
func TestNamedEnd(t *testing.T) {
	v := newVocab()
	end := llm.Token(v.control)
	st := compile(t, gbnf(t, `root ::= "a" <|end|> "b"?`), newTokens(t, v)).Start()
	if m := maskOf(t, st); m.Has(end) || !m.Has('a') {
		t.Error("wrong mask at the start")
	}
	if err := st.Accept('a'); err != nil {
		t.Fatal(err)
	}
	if m := maskOf(t, st); !m.Has(end) || m.Has('b') || st.Done() {
		t.Error("wrong mask before the end token")
	}
	if err := st.Accept(end); err != nil {
		t.Fatal(err)
	}
	if m := maskOf(t, st); !m.Has(end) || !m.Has('b') || !st.Done() {
		t.Error("wrong mask behind the end token")
	}
}

// If the vocabulary lacks bytes that the grammar needs, Mask returns an error
// instead of allowing the end.
func TestStuck(t *testing.T) {
	v := &testVocab{text: [][]byte{[]byte("a"), []byte("<end>")}, control: 1}
	st := compile(t, gbnf(t, `root ::= "ab"`), newTokens(t, v)).Start()
	if err := st.Accept(0); err != nil {
		t.Fatal(err)
	}
	if err := st.Mask(st.c.toks.NewMask()); !errors.Is(err, ErrStuck) {
		t.Errorf("got %v", err)
	}
}

func TestAfter(t *testing.T) {
	v := newVocab("call>", "<", "<tool_call>", `>{`, "l>x", "_call>\n")
	toks := newTokens(t, v)
	g, err := gbnf(t, `root ::= "\n"? "{" [a-z]* "}" ("</tool_call>" "\n"?)`).After("<tool_call>", "[TOOL_CALLS]", "ab", "xabc")
	if err != nil {
		t.Fatal(err)
	}
	c := compile(t, g, toks)
	for text, want := range map[string]bool{
		"":                               true,
		"hello <tool\n":                  true,
		"<tool_call":                     true,
		"<<tool_call>":                   false,
		"x<tool_call>{a}</tool_call>":    true,
		"<tool_call>\n{}</tool_call>\n":  true,
		"<tool_call>{}</tool_call> more": false,
		"<tool_call>x":                   false,
		"\xff\xfe":                       true,
		"[TOOL_CALLS]{}</tool_call>":     true, // as plain text, it is not a marker
		"xab{}</tool_call>":              true,
		"xabc":                           false, // the marker ab comes first
	} {
		if got := accepts(t, c, text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	st := c.Start()
	m := maskOf(t, st)
	if !m.Has(v.find(t, "<|im_start|>")) || !m.Has(v.find(t, "[TOOL_CALLS]")) || !m.Has(llm.Token(v.control)) {
		t.Error("free text does not allow control tokens and the end")
	}
	if err := st.AcceptText([]byte("<tool_cal")); err != nil {
		t.Fatal(err)
	}
	if m = maskOf(t, st); m.Has(v.find(t, "l>x")) || !m.Has('l') || !m.Has('x') {
		t.Error("a token that continues wrongly after the marker is allowed, or one byte is not")
	}
	if err := st.Accept('l'); err != nil {
		t.Fatal(err)
	}
	if m = maskOf(t, st); !m.Has(v.find(t, ">{")) {
		t.Error("a token that ends the marker and continues is not allowed")
	}
	st = c.Start()
	if err := st.Accept(v.find(t, "[TOOL_CALLS]")); err != nil {
		t.Fatal(err)
	}
	if m = maskOf(t, st); st.Done() || !m.Has('{') || m.Has('x') {
		t.Error("the marker's control token does not start the grammar")
	}
	must, err := g.Behind("</think>")
	if err != nil {
		t.Fatal(err)
	}
	c = compile(t, must, toks)
	for text, want := range map[string]bool{
		"": false, "hm": false, "hm</think>": true, "</think>x <tool_call>{}</tool_call>": true, "</think><tool_call>x": false,
	} {
		if got := accepts(t, c, text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for _, bad := range [][]string{nil, {""}, {"a", ""}} {
		if _, err := g.After(bad...); err == nil {
			t.Errorf("markers %q are taken", bad)
		}
	}
}

func TestPrefixAndBuilder(t *testing.T) {
	toks := newTokens(t, newVocab(jsonTexts...))
	b := NewBuilder()
	for _, err := range []error{
		b.AddRule("root", `call+`),
		b.AddRule("call", "weather |\n time # either"),
		b.AddRule("weather", `"{\"name\": \"weather\", \"arguments\": " weather-args "}"`),
		b.AddSchema("weather-args", []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)),
		b.AddGBNF("time ::= \"{\\\"name\\\": \\\"time\\\", \\\"arguments\\\": \" any \"}\""),
		b.AddJSON("any"),
		b.AddLiteral("unused", "\"\\"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	g, err := b.Grammar("root")
	if err != nil {
		t.Fatal(err)
	}
	c := compile(t, g.WithPrefix("<a>").WithSuffix("</a>"), toks)
	for text, want := range map[string]bool{
		`<a>{"name": "weather", "arguments": {"city":"x"}}</a>`:                                      true,
		`<a>{"name": "time", "arguments": {}}{"name": "time", "arguments": {"a":1}}</a>`:             true,
		`<a>{"name": "time", "arguments": {"a":1,"a":2}}</a>`:                                        false,
		`<a>{"name": "time", "arguments": {"a":1}}{"name": "time", "arguments": {"a":1,"b":{}}}</a>`: true,
		`<a>{"name": "weather", "arguments": {}}</a>`:                                                false,
		`{"name": "time", "arguments": {}}`:                                                          false,
	} {
		if got := accepts(t, c, text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for want, err := range map[string]error{
		"defined twice":     b.AddRule("call", `"x"`),
		"column 1":          b.AddRule("new", `$`),
		`rule name "a b"`:   b.AddRule("a b", `"x"`),
		"empty rule name":   b.AddRule("", `"x"`),
		"#: want a schema":  b.AddSchema("s", []byte(`1`)),
		`no rule "nowhere"`: func() error { _, err := b.Grammar("nowhere"); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestEqualGrammarsShare(t *testing.T) {
	toks := newTokens(t, newVocab())
	one, two := compile(t, JSON(), toks), compile(t, JSON(), toks)
	if one != two {
		t.Error("equal grammars are compiled twice")
	}
	seen := map[*Compiled]string{one: "json"}
	for _, text := range []string{`root ::= "a"`, `root ::= [a]`, `root ::= "a"?`, `root ::= "a"*`, `root ::= "a" "a"`, `root ::= "aa"`, "root ::= a\na ::= \"a\"", `root ::= <a>`, `root ::= <[1]>`} {
		c := compile(t, gbnf(t, text), toks)
		if other, ok := seen[c]; ok {
			t.Errorf("%s and %s share", text, other)
		}
		seen[c] = text
	}
	if n := len(toks.cache.list); n != maxCompiled {
		t.Errorf("%d kept, want %d", n, maxCompiled)
	}
}

// Uses states of one grammar in several goroutines. This test is for the race
// detector.
func TestConcurrent(t *testing.T) {
	v := newVocab(jsonTexts...)
	toks := newTokens(t, v)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			c, err := Compile(JSON(), toks)
			if err != nil {
				t.Error(err)
				return
			}
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range 10 {
				generate(t, c, v, rng, 20, 300)
			}
		})
	}
	wg.Wait()
}

// Processing a text again allocates no memory, except for free keys.
func TestNoAllocations(t *testing.T) {
	v := newVocab(jsonTexts...)
	toks := newTokens(t, v)
	g, err := FromSchema([]byte(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","maxLength":90}},"n":{"type":"integer","minimum":3,"maximum":500}},"required":["a","n"]}`))
	if err != nil {
		t.Fatal(err)
	}
	c := compile(t, g, toks)
	text := []byte(`{"a": ["hello", "x", "日本"],"n":41}`)
	m := toks.NewMask()
	st, start := c.Start(), c.Start()
	if n := testing.AllocsPerRun(50, func() {
		st.Set(start)
		for _, b := range text {
			if err := st.Mask(m); err != nil {
				t.Fatal(err)
			}
			if err := st.Accept(llm.Token(b)); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Hostile grammars end in bounded time, with or without an error.
func TestHostile(t *testing.T) {
	v := newVocab("aaaa", "aaaaaaaaaaaaaaaa", "ab", "ba")
	toks := newTokens(t, v)
	diamonds := "root ::= r0\n"
	for i := range 40 {
		diamonds += fmt.Sprintf("r%d ::= p%[1]d \"x\" | q%[1]d \"y\"\np%[1]d ::= r%d \"1\"\nq%[1]d ::= r%[2]d \"2\"\n", i, i+1)
	}
	diamonds += "r40 ::= \"a\"+\n"
	nested := "\"a\""
	for range 12 {
		nested = "(" + nested + "){10}"
	}
	for name, text := range map[string]string{
		"nested counts":           `root ::= (("a"|"aa"){0,1000}){0,1000}`,
		"three nested counts":     `root ::= ((("a"|"aa"|"aaa"){0,1000}){0,1000}){0,1000}`,
		"a million":               `root ::= ("a"|"aa"|"ab"){0,1000000}`,
		"a million classes":       `root ::= [a-z\u00e0-\u00ff]{0,1000000}`,
		"ten to the twelfth":      "root ::= " + nested,
		"diamonds":                diamonds,
		"exponential stacks":      "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"a\" t | \"\"\nt ::= \"a\" s \"d\" | \"a\" t \"e\" | \"a\"",
		"many alternatives":       `root ::= (` + strings.Repeat(`"a" | `, 20000) + `"b")*`,
		"many optional parts":     `root ::= ` + strings.Repeat(`"a"? `, 5000),
		"stars in stars":          `root ::= ((((("a"*)*)*)*)*)* "b"`,
		"many large repetitions":  `root ::= ` + strings.Repeat(`[a-b]{1000,10000} `, 300),
		"deep calls":              "root ::= a0\n" + chainRules(5000),
		"large classes":           `root ::= [^\u0000-\u1000a-z]{1,60000}`,
		"deep stack":              "root ::= \"a\" root \"b\" | \"aaaaaaaaaaaaaaaa\" root | \"b\"",
		"optional in a large one": `root ::= (("a"?){1000} "b"?){1000}`,
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := spent.Time(t, func() {
				var g *Grammar
				if g, err = ParseGBNF(text); err == nil {
					var c *Compiled
					if c, err = Compile(g, toks); err == nil {
						walk(t, c, v)
					}
				}
			})
			if err != nil && !errors.Is(err, ErrLimit) {
				t.Error(err)
			}
			if took > 20*time.Second {
				t.Errorf("took %v", took)
			} else {
				t.Log(took, err)
			}
		})
	}
}

// A short grammar multiplies its stacks over a vocabulary of real size. Each call
// stays within its budgets of work and memory.
func TestHostileVocabulary(t *testing.T) {
	toks := newTokens(t, openVocab(t, testmodel.SmolLM2(t)))
	levels := "root ::= a0\na12 ::= [a-z]+\n"
	for i := range 12 {
		levels += fmt.Sprintf("a%d ::= (a%[2]d | [a-z ] a%[2]d? | . a%[2]d)+\n", i, i+1)
	}
	for _, text := range []string{levels, `root ::= s+
s ::= "(" s* ")" | [a-z ]+ | x
x ::= [a-z ] s s? s? s? s? | [a-z ] x? x? x?`} {
		c := compile(t, gbnf(t, text), toks)
		st := c.Start()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := st.AcceptText([]byte("once upon a time there was"))
		if err == nil {
			err = st.Mask(toks.NewMask())
		}
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%.40q: %v, want ErrLimit", text, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
			t.Errorf("%.40q: %d bytes were taken", text, n)
		}
	}
}

// Hostile schemas also end in bounded time.
func TestHostileSchemas(t *testing.T) {
	v := newVocab(jsonTexts...)
	toks := newTokens(t, v)
	many := func(n int, format string) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(format, i))
		}
		return strings.Join(parts, ",")
	}
	product := strings.TrimSuffix(strings.Repeat(`{"anyOf":[{"minimum":1},{"maximum":9},{"multipleOf":2}]},`, 12), ",")
	for name, schema := range map[string]string{
		"large steps":             `{"type":"array","prefixItems":[` + many(400, `{"type":"integer","multipleOf":99%03d1,"minimum":-5,"maximum":1e15}`) + `]}`,
		"many patterns":           `{"type":"array","prefixItems":[` + many(3000, `{"type":"string","pattern":"(a|b)*a(a|b){%d}$","minLength":3}`) + `]}`,
		"exponential pattern":     `{"type":"string","pattern":"^(a|b)*a(a|b){200}$","maxLength":300}`,
		"nested pattern counts":   `{"type":"string","pattern":"^((a{0,999}b{0,999}){0,999}c{0,999}){0,999}$"}`,
		"redos":                   `{"type":"string","pattern":"^(([a-z])+.)+[A-Z]([a-z])+$"}`,
		"product":                 `{"type":"integer","allOf":[` + product + `]}`,
		"large enum":              `{"enum":[` + many(30000, `"value %d"`) + `]}`,
		"large anyOf":             `{"anyOf":[` + many(250, `{"type":"object","properties":{"k%d":{"type":"string"}}}`) + `]}`,
		"many members":            `{"type":"object","properties":{` + many(3000, `"m%d":{"type":["integer","null"]}`) + `}}`,
		"many required members":   `{"type":"object","required":[` + many(5000, `"m%d"`) + `]}`,
		"counted members":         `{"type":"object","properties":{` + many(120, `"m%d":{"type":"null"}`) + `},"minProperties":60,"maxProperties":100}`,
		"long texts":              `{"type":"string","minLength":1000000,"maxLength":16000000}`,
		"long arrays":             `{"type":"array","items":{"type":"array","minItems":100000},"minItems":1000000}`,
		"many member patterns":    `{"type":"object","patternProperties":{` + many(60, `"^(a|b)*x%d":{}`) + `}}`,
		"doubling references":     `{"$defs":{"d0":{"type":"null"},` + doubling(30, `"d%d":{"type":"array","prefixItems":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%[2]d"}]}`) + `},"$ref":"#/$defs/d30"}`,
		"doubling combinations":   `{"$defs":{"c0":{"type":"object"},` + doubling(25, `"c%d":{"allOf":[{"$ref":"#/$defs/c%d"},{"$ref":"#/$defs/c%[2]d"}]}`) + `},"$ref":"#/$defs/c25"}`,
		"oneOf of many":           `{"oneOf":[` + many(200, `{"type":"object","properties":{"t":{"const":%d}},"required":["t"]}`) + `]}`,
		"recursion with siblings": `{"properties":{"a":{"$ref":"#","minProperties":1},"b":{"allOf":[{"$ref":"#"},{"$ref":"#/properties/a"}]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			took := spent.Time(t, func() {
				var g *Grammar
				if g, err = FromSchema([]byte(schema)); err == nil {
					var c *Compiled
					if c, err = Compile(g, toks); err == nil {
						walk(t, c, v)
					}
				}
			})
			if err != nil && !errors.Is(err, ErrLimit) && !errors.Is(err, ErrSchema) {
				t.Error(err)
			}
			if took > 20*time.Second {
				t.Errorf("took %v", took)
			} else {
				t.Log(took, err)
			}
		})
	}
}

func doubling(n int, format string) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(format, i+1, i))
	}
	return strings.Join(parts, ",")
}

func chainRules(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d ::= a%d \"b\" | \"a\"\n", i, i+1)
	}
	fmt.Fprintf(&b, "a%d ::= \"a\"\n", n)
	return b.String()
}
