package api

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

// said is the content of an answer in any dialect.
type said struct {
	text, thinking, call, arguments, finish string
}

// dialect sends requests in one dialect.
type dialect struct {
	path  string
	body  func(a asked) object
	whole func(v map[string]any) said
	part  func(name string, v map[string]any, s *said) // adds an event of a stream
}

// asked is a request, independent of the dialect.
type asked struct {
	form    object // schema of the answer; nil for any
	tools   bool
	forced  bool
	budget  *int
	think   *bool
	tokens  int
	grammar string
	params  object // parameters of the function; nil for those of weather
	strict  bool   // the schemas must hold completely

	any      bool   // the answer is any JSON object
	effort   string // reasoning effort
	template string // chat template that replaces the model's own
	turns    []turn // conversation; nil for a single question
}

// tool is the offered function, in OpenAI's form.
func (a asked) tool() object {
	t := weather()
	f := t["function"].(object)
	if a.params != nil {
		f["parameters"] = a.params
	}
	if a.strict {
		f["strict"] = true
	}
	return t
}

var personSchema = object{
	"type": "object", "properties": object{"a": object{"type": "integer", "minimum": 0, "maximum": 99}}, "required": []string{"a"}, "additionalProperties": false,
}

// weather is a function whose calls are short in every syntax.
func weather() object {
	return object{"type": "function", "function": object{"name": "weather", "parameters": object{
		"type": "object", "properties": object{"city": object{"enum": []string{"Rome", "Oslo"}}}, "required": []string{"city"}, "additionalProperties": false,
	}}}
}

func str(v any, path ...any) string {
	s, _ := at(v, path...).(string)
	return s
}

// dialects are the dialects with conversations.
func dialects() map[string]dialect {
	return map[string]dialect{"chat": chatDialect(), "responses": responsesDialect(), "anthropic": anthropicDialect(), "ollama": ollamaDialect()}
}

