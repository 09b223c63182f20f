package chat

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"godwit/engine/grammar"
	"godwit/engine/llm"
)

// bytesVocab is a vocabulary of all bytes plus the markers as control tokens.
type bytesVocab struct{ control []string }

func (v bytesVocab) Size() int { return 257 + len(v.control) }

func (v bytesVocab) Bytes(t llm.Token) []byte {
	switch {
	case t < 256:
		return []byte{byte(t)}
	case t == 256:
		return []byte("<end>")
	}
	return []byte(v.control[t-257])
}

func (v bytesVocab) IsEOG(t llm.Token) bool     { return t == 256 }
func (v bytesVocab) IsControl(t llm.Token) bool { return t > 256 }

// build makes an automaton of a forced call the way the engine does.
func build(t *testing.T, g *CallGrammar, v bytesVocab) (*grammar.Compiled, *grammar.Tokens) {
	t.Helper()
	b := grammar.NewBuilder()
	if err := b.AddGBNF(g.GBNF); err != nil {
		t.Fatalf("%v in\n%s", err, g.GBNF)
	}
	for _, s := range g.Schemas {
		if err := b.AddSchema(s.Rule, s.Schema); err != nil {
			t.Fatal(err)
		}
	}
	for _, tok := range g.Tokens {
		var err error
		if i := slices.Index(v.control, tok.Text); i >= 0 {
			err = b.AddRule(tok.Rule, fmt.Sprintf("<[%d]>", 257+i))
		} else {
			err = b.AddLiteral(tok.Rule, tok.Text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	gr, err := b.Grammar("root")
	if err != nil {
		t.Fatalf("%v in\n%s", err, g.GBNF)
	}
	toks, err := grammar.NewTokens(v)
	if err != nil {
		t.Fatal(err)
	}
	c, err := grammar.Compile(gr, toks)
	if err != nil {
		t.Fatalf("%v in\n%s", err, g.GBNF)
	}
	return c, toks
}

// walk generates a random answer that the grammar allows. It prefers bytes that
// close something, so that answers stay short.
func walk(t *testing.T, rnd *rand.Rand, c *grammar.Compiled, toks *grammar.Tokens, v bytesVocab) string {
	t.Helper()
	st := c.Start()
	mask := toks.NewMask()
	var out []byte
	for range 4000 {
		if err := st.Mask(mask); err != nil {
			t.Fatal(err)
		}
		if mask.Has(256) && (rnd.IntN(2) == 0 || len(out) > 300) {
			return string(out)
		}
		var allowed, closing, high []llm.Token
		for id := range llm.Token(v.Size()) {
			if id == 256 || !mask.Has(id) {
				continue
			}
			if id < 256 && strings.IndexByte("\"}])<>/\n", byte(id)) >= 0 || id > 256 {
				closing = append(closing, id)
			}
			if id >= 128 && id < 256 {
				high = append(high, id)
				continue
			}
			allowed = append(allowed, id)
		}
		if len(allowed) == 0 {
			allowed = high
		}
		if len(closing) > 0 && (len(out) > 200 || rnd.IntN(4) == 0) {
			allowed = closing
		}
		if len(allowed) == 0 && mask.Has(256) {
			return string(out)
		}
		if len(allowed) == 0 {
			t.Fatalf("nothing is allowed behind %q", out)
		}
		id := allowed[rnd.IntN(len(allowed))]
		if err := st.Accept(id); err != nil {
			t.Fatal(err)
		}
		out = append(out, v.Bytes(id)...)
	}
	return ""
}

// controls are the markers that are control tokens in models that use the syntax.
var controls = []string{
	"<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|call|>", "<|constrain|>", "[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]",
	"<tool_call>", "</tool_call>", "<think>", "</think>", "<|tool_call>", "<tool_call|>", `<|"|>`, "<|tool_call|>", "<|/tool_call|>",
	"<|START_ACTION|>", "<|END_ACTION|>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
	"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>",
	"<|tool_call_start|>", "<|tools_prefix|>", "<|tools_suffix|>",
}

// TestForcedCalls generates random answers under the grammar of every syntax. Each
// answer parses into calls of the offered tools with all required arguments, both
// with markers as control tokens and with markers as text.
func TestForcedCalls(t *testing.T) {
	tools := list(t, `[
		{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
			"properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 0, "maximum": 99}, "hot": {"type": "boolean"}, "unit": {"enum": ["c", "f"]},
				"places": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
				"where": {"type": "object", "properties": {"lat": {"type": "number"}, "tag": {"type": "string", "maxLength": 3}}, "required": ["lat"], "additionalProperties": false}},
			"required": ["city", "hot"], "additionalProperties": false}}},
		{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": false}}}
	]`)
	for _, kind := range ParserKinds() {
		read := 0
		for _, v := range []bytesVocab{{}, {controls}} {
			for _, o := range []GrammarOptions{{}, {Choice: "get_weather", Tags: think, Open: true}, {Parallel: true, Tags: think}} {
				if kind == Harmony {
					o.Tags, o.Open = Tags{}, false
				}
				g, err := ToolGrammar(kind, tools, o)
				if err != nil {
					t.Fatal(err)
				}
				c, toks := build(t, g, v)
				rnd := rand.New(rand.NewPCG(1, uint64(len(v.control))))
				for range 4 {
					text := walk(t, rnd, c, toks, v)
					if text == "" {
						continue // generating a complete answer would take too long
					}
					read++
					checkForced(t, ParserOptions{Kind: kind, Tags: o.Tags, Open: o.Open, Tools: tools}, o, text)
				}
			}
		}
		if read < 3 {
			t.Errorf("%s: only %d answers came to an end", kind, read)
		}
	}
}

func checkForced(t *testing.T, p ParserOptions, o GrammarOptions, text string) {
	t.Helper()
	content, _, calls := Parse(p, text)
	if len(calls) == 0 || !o.Parallel && len(calls) > 1 || strings.TrimSpace(content) != "" {
		t.Errorf("%s %q: content %q, calls %+v", p.Kind, text, content, calls)
		return
	}
	for _, call := range calls {
		var args map[string]any
		if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
			t.Errorf("%s %q: %v", p.Kind, text, err)
		}
		_, city := args["city"].(string)
		_, hot := args["hot"].(bool)
		switch {
		case call.Name == "get_weather" && city && hot, call.Name == "now" && o.Choice == "":
		default:
			t.Errorf("%s %q: call %s of %s", p.Kind, text, call.Arguments, call.Name)
		}
	}
}

// TestGrammarTakesTheVendorsForm checks the grammar against calls as the models'
// own templates print them.
func TestGrammarTakesTheVendorsForm(t *testing.T) {
	tools := list(t, `[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}}}]`)
	for kind, texts := range map[ParserKind][]string{
		Hermes:   {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}\n</tool_call>", "<think>hm < </think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\", \"b\": 3}}\n</tool_call>"},
		QwenXML:  {"<tool_call>\n<function=f>\n<parameter=a>\nx <b>\n\ny\n</parameter>\n<parameter=b>\n3\n</parameter>\n</function>\n</tool_call>"},
		GLM:      {"<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"},
		Mistral:  {`[TOOL_CALLS][{"name": "f", "arguments": {"a": "x"}}]`},
		Harmony:  {"<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": \"x\"}<|call|>"},
		Gemma4:   {`<|tool_call>call:f{a:<|"|>x<|"|>,b:3}<tool_call|>`, `<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>`},
		LFM2:     {`<|tool_call_start|>[f(a="x", b=3)]<|tool_call_end|>`},
		DeepSeek: {`<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": "x"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`},
		Llama3:   {`{"name": "f", "parameters": {"a": "x"}}`},
		CommandR: {"<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": \"x\"}}\n]<|END_ACTION|>"},
		Phi4:     {`<|tool_call|>[{"name": "f", "arguments": {"a": "x"}}]<|/tool_call|>`},
	} {
		g, err := ToolGrammar(kind, tools, GrammarOptions{Tags: think})
		if err != nil {
			t.Fatal(err)
		}
		c, _ := build(t, g, bytesVocab{})
		for _, text := range texts {
			st := c.Start()
			if err := st.AcceptText([]byte(text)); err != nil {
				t.Errorf("%s refuses %q: %v\n%s", kind, text, err, g.GBNF)
			}
		}
	}
	if _, err := ToolGrammar(Hermes, tools, GrammarOptions{Choice: "g"}); err == nil {
		t.Error("a function that does not exist can be chosen")
	}
}
