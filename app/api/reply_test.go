package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"godwit/app/api/anthropic"
	"godwit/app/api/llamaserver"
	"godwit/app/api/ollama"
	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
)

// script is the output of an engine: reasoning, text, two calls with arguments in
// pieces, and the end.
var script = []engine.Event{
	{Kind: engine.Prefill, Done: 64, Total: 100},
	{Kind: engine.Prefill, Done: 100, Total: 100},
	{Kind: engine.Reasoning, Text: "Let me "},
	{Kind: engine.Reasoning, Text: "look."},
	{Kind: engine.Text, Text: "I call "},
	{Kind: engine.Text, Text: "twice."},
	{Kind: engine.Call, Call: engine.CallDelta{Index: 0, ID: "c1", Name: "weather"}},
	{Kind: engine.Call, Call: engine.CallDelta{Index: 0, Arguments: `{"city":`}},
	{Kind: engine.Call, Call: engine.CallDelta{Index: 0, Arguments: ` "Öl"}`}},
	{Kind: engine.Call, Call: engine.CallDelta{Index: 1, ID: "c2", Name: "time", Arguments: `{}`}},
	{Kind: engine.End, Result: &engine.Result{Finish: engine.FinishTools, Prompt: 100, Cached: 64, Completion: 42, Reasoning: 7}},
}

// reading reads the body of a dialect's request.
type reading func(body []byte) (wire.Call, error)

// calls reads bodies with a parser that returns a concrete type.
func calls[T wire.Call](parse func([]byte) (T, error)) reading {
	return func(body []byte) (wire.Call, error) {
		c, err := parse(body)
		return c, err
	}
}

// parsers reads a call in each dialect.
var parsers = map[string]struct {
	parse reading
	body  string
}{
	"chat":      {calls(openai.ParseChat), `{"messages":[{"role":"user","content":"a"}],"stream":%v,"stream_options":{"include_usage":true}}`},
	"response":  {calls(func(b []byte) (*openai.Responses, error) { return openai.ParseResponses(b, new(openai.Memory)) }), `{"input":"a","stream":%v}`},
	"anthropic": {calls(func(b []byte) (*anthropic.Call, error) { return anthropic.ParseMessages(b, anthropic.Options{}) }), `{"messages":[{"role":"user","content":"a"}],"max_tokens":9,"stream":%v}`},
	"ollama":    {calls(ollama.ParseChat), `{"model":"m","messages":[{"role":"user","content":"a"}],"stream":%v}`},
	"generate":  {calls(ollama.ParseGenerate), `{"model":"m","prompt":"a","stream":%v}`},
	"llama":     {calls(llamaserver.ParseCompletion), `{"prompt":"a","stream":%v}`},
}