func chatDialect() dialect {
	return dialect{
		path: "/v1/chat/completions",
		body: func(a asked) object {
			o := object{"messages": a.chatTurns(), "max_tokens": a.tokens, "temperature": 0}
			a.add(o, "reasoning_effort", "chat_template")
			if a.any {
				o["response_format"] = object{"type": "json_object"}
			}
			if a.form != nil {
				o["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "x", "schema": a.form, "strict": a.strict}}
			}
			if a.grammar != "" {
				o["grammar"] = a.grammar
			}
			if a.tools {
				o["tools"], o["parallel_tool_calls"] = []object{a.tool()}, false
			}
			if a.forced {
				o["tool_choice"] = "required"
			}
			if a.budget != nil {
				o["thinking_budget_tokens"] = *a.budget
			}
			if a.think != nil && !*a.think {
				o["reasoning_effort"] = "none"
			}
			return o
		},
		whole: func(v map[string]any) said {
			c := at(v, "choices", 0)
			f := at(c, "message", "tool_calls", 0, "function")
			return said{str(c, "message", "content"), str(c, "message", "reasoning_content"), str(f, "name"), str(f, "arguments"), str(c, "finish_reason")}
		},
		part: func(_ string, v map[string]any, s *said) {
			d := at(v, "choices", 0, "delta")
			s.text += str(d, "content")
			s.thinking += str(d, "reasoning_content")
			s.call += str(d, "tool_calls", 0, "function", "name")
			s.arguments += str(d, "tool_calls", 0, "function", "arguments")
			s.finish += str(v, "choices", 0, "finish_reason")
		},
	}
}

func responsesDialect() dialect {
	whole := func(v map[string]any) (s said) {
		list, _ := v["output"].([]any)
		for _, item := range list {
			switch str(item, "type") {
			case "message":
				s.text += str(item, "content", 0, "text")
			case "reasoning":
				s.thinking += str(item, "content", 0, "text")
			case "function_call":
				s.call, s.arguments, s.finish = str(item, "name"), str(item, "arguments"), "tool_calls"
			}
		}
		return s
	}
	return dialect{
		path: "/v1/responses",
		body: func(a asked) object {
			o := object{"input": a.items(), "max_output_tokens": a.tokens, "temperature": 0}
			a.add(o, "", "chat_template")
			if a.effort != "" {
				o["reasoning"] = object{"effort": a.effort}
			}
			if a.budget != nil {
				o["thinking_budget_tokens"] = *a.budget
			}
			if a.any {
				o["text"] = object{"format": object{"type": "json_object"}}
			}
			if a.form != nil {
				o["text"] = object{"format": object{"type": "json_schema", "name": "x", "schema": a.form, "strict": a.strict}}
			}
			if a.tools {
				f := a.tool()["function"].(object)
				f["type"] = "function"
				o["tools"], o["parallel_tool_calls"] = []object{f}, false
			}
			if a.forced {
				o["tool_choice"] = "required"
			}
			if a.think != nil && !*a.think {
				o["reasoning"] = object{"effort": "none"}
			}
			return o
		},
		whole: whole,
		part: func(name string, v map[string]any, s *said) {
			switch name {
			case "response.output_text.delta":
				s.text += str(v, "delta")
			case "response.reasoning_text.delta":
				s.thinking += str(v, "delta")
			case "response.function_call_arguments.delta":
				s.arguments += str(v, "delta")
			case "response.output_item.added":
				s.call += str(v, "item", "name")
			case "response.completed", "response.incomplete":
				pieces := *s
				if *s = whole(v["response"].(map[string]any)); s.text != pieces.text || s.thinking != pieces.thinking || s.call != pieces.call || s.arguments != pieces.arguments {
					s.finish = fmt.Sprintf("the pieces add up to %+v", pieces)
				}
			}
		},
	}
}

func anthropicDialect() dialect {
	return dialect{
		path: "/v1/messages",
		body: func(a asked) object {
			o := object{"messages": a.blocks(), "max_tokens": a.tokens, "temperature": 0}
			a.add(o, "", "chat_template")
			if a.effort != "" {
				o["thinking"] = object{"type": "enabled"}
			}
			if a.form != nil {
				o["output_config"] = object{"format": object{"type": "json_schema", "schema": a.form}}
			}
			if a.tools {
				f := a.tool()["function"].(object)
				o["tools"] = []object{{"name": "weather", "input_schema": f["parameters"], "strict": a.strict}}
				o["tool_choice"] = object{"type": "auto", "disable_parallel_tool_use": true}
			}
			if a.forced {
				o["tool_choice"] = object{"type": "any", "disable_parallel_tool_use": true}
			}
			if a.think != nil && !*a.think {
				o["thinking"] = object{"type": "disabled"}
			}
			if a.budget != nil && *a.budget == 0 {
				o["thinking"] = object{"type": "disabled"}
			} else if a.budget != nil {
				o["thinking"] = object{"type": "enabled", "budget_tokens": *a.budget}
			}
			return o
		},
		whole: func(v map[string]any) (s said) {
			list, _ := v["content"].([]any)
			for _, b := range list {
				s.text += str(b, "text")
				s.thinking += str(b, "thinking")
				if str(b, "type") == "tool_use" {
					raw, _ := json.Marshal(at(b, "input"))
					s.call, s.arguments = str(b, "name"), string(raw)
				}
			}
			if s.finish = str(v, "stop_reason"); s.finish == "tool_use" {
				s.finish = "tool_calls"
			}
			return s
		},
		part: func(_ string, v map[string]any, s *said) {
			s.text += str(v, "delta", "text")
			s.thinking += str(v, "delta", "thinking")
			s.call += str(v, "content_block", "name")
			s.arguments += str(v, "delta", "partial_json")
			if str(v, "delta", "stop_reason") == "tool_use" {
				s.finish = "tool_calls"
			}
		},
	}
}

func ollamaDialect() dialect {
	part := func(_ string, v map[string]any, s *said) {
		s.text += str(v, "message", "content")
		s.thinking += str(v, "message", "thinking")
		if f := at(v, "message", "tool_calls", 0, "function"); f != nil {
			raw, _ := json.Marshal(at(f, "arguments"))
			s.call, s.arguments, s.finish = str(f, "name"), string(raw), "tool_calls"
		}
	}
	return dialect{
		path: "/api/chat",
		body: func(a asked) object {
			o := object{"model": "any", "messages": a.chatTurns(), "options": object{"num_predict": a.tokens, "temperature": 0}, "stream": false}
			a.add(o, "think", "template")
			if a.any {
				o["format"] = "json"
			}
			if a.form != nil {
				o["format"] = a.form
			}
			if a.tools {
				o["tools"] = []object{a.tool()}
			}
			if a.budget != nil {
				o["think"] = *a.budget
			}
			if a.think != nil {
				o["think"] = *a.think
			}
			return o
		},
		whole: func(v map[string]any) (s said) {
			part("", v, &s)
			return s
		},
		part: part,
	}
}

// answer sends a request in a dialect, whole and streamed.
func (v *live) answer(d dialect, a asked) map[string]said {
	v.t.Helper()
	body := d.body(a)
	out := map[string]said{"whole": d.whole(v.post(d.path, body))}
	body["stream"] = true
	var s said
	for _, e := range v.events(d.path, body) {
		if e.data != "[DONE]" {
			d.part(e.name, e.json(v.t), &s)
		}
	}
	out["streamed"] = s
	return out
}

// thinker starts a server whose model's template opens the reasoning.
func thinker(t *testing.T, template string) *live { return scripted(t, template, nil) }

// scripted starts a server with a template whose answers are the tokens of replay;
// nil for the model's own answers.
func scripted(t *testing.T, template string, replay func(ctx context.Context, prompt []llm.Token) []llm.Token) *live {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(testmodel.LlamaCpp(t), "llama.cpp", "models", "templates", template+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return startModel(t, func(o *setup) {
		o.Engine.ChatTemplates = []engine.ChatTemplate{{Source: string(source)}}
		o.Engine.Replay = replay
	})
}

// A form of the answer begins where the reasoning ends that the template opened. A
// call may replace the form, and a required call is a call.
func TestFormsBehindThinking(t *testing.T) {
	templates := []string{"Qwen3.5-4B"}
	if os.Getenv("GODWIT_TEST") == "all" {
		templates = append(templates, "Qwen-QwQ-32B")
	}
	for _, template := range templates {
		v := thinker(t, template)
		for name, d := range dialects() {
			valid := func(what string, s said) {
				t.Helper()
				var got map[string]int
				if err := json.Unmarshal([]byte(s.text), &got); err != nil || len(got) != 1 {
					t.Errorf("%s %s %s: content %q, thinking %q, call %q", template, name, what, s.text, s.thinking, s.call)
				}
			}
			for how, s := range v.answer(d, asked{form: personSchema, tokens: 60}) {
				valid(how, s)
				if s.thinking == "" && template == "Qwen3.5-4B" { // after QwQ's template, this model writes line breaks
					t.Errorf("%s %s %s: no thinking", template, name, how)
				}
			}
			off := false
			for how, s := range v.answer(d, asked{form: personSchema, tokens: 40, think: &off}) {
				valid(how+", not thinking", s)
				if s.thinking != "" {
					t.Errorf("%s %s %s: thinking %q, though it is off", template, name, how, s.thinking)
				}
			}
			for how, s := range v.answer(d, asked{form: personSchema, tools: true, tokens: 200}) {
				if s.call == "" {
					valid(how+", with tools", s)
				} else if s.call != "weather" || s.text != "" {
					t.Errorf("%s %s %s: content %q beside the call %q, thinking %q", template, name, how, s.text, s.call, s.thinking)
				}
			}
			if name == "ollama" { // Ollama's API cannot require calls
				continue
			}
			for how, s := range v.answer(d, asked{form: personSchema, tools: true, forced: true, tokens: 200}) {
				if s.call == "" || s.text != "" || s.finish != "tool_calls" {
					t.Errorf("%s %s %s: the demanded call is %q, content %q, finish %q", template, name, how, s.call, s.text, s.finish)
				}
			}
		}
	}
}

// With a form and tools on auto, the model may call a tool. A bias towards the
// call's first letter makes it do so.
func TestFormOrCall(t *testing.T) {
	v := thinker(t, "Qwen-Qwen2.5-7B-Instruct")
	body := object{
		"messages": user("Weather in Rome?"), "max_tokens": 120, "temperature": 0, "tools": []object{weather()}, "parallel_tool_calls": false, "logit_bias": [][]any{{"<", 100}},
		"response_format": object{"type": "json_schema", "json_schema": object{"name": "x", "schema": personSchema}},
	}
	s := chatDialect().whole(v.post("/v1/chat/completions", body))
	if s.call != "weather" || s.text != "" || s.finish != "tool_calls" {
		t.Errorf("biased towards a call: %+v", s)
	}
	body["logit_bias"] = [][]any{{"{", 100}}
	delete(body, "logit_bias")
	body["tool_choice"] = "none"
	if s = chatDialect().whole(v.post("/v1/chat/completions", body)); s.call != "" || !strings.HasPrefix(s.text, `{"a":`) {
		t.Errorf("no tools allowed: %+v", s)
	}
}

// The reasoning budget is respected, and the answer follows.
func TestThinkingBudget(t *testing.T) {
	v := thinker(t, "Qwen3.5-4B")
	for _, n := range []int{0, 5} {
		for _, d := range []dialect{chatDialect(), ollamaDialect(), anthropicDialect()} {
			for how, s := range v.answer(d, asked{budget: &n, tokens: 40}) {
				if (s.thinking == "") != (n == 0) || s.text == "" || strings.Contains(s.text+s.thinking, "think>") {
					t.Errorf("%s %s, %d tokens of thinking: %q, then %q", d.path, how, n, s.thinking, s.text)
				}
			}
		}
	}
	r := v.post("/v1/chat/completions", object{"messages": user(question), "max_tokens": 40, "reasoning_budget": 5, "reasoning_budget_message": " That is enough."})
	if s := chatDialect().whole(r); !strings.HasSuffix(s.thinking, "That is enough.") || s.text == "" || at(r, "usage", "completion_tokens_details", "reasoning_tokens") != 5.0 {
		t.Errorf("with a message: %+v, %v", s, r["usage"])
	}
	if r := v.ask("POST", "/v1/chat/completions/control", object{"id": "chatcmpl-none", "action": "reasoning_end"}); r.status != 404 {
		t.Errorf("control of an answer that does not run: %d %s", r.status, r.body)
	}
	if r := v.ask("POST", "/v1/chat/completions/control", object{"id": "x", "action": "stop"}); r.status != 400 {
		t.Errorf("an unknown action: %d %s", r.status, r.body)
	}
}
