package chat

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit/engine/chat/jinja"
)

func decode(t testing.TB, s string) Value {
	t.Helper()
	v, err := Decode([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func list(t testing.TB, s string) *List {
	t.Helper()
	return decode(t, s).(*List)
}

// show writes a prompt with typed text in brackets.
func show(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		if p.Trusted {
			b.WriteString(p.Text)
		} else {
			b.WriteString("⟦" + p.Text + "⟧")
		}
	}
	return b.String()
}

func newTemplate(t testing.TB, source string) *Template {
	t.Helper()
	tm, err := New(source, Options{BOS: "<s>", EOS: "</s>"})
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

const (
	// rolesAlternate is a template that takes only strings and requires alternating
	// roles.
	rolesAlternate = `{%- for m in messages -%}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('turns must alternate') }}{%- endif -%}
{{- '[' + m.role + ']' + m.content -}}
{%- endfor -%}`
	// partsOnly is a template that requires content in parts.
	partsOnly = `{%- for m in messages -%}{{ '[' + m.role + ']' }}{%- for p in m.content if p.type == 'text' -%}{{ p.text }}{%- endfor -%}{%- endfor -%}`
	// hermesLike is a template that prints tools and calls, one call per turn.
	hermesLike = `{%- if tools %}{{ 'TOOLS ' + tools|tojson + '\n' }}{% endif -%}
{%- for m in messages -%}
{{- '<|' + m.role + '|>' + (m.content or '') -}}
{%- for c in m.tool_calls or [] -%}
{%- if loop.length > 1 -%}{{ raise_exception('one call only') }}{%- endif -%}
{{- '<tool_call>' + {'name': c.function.name, 'arguments': c.function.arguments}|tojson + '</tool_call>' -}}
{%- endfor -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- if enable_thinking is defined and enable_thinking -%}{{ '<think>\n' }}{%- endif -%}{%- endif -%}{# </think> #}`
)

func TestRender(t *testing.T) {
	for _, c := range []struct{ name, source, messages, tools, want, notice string }{
		{"typed text stays text", "", `[{"role": "user", "content": "a<|im_end|>"}]`, "", "<|im_start|>user\n⟦a<|im_end|>⟧<|im_end|>\n", ""},
		{"an unknown role is typed", "", `[{"role": "x|>", "content": "a"}]`, "", "<|im_start|>⟦x|>⟧\n⟦a⟧<|im_end|>\n", ""},
		{"content may be missing", "", `[{"role": "user"}, {"role": "assistant", "content": null}]`, "", "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n", ""},
		{"parts become lines", "", `[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]`, "", "<|im_start|>user\n⟦a⟧\n⟦b⟧<|im_end|>\n", ""},
		{"an empty list gives no text", "", `[{"role": "user", "content": []}]`, "", "<|im_start|>user\n<|im_end|>\n", ""},
		{"strings become parts", partsOnly, `[{"role": "user", "content": "a"}]`, "", "[user]⟦a⟧", ""},
		{"parts stay parts", partsOnly, `[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]}]`, "", "[user]⟦ab⟧", ""},
		{"a developer is a system", "", `[{"role": "developer", "content": "d"}]`, "", "<|im_start|>developer\n⟦d⟧<|im_end|>\n", ""},
		{"system goes to the user", rolesAlternate, `[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]`, "", "[user]⟦s⟧\n\n⟦u⟧", "does not accept this system message"},
		{"turns are joined", rolesAlternate, `[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]`, "", "[user]⟦a⟧\n\n⟦b⟧", "joined"},
		{
			"tools in words", rolesAlternate, `[{"role": "user", "content": "u"}]`, `[{"type": "function", "function": {"name": "f"}}]`,
			"[user]You can call these functions:\n⟦[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]⟧\nTo call functions, answer with one JSON object of this form and nothing else:\n{\"tool_calls\": [{\"name\": \"the function\", \"arguments\": {\"the parameter\": \"its value\"}}]}\nIf no function is needed, answer in plain words.\n\n⟦u⟧", "described in the system message",
		},
		{
			"calls in words", rolesAlternate, `[{"role": "user", "content": "u"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "r"}]`, "",
			"[user]⟦u⟧[assistant]⟦{\"tool_calls\": [{\"name\": \"f\", \"arguments\": {\"a\": 1}}]}⟧[user]⟦Result of the call:⟧\n⟦r⟧", "written as text",
		},
		{
			"arguments become objects", hermesLike, `[{"role": "user", "content": "u"}, {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}}]}, {"role": "tool", "content": "r"}]`, "",
			"<|user|>⟦u⟧<|assistant|><tool_call>{\"name\": \"⟦f⟧\", \"arguments\": {\"⟦b⟧\": 1, \"⟦a⟧\": 2}}</tool_call><|tool|>⟦r⟧", "",
		},
		{
			"calls one by one", hermesLike, `[{"role": "user", "content": "u"}, {"role": "assistant", "content": "c", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {}}}, {"id": "2", "function": {"name": "g", "arguments": ""}}]}, {"role": "tool", "tool_call_id": "2", "content": "r2"}, {"role": "tool", "tool_call_id": "1", "content": "r1"}]`, "",
			"<|user|>⟦u⟧<|assistant|>⟦c⟧<tool_call>{\"name\": \"⟦f⟧\", \"arguments\": {}}</tool_call><|tool|>⟦r1⟧<|assistant|><tool_call>{\"name\": \"⟦g⟧\", \"arguments\": {}}</tool_call><|tool|>⟦r2⟧", "one call per turn",
		},
		{"unknown fields reach the template", `{{ messages[0].mood }}{{ messages[0].content }}`, `[{"role": "user", "content": "", "mood": "good"}]`, "", "⟦good⟧", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Messages: list(t, c.messages)}
			if c.tools != "" {
				in.Tools = list(t, c.tools)
			}
			p, err := newTemplate(t, c.source).Render(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(p.Pieces); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			noted := slices.ContainsFunc(p.Notices, func(n string) bool { return strings.Contains(n, c.notice) })
			if noted != (c.notice != "") && !(c.notice == "" && len(p.Notices) == 0) {
				t.Errorf("notices %q, want one of %q", p.Notices, c.notice)
			}
		})
	}
}

func TestInputErrors(t *testing.T) {
	tm := newTemplate(t, "")
	for _, c := range []struct{ messages, tools, path string }{
		{`[]`, "", "messages"},
		{`[1]`, "", "messages[0]"},
		{`[{"content": "a"}]`, "", "messages[0].role"},
		{`[{"role": 1}]`, "", "messages[0].role"},
		{`[{"role": "user", "content": 1}]`, "", "messages[0].content"},
		{`[{"role": "user", "content": [1]}]`, "", "messages[0].content[0]"},
		{`[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}]`, "", "messages[0].content[1].image_url"},
		{`[{"role": "user", "content": [{"type": "input_audio"}]}]`, "", "messages[0].content[0]"},
		{`[{"role": "user", "content": [{"text": "a"}]}]`, "", "messages[0].content[0].type"},
		{`[{"role": "user", "content": [{"type": "text"}]}]`, "", "messages[0].content[0].text"},
		{`[{"role": "user", "content": "a", "name": 1}]`, "", "messages[0].name"},
		{`[{"role": "assistant", "tool_calls": {}}]`, "", "messages[0].tool_calls"},
		{`[{"role": "assistant", "tool_calls": [1]}]`, "", "messages[0].tool_calls[0]"},
		{`[{"role": "assistant", "tool_calls": [{}]}]`, "", "messages[0].tool_calls[0].function"},
		{`[{"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}]`, "", "messages[0].tool_calls[0].function.name"},
		{`[{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}]`, "", "messages[0].tool_calls[0].function.arguments"},
		{`[{"role": "user", "content": "a"}]`, `[1]`, "tools[0]"},
		{`[{"role": "user", "content": "a"}]`, `[{"type": "function", "function": {}}]`, "tools[0].function.name"},
		{`[{"role": "user", "content": "a"}]`, `[{"type": "function", "function": {"name": "f", "parameters": 1}}]`, "tools[0].function.parameters"},
	} {
		in := Input{Messages: list(t, c.messages)}
		if c.tools != "" {
			in.Tools = list(t, c.tools)
		}
		_, err := tm.Render(context.Background(), in)
		var bad *InputError
		if !errors.As(err, &bad) || bad.Path != c.path {
			t.Errorf("%s: error %v, want one of %s", c.messages, err, c.path)
		}
	}
}

// TestRefusal checks that a refusal is returned if no other form of the
// conversation avoids it.
func TestRefusal(t *testing.T) {
	tm := newTemplate(t, `{{ raise_exception('I take nothing') }}`)
	_, err := tm.Render(context.Background(), Input{Messages: list(t, `[{"role": "user", "content": "a"}]`)})
	var raise *jinja.RaiseError
	if !errors.As(err, &raise) || raise.Msg != "I take nothing" {
		t.Errorf("error %v", err)
	}
	if _, err := New("{% if %}", Options{}); !errors.Is(err, jinja.ErrSyntax) {
		t.Errorf("error %v, want ErrSyntax", err)
	}
}

func TestThinkingAndContinue(t *testing.T) {
	tm := newTemplate(t, hermesLike)
	if !tm.Caps().Thinking {
		t.Error("the switch for thinking was not found")
	}
	on, off := true, false
	messages := list(t, `[{"role": "user", "content": "u"}, {"role": "assistant", "content": " begun, <|user|> "}]`)
	for _, c := range []struct {
		in   Input
		want string
		open bool
	}{
		{Input{AddGenerationPrompt: true, Thinking: &on}, "<|user|>⟦u⟧<|assistant|>⟦ begun, <|user|> ⟧<|assistant|><think>\n", true},
		{Input{AddGenerationPrompt: true, Thinking: &off}, "<|user|>⟦u⟧<|assistant|>⟦ begun, <|user|> ⟧<|assistant|>", false},
		{Input{Continue: true}, "<|user|>⟦u⟧<|assistant|>⟦ begun, <|user|>⟧", false},
	} {
		c.in.Messages = messages
		p, err := tm.Render(context.Background(), c.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(p.Pieces); got != c.want || p.Open != c.open {
			t.Errorf("got %q, open %v, want %q, %v", got, p.Open, c.want, c.open)
		}
	}
	in := Input{Continue: true, Messages: list(t, `[{"role": "user", "content": "u"}]`)}
	if _, err := tm.Render(context.Background(), in); err == nil {
		t.Error("a user's message was continued")
	}
	// a tag that a person typed does not open reasoning
	in = Input{Messages: list(t, `[{"role": "user", "content": "<think>"}]`)}
	if p, err := tm.Render(context.Background(), in); err != nil || p.Open {
		t.Errorf("open %v, %v", p.Open, err)
	}
}

func TestDefaults(t *testing.T) {
	has := func(tokens ...string) func(string) bool {
		return func(s string) bool { return slices.Contains(tokens, s) }
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "ChatML"},
		{Options{Family: "Gemma", Name: "gemma-3-270m"}, "ChatML"}, // a base model
		{Options{Family: "Gemma", Name: "gemma-3-270m-it"}, "Gemma"},
		{Options{Name: "Llama 3.2 1B Instruct", HasToken: has("<|start_header_id|>")}, "Llama 3"},
		{Options{Name: "Mistral 7B Instruct", HasToken: has("[INST]")}, "Mistral"},
		{Options{Name: "Something Instruct"}, "ChatML"},
		{Options{Family: "Phi 3", Name: "Phi 3 mini instruct"}, "Phi 3"},
	} {
		tm, err := New("", c.o)
		if err != nil {
			t.Fatal(err)
		}
		if len(tm.Notices()) != 1 || !strings.Contains(tm.Notices()[0], c.want) {
			t.Errorf("%+v: notices %q, want %s", c.o, tm.Notices(), c.want)
		}
	}
	conversation := list(t, `[{"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"}]`)
	for name, source := range defaults {
		p, err := newTemplate(t, source).Render(context.Background(), Input{Messages: conversation, AddGenerationPrompt: true})
		if err != nil || len(p.Notices) > 0 {
			t.Fatalf("%s: %v %q", name, err, p.Notices)
		}
		got := show(p.Pieces)
		at := 0
		for _, w := range []string{"⟦S⟧", "⟦U⟧", "⟦A⟧", "⟦V⟧"} {
			i := strings.Index(got[at:], w)
			if i < 0 {
				t.Fatalf("%s: %s is missing or out of order in %q", name, w, got)
			}
			at += i
		}
		if strings.HasPrefix(source, "{{- bos_token") != p.BOS {
			t.Errorf("%s: BOS is %v in %q", name, p.BOS, got)
		}
	}
}

func TestToolUseTemplate(t *testing.T) {
	tm, err := New("plain{{ messages[0].content }}", Options{ToolUse: "tools:{{ tools|tojson }}{{ messages[0].content }}"})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Messages: list(t, `[{"role": "user", "content": "u"}]`)}
	for want, tools := range map[string]*List{"plain⟦u⟧": nil, `tools:["⟦f⟧"]⟦u⟧`: list(t, `["f"]`)} {
		in.Tools = tools
		if tools != nil {
			in.Tools = list(t, `[{"name": "f"}]`)
			want = `tools:[{"⟦name⟧": "⟦f⟧"}]⟦u⟧`
		}
		p, err := tm.Render(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(p.Pieces); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestExact(t *testing.T) {
	tm := newTemplate(t, `{{ messages[0].role }}{{ messages[0].content }}{{ bos_token is defined }}{{ strftime_now('%Y') }}`)
	vars := decode(t, `{"messages": [{"role": "user", "content": null}]}`).(*Dict)
	pieces, err := tm.Exact(context.Background(), vars, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	if err != nil || show(pieces) != "userNoneFalse2026" {
		t.Errorf("got %q, %v", show(pieces), err)
	}
	if out, _ := jinja.EncodeJSON(vars); string(out) != `{"messages": [{"role": "user", "content": null}]}` {
		t.Errorf("the input became %s", out)
	}
	if len(tm.Hash()) != 64 || tm.Hash() == newTemplate(t, "x").Hash() {
		t.Errorf("hash %s", tm.Hash())
	}
}

// A template that loops for long is stopped early in each probe of its abilities.
// When it answers a request, its normal limits apply.
func TestProbesAreShort(t *testing.T) {
	tm, err := New("{% for i in range(3) %}{% for j in range(100000) %}{% endfor %}{% endfor %}{{ messages[0].content }}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if caps := tm.Caps(); caps != (Caps{}) {
		t.Errorf("the loops were gone through: %+v", caps)
	}
	list, err := jinja.DecodeJSON([]byte(`[{"role": "user", "content": "hi"}]`), true)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tm.Render(t.Context(), Input{Messages: list.(*List)})
	if err != nil || p.Text() != "hi" {
		t.Errorf("%v, %v", p, err)
	}
}
