package chat

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// callTexts are calls of get_weather as each syntax writes them.
func callTexts(t *testing.T, kind ParserKind, tools *List) []string {
	t.Helper()
	g, err := ToolGrammar(kind, tools, GrammarOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, toks := build(t, g, bytesVocab{})
	rnd := rand.New(rand.NewPCG(7, 7))
	var out []string
	for range 200 {
		if s := walk(t, rnd, c, toks, bytesVocab{}); s != "" && len(out) < 3 {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s: no call came to an end", kind)
	}
	return out
}

// TestCallsInsideReasoning writes calls before the end of reasoning, in every
// syntax and after every vendor's prompt. They count as calls unless the reasoning
// continues or an answer follows. In those cases no text is lost.
func TestCallsInsideReasoning(t *testing.T) {
	tools := list(t, `[{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
		"properties": {"city": {"enum": ["Rome", "Bari"]}, "days": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["city", "days"], "additionalProperties": false}}}]`)
	rnd := rand.New(rand.NewPCG(8, 8))
	check := func(name string, o ParserOptions, text string, calls bool, content string, said ...string) {
		t.Helper()
		for range 3 {
			got, _ := cutUp(t, rnd, o, text)
			if (len(got.calls) > 0) != calls || strings.TrimSpace(got.content) != content {
				t.Errorf("%s: %q\ngot %q", name, text, got)
				return
			}
			for _, s := range said {
				if !strings.Contains(got.reasoning, s) {
					t.Errorf("%s: %q\nreasoning %q has no %q", name, text, got.reasoning, s)
				}
			}
			if calls && len(said) > 0 && strings.ContainsAny(got.reasoning, "<{[") {
				t.Errorf("%s: %q\nreasoning %q", name, text, got.reasoning)
			}
		}
	}
	run := func(name string, o ParserOptions) {
		t.Helper()
		for _, call := range callTexts(t, o.Kind, tools) {
			if o.Kind == Llama3 || o.Kind == Generic || o.Kind == Gemma {
				continue // no marker opens this call
			}
			start := "Let me look.\n"
			if !o.Open {
				start = o.Tags.Open + start
			}
			m, ok := mark{}, false
			for _, m = range syntaxes[o.Kind].Marks {
				if ok = strings.HasPrefix(call, m.text); ok {
					break
				}
			}
			if !ok {
				t.Fatalf("%s: no marker opens %q", name, call)
			}
			end := o.Tags.Close
			check(name+", last", o, start+call, true, "", "Let me look.")
			check(name+", closed", o, start+call+"\n"+end, true, "", "Let me look.")
			check(name+", closed before", o, start+end+"\n\n"+call, true, "", "Let me look.")
			if m.control {
				continue
			}
			check(name+", mentioned", o, start+call+"\nis what I could write."+end+"\n\nAnswer", false, "Answer", "Let me look.", call, "is what I could write.")
			check(name+", answered", o, start+call+"\n"+end+"\n\nAnswer", false, "Answer", "Let me look.", call)
			check(name+", mentioned and not closed", o, start+call+" is what I could write", false, "", "Let me look.", call, "is what I could write")
			check(name+", mentioned and made", o, start+call+end+"\n\n"+call, true, "")
			check(name+", only the marker", o, start+m.text+" opens a call."+end+"\n\nAnswer", false, "Answer", m.text+" opens a call.")
			other := strings.ReplaceAll(call, "get_weather", "unknown")
			check(name+", of no tool", o, start+other+"\n"+end, false, "", other)
		}
	}
	for _, kind := range ParserKinds() {
		if kind != Harmony {
			run(string(kind), ParserOptions{Kind: kind, Tags: think, Tools: tools, Open: true})
		}
	}
	seen := 0
	for name, o := range thinkers(t, tools) {
		seen++
		run(name, o)
	}
	if seen < 20 {
		t.Errorf("only %d templates mark reasoning", seen)
	}
}

// thinkers are the parser options of vendors' templates that mark reasoning.
func thinkers(t *testing.T, tools *List) map[string]ParserOptions {
	t.Helper()
	out := map[string]ParserOptions{}
	for name, source := range vendors(t) {
		if unread[name] != "" || kindsOf[name] == "" || kindsOf[name] == Harmony {
			continue
		}
		tm, err := New(source, Options{BOS: "<BOS>", EOS: "<EOS>"})
		if err != nil {
			t.Fatal(err)
		}
		p, err := tm.Render(t.Context(), Input{Messages: list(t, `[{"role": "user", "content": "hi"}]`), Tools: tools, AddGenerationPrompt: true, Now: time.Unix(0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if p.Tags.Open != "" {
			out[name] = ParserOptions{Kind: p.Kind, Tags: p.Tags, Open: p.Open, Tools: tools}
		}
	}
	return out
}

// TestStrayTags checks that reasoning tags without a counterpart are dropped and
// that mentioned tags are kept.
func TestStrayTags(t *testing.T) {
	channel, command := Tags{"<|channel>thought", "<channel|>"}, Tags{"<|START_THINKING|>", "<|END_THINKING|>"}
	rnd := rand.New(rand.NewPCG(9, 9))
	for _, c := range []struct {
		kind ParserKind
		tags Tags
		open bool
		text string
		want answer
	}{
		{QwenXML, think, true, "<think>\nwhy</think>\n\nso", answer{content: "so", reasoning: "why"}},
		{QwenXML, think, true, "\n<think>\n\n</think>\n\nAnswer", answer{content: "Answer"}},
		{QwenXML, think, true, "<thi", answer{reasoning: "<thi"}},
		{QwenXML, think, true, "say <think> twice</think>so", answer{content: "so", reasoning: "say <think> twice"}},
		{Hermes, think, false, "<think><think>why</think>so", answer{content: "so", reasoning: "why"}},
		{Hermes, think, false, "</think>\n\nHello", answer{content: "Hello"}},
		{Hermes, think, false, "\n\n</think>\n\nHello", answer{content: "Hello"}},
		{Hermes, think, false, "</think>", answer{}},
		{Hermes, think, false, "I think.</think>\n\nAnswer", answer{content: "I think.\n\nAnswer"}},
		{Hermes, think, false, "The tag `</think>` ends it.", answer{content: "The tag `</think>` ends it."}},
		{Hermes, think, false, "a</think> b</think>\nc", answer{content: "a</think> b\nc"}},
		{Hermes, think, true, "x</think>a</think>\nb", answer{content: "a</think>\nb", reasoning: "x"}},
		{GLM, think, false, "</think>Hello", answer{content: "Hello"}},
		{Gemma4, channel, false, "<channel|>Hello<channel|>", answer{content: "Hello"}},
		{CommandR, command, false, "<|END_THINKING|><|START_RESPONSE|>Hello<|END_RESPONSE|>", answer{content: "Hello"}},
		{CommandR, command, true, "<|START_THINKING|>a<|END_THINKING|>b<|END_THINKING|>", answer{content: "b", reasoning: "a"}},
		{Harmony, Tags{}, false, "<|channel|>analysis<|message|>\n\n<|end|><|start|>assistant<|channel|>final<|message|>Answer", answer{content: "Answer"}},
		{Harmony, Tags{}, false, "<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>\nAnswer", answer{content: "Answer"}},
		{Harmony, Tags{}, false, "<|channel|>analysis<|message|> \n<|end|><|start|>assistant<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Answer", answer{content: "Answer", reasoning: "hm"}},
	} {
		for _, tools := range []*List{nil, testTools(t)} {
			o := ParserOptions{Kind: c.kind, Tags: c.tags, Open: c.open, Tools: tools}
			for range 4 {
				if got, _ := cutUp(t, rnd, o, c.text); !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s %q\ngot  %q\nwant %q", c.kind, c.text, got, c.want)
					break
				}
			}
		}
	}
}

// TestForms checks that a document is passed on unchanged, including tags and calls
// in its strings, with and without reasoning before it, and that a call instead of
// the document is still read.
func TestForms(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 10))
	const doc = `{"a": "<think>x</think> <tool_call>\n<function=now></function></tool_call> [TOOL_CALLS]now[ARGS]{} <channel|>"}`
	for _, kind := range ParserKinds() {
		for _, tools := range []*List{nil, testTools(t)} {
			for _, c := range []struct {
				open bool
				text string
				want answer
			}{
				{false, doc, answer{content: doc}},
				{false, "\n" + doc, answer{content: "\n" + doc}},
				{false, "</think>\n\n" + doc, answer{content: doc}},
				{true, "hm</think>\n\n" + doc, answer{content: doc, reasoning: "hm"}},
				{false, "<think>hm</think>" + doc, answer{content: doc, reasoning: "hm"}},
			} {
				if kind == Harmony {
					c.text = "<|channel|>final<|message|>" + doc
					c.want = answer{content: doc}
				}
				o := ParserOptions{Kind: kind, Tags: think, Open: c.open && kind != Harmony, Tools: tools, Form: true}
				for range 3 {
					if got, _ := cutUp(t, rnd, o, c.text); !reflect.DeepEqual(got, c.want) {
						t.Errorf("%s %q\ngot  %q\nwant %q", kind, c.text, got, c.want)
						break
					}
				}
			}
		}
	}
	call := `<tool_call>{"name": "now", "arguments": {}}</tool_call>`
	for text, want := range map[string][]string{
		call:                           {"now{}"},
		call + "\n" + call:             {"now{}", "now{}"},
		call + "\n" + call[:20]:        {"now{}"},
		call + call + "\n" + call[:14]: {"now{}", "now{}"},
	} {
		got, _ := cutUp(t, rnd, ParserOptions{Kind: Hermes, Tags: think, Open: true, Tools: testTools(t), Form: true}, "hm</think>\n\n"+text)
		if got.content = strings.TrimSpace(got.content); !reflect.DeepEqual(got, answer{reasoning: "hm", calls: want}) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestCutOff ends answers at every position inside their calls. The content then
// contains no part of a call beside complete calls, and never a part of a closing
// tag.
func TestCutOff(t *testing.T) {
	tools := testTools(t)
	for _, c := range []struct {
		kind ParserKind
		text string
		most int // maximum number of calls
	}{
		{Hermes, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n", 2},
		{QwenXML, "<tool_call>\n<function=now>\n</function>\n</tool_call>\n", 2},
		{GLM, "<tool_call>now\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n", 2},
		{Gemma4, "<|tool_call>call:now{a:1}<tool_call|>", 2},
		{Functionary, "<function=now>{}</function>", 2},
	} {
		text := c.text + c.text
		for n := len(c.text); n <= len(text); n++ {
			got := parse(ParserOptions{Kind: c.kind, Tags: think, Tools: tools}, text[:n])
			if len(got.calls) == 0 || len(got.calls) > c.most || strings.TrimSpace(got.content) != "" && !strings.HasPrefix(syntaxes[c.kind].Marks[0].text, strings.TrimSpace(got.content)) {
				t.Errorf("%s %q: content %q, calls %q", c.kind, text[:n], got.content, got.calls)
			}
		}
		first := parse(ParserOptions{Kind: c.kind, Tools: tools}, c.text[:len(strings.TrimSpace(c.text))-2])
		if len(first.calls) != 1 || first.content != "" {
			t.Errorf("%s: a call without the end of its closing tag: %q", c.kind, first)
		}
	}
}

// TestEffort requests reasoning efforts from every template that marks reasoning.
// The efforts low to high leave reasoning open. The effort none closes it, or a
// notice says that the template has no switch.
func TestEffort(t *testing.T) {
	tools := describedTools(t)
	noticed := map[string]bool{}
	for name, source := range vendors(t) {
		if name == "fireworks-ai-llama-3-firefunction-v2" { // requires a variable named functions
			continue
		}
		tm, err := New(source, Options{BOS: "<BOS>", EOS: "<EOS>"})
		if err != nil {
			t.Fatal(err)
		}
		if tm.main.tags == (Tags{}) {
			continue
		}
		for _, tools := range []*List{nil, tools} {
			render := func(effort string) *Prompt {
				p, err := tm.Render(t.Context(), Input{
					Messages: list(t, `[{"role": "user", "content": "hi"}]`), Tools: tools, AddGenerationPrompt: true, Now: time.Unix(0, 0),
					Kwargs: dict("reasoning_effort", effort),
				})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return p
			}
			closed := func(p *Prompt) bool { return strings.HasSuffix(strings.TrimSpace(p.Text()), p.Tags.Close) }
			for _, effort := range []string{"low", "medium", "high"} {
				if p := render(effort); closed(p) || p.Shut {
					t.Errorf("%s: with effort %s the prompt ends in %q", name, effort, p.Text()[max(0, len(p.Text())-60):])
				}
			}
			p := render("none")
			if p.Shut != strings.Contains(strings.Join(p.Notices, "\n"), "no switch for thinking") || p.Open && !p.Shut {
				t.Errorf("%s: with effort none shut %v, open %v, notices %q", name, p.Shut, p.Open, p.Notices)
			}
			noticed[name] = noticed[name] || p.Shut
		}
	}
	for _, name := range []string{"NVIDIA-Nemotron-Nano-v2", "MiniMax-M2"} {
		if !noticed[name] {
			t.Errorf("%s: no notice that thinking has no switch", name)
		}
	}
}