// play sends the script through a dialect.
func play(t *testing.T, name string, stream bool) (whole map[string]any, events []event) {
	t.Helper()
	p := parsers[name]
	c, err := p.parse([]byte(fmt.Sprintf(p.body, stream)))
	if err != nil {
		t.Fatal(err)
	}
	m := &wire.Model{Name: "m"}
	if !stream {
		w := c.Whole(m)
		for i := range script {
			w.Add(0, &script[i])
		}
		return reply{body: wire.JSON(w.Body())}.json(t), nil
	}
	rec := httptest.NewRecorder()
	out := &recording{w: rec, lines: c.Head().Lines}
	s := c.Stream(m)
	for i := range script {
		if i == 2 {
			err = s.Start(out)
		}
		if err == nil {
			err = s.Add(out, 0, &script[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.End(out); err != nil {
		t.Fatal(err)
	}
	return nil, readEvents(t, rec.Body.Bytes())
}

// recording is a stream without a connection.
type recording struct {
	w     *httptest.ResponseRecorder
	lines bool
}

func (r *recording) Send(name string, data any) error {
	text, ok := data.(wire.Plain)
	if !ok {
		text = wire.Plain(wire.JSON(data))
	}
	if r.lines {
		fmt.Fprintf(r.w, "%s\n", text)
		return nil
	}
	if name != "" {
		fmt.Fprintf(r.w, "event: %s\n", name)
	}
	fmt.Fprintf(r.w, "data: %s\n\n", text)
	return nil
}

func TestChatReply(t *testing.T) {
	whole, _ := play(t, "chat", false)
	c := at(whole, "choices", 0)
	if at(c, "message", "content") != "I call twice." || at(c, "message", "reasoning_content") != "Let me look." || at(c, "finish_reason") != "tool_calls" ||
		at(c, "message", "tool_calls", 0, "id") != "c1" || at(c, "message", "tool_calls", 0, "function", "arguments") != `{"city": "Öl"}` ||
		at(c, "message", "tool_calls", 1, "function", "name") != "time" || at(whole, "usage", "total_tokens") != 142.0 || at(whole, "usage", "completion_tokens_details", "reasoning_tokens") != 7.0 {
		t.Errorf("whole: %v", whole)
	}
	_, events := play(t, "chat", true)
	args := map[float64]string{}
	ids := map[float64]string{}
	var content, thinking string
	for _, e := range events[:len(events)-1] {
		d := at(e.json(t), "choices", 0, "delta")
		if s, ok := at(d, "content").(string); ok {
			content += s
		}
		if s, ok := at(d, "reasoning_content").(string); ok {
			thinking += s
		}
		list, _ := at(d, "tool_calls").([]any)
		for _, call := range list {
			i := at(call, "index").(float64)
			args[i] += at(call, "function", "arguments").(string)
			if id, ok := at(call, "id").(string); ok {
				if ids[i] != "" || at(call, "type") != "function" || at(call, "function", "name") == nil {
					t.Errorf("call %v begins with %v", i, call)
				}
				ids[i] = id
			}
		}
	}
	if content != "I call twice." || thinking != "Let me look." || args[0] != `{"city": "Öl"}` || args[1] != `{}` || ids[0] != "c1" || ids[1] != "c2" {
		t.Errorf("streamed: %q, %q, %v, %v", content, thinking, args, ids)
	}
	for i, a := range args {
		if !json.Valid([]byte(a)) {
			t.Errorf("arguments of call %v are %q", i, a)
		}
	}
}

func TestAnthropicReply(t *testing.T) {
	whole, _ := play(t, "anthropic", false)
	var kinds []string
	for i := range whole["content"].([]any) {
		kinds = append(kinds, at(whole, "content", i, "type").(string))
	}
	if got := strings.Join(kinds, " "); got != "thinking text tool_use tool_use" || at(whole, "content", 2, "input", "city") != "Öl" ||
		whole["stop_reason"] != "tool_use" || at(whole, "usage", "input_tokens") != 36.0 || at(whole, "usage", "cache_read_input_tokens") != 64.0 {
		t.Errorf("whole: %v", whole)
	}
	_, events := play(t, "anthropic", true)
	var order []string
	var input string
	for _, e := range events {
		v := e.json(t)
		if v["type"] != e.name {
			t.Errorf("event %s has the type %v", e.name, v["type"])
		}
		step := e.name
		switch e.name {
		case "content_block_start":
			step = fmt.Sprint("+", v["index"], at(v, "content_block", "type"))
		case "content_block_delta":
			if s, ok := at(v, "delta", "partial_json").(string); ok && v["index"] == 2.0 {
				input += s
			}
			continue
		case "content_block_stop":
			step = fmt.Sprint("-", v["index"])
		}
		order = append(order, step)
	}
	const want = "message_start ping +0thinking -0 +1text -1 +2tool_use -2 +3tool_use -3 message_delta message_stop"
	if got := strings.Join(order, " "); got != want || input != `{"city": "Öl"}` {
		t.Errorf("streamed: %s, want %s; input %q", got, want, input)
	}
	if at(events[0].json(t), "message", "usage", "cache_read_input_tokens") != 64.0 {
		t.Errorf("message_start: %s", events[0].data)
	}
}

func TestResponsesReply(t *testing.T) {
	whole, _ := play(t, "response", false)
	if at(whole, "output", 0, "content", 0, "text") != "Let me look." || at(whole, "output", 1, "content", 0, "text") != "I call twice." ||
		at(whole, "output", 2, "arguments") != `{"city": "Öl"}` || at(whole, "output", 3, "call_id") != "c2" || whole["status"] != "completed" || at(whole, "usage", "output_tokens_details", "reasoning_tokens") != 7.0 {
		t.Errorf("whole: %v", whole)
	}
	_, events := play(t, "response", true)
	var args, text string
	open := map[string]bool{}
	for i, e := range events {
		v := e.json(t)
		if v["sequence_number"] != float64(i) || v["type"] != e.name {
			t.Errorf("event %d is %s", i, e.data)
		}
		switch e.name {
		case "response.output_item.added":
			open[at(v, "item", "id").(string)] = true
		case "response.output_item.done":
			delete(open, at(v, "item", "id").(string))
		case "response.output_text.delta":
			text += v["delta"].(string)
		case "response.function_call_arguments.delta":
			if v["output_index"] == 2.0 {
				args += v["delta"].(string)
			}
		}
		if id, ok := v["item_id"].(string); ok && !open[id] {
			t.Errorf("event %d is about %s, which is not open", i, id)
		}
	}
	last := events[len(events)-1]
	if events[0].name != "response.created" || last.name != "response.completed" || len(open) != 0 || text != "I call twice." || args != `{"city": "Öl"}` {
		t.Errorf("streamed: %s … %s, text %q, arguments %q", events[0].name, last.data, text, args)
	}
	if at(last.json(t), "response", "output", 2, "arguments") != args || at(last.json(t), "response", "usage", "input_tokens_details", "cached_tokens") != 64.0 {
		t.Errorf("the last event: %s", last.data)
	}
}

func TestOllamaReply(t *testing.T) {
	whole, _ := play(t, "ollama", false)
	if at(whole, "message", "thinking") != "Let me look." || at(whole, "message", "tool_calls", 0, "function", "arguments", "city") != "Öl" ||
		whole["done"] != true || whole["done_reason"] != "stop" || whole["eval_count"] != 42.0 {
		t.Errorf("whole: %v", whole)
	}
	_, events := play(t, "ollama", true)
	var calls []any
	for i, e := range events {
		v := e.json(t)
		if list, ok := at(v, "message", "tool_calls").([]any); ok {
			calls = append(calls, list...)
		}
		if last := i == len(events)-1; v["done"] != last || last != (v["eval_count"] != nil) {
			t.Errorf("line %d of %d: %s", i, len(events), e.data)
		}
	}
	if len(calls) != 2 || at(calls, 0, "function", "arguments", "city") != "Öl" {
		t.Errorf("streamed calls: %v", calls)
	}
	if whole, _ := play(t, "generate", false); whole["response"] != "I call twice." || whole["thinking"] != "Let me look." {
		t.Errorf("generate: %v", whole)
	}
}

// FuzzBodies sends arbitrary bytes as bodies in every dialect.
func FuzzBodies(f *testing.F) {
	for _, p := range parsers {
		f.Add([]byte(fmt.Sprintf(p.body, true)))
	}
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}],"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"function":{"name":"f"}},"stop":["a"],"logit_bias":[[5,false],["a",-1]],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}}`))
	f.Add([]byte(`{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"output_text","text":"a"}]},{"type":"reasoning","summary":[{"text":"a"}]}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"tool","tool_name":"f","content":"a"},{"role":"assistant","thinking":"x","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}],"keep_alive":1e300,"format":{"enum":[1]},"think":"low"}`))
	v := shared(f)
	l, err := v.lease(f.Context(), &wire.Head{AsLoaded: true})
	if err != nil {
		f.Fatal(err)
	}
	defer l.Release()
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, p := range parsers {
			c, err := p.parse(body)
			if err != nil {
				if e := v.explain(err); e.Status != 400 {
					t.Errorf("%s: %d %v", name, e.Status, err)
				}
				continue
			}
			if _, err := c.Requests(&wire.Model{Name: "m", Engine: l.Engine}); err != nil && v.explain(err).Status != 400 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A response that fails after it started contains the text up to that point.
func TestFailedResponse(t *testing.T) {
	c, err := openai.ParseResponses([]byte(`{"input":"a","stream":true}`), new(openai.Memory))
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	out := &recording{w: rec}
	s := c.Stream(&wire.Model{Name: "m"})
	err = errors.Join(s.Start(out), s.Add(out, 0, &engine.Event{Kind: engine.Text, Text: "I call"}), s.Fail(out, errStopping))
	if err != nil {
		t.Fatal(err)
	}
	events := readEvents(t, rec.Body.Bytes())
	last := events[len(events)-1].json(t)
	item := at(last, "response", "output", 0)
	if last["type"] != "response.failed" || at(item, "status") != "incomplete" || at(item, "content", 0, "text") != "I call" {
		t.Errorf("%v", last)
	}
}
