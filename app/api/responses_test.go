package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

// startScript starts a server with the real model whose answers are a fixed text.
func startScript(t *testing.T, text *string) *live {
	t.Helper()
	m, err := engine.OpenModel(testmodel.SmolLM2(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	words, err := m.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	return startModel(t, func(o *setup) {
		o.Engine.Replay = func(context.Context, []llm.Token) []llm.Token { return words.EncodeText(*text, false, false) }
	})
}

// called is an answer in the tool-call syntax for templates without tools.
func called(name string, args any) string {
	return `{"tool_calls": [` + string(wire.JSON(object{"name": name, "arguments": args})) + `]}`
}

var codexTools = []object{
	{"type": "function", "name": "plan", "parameters": object{"type": "object"}},
	{"type": "namespace", "name": "mcp__files", "description": "d", "tools": []object{{"type": "function", "name": "read", "parameters": object{"type": "object"}}}},
	{"type": "custom", "name": "apply_patch", "description": "Edit files.", "format": object{"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
	{"type": "custom", "name": "code", "format": object{"type": "text"}},
	{"type": "custom", "name": "digits", "format": object{"type": "grammar", "syntax": "regex", "definition": "[0-9]{3}"}},
	{"type": "local_shell"},
	{"type": "web_search"},
	{"type": "image_generation"},
	{"type": "mcp", "server_label": "s", "server_url": "https://example.org"},
	{"type": "from_tomorrow"},
}

// Every type of tool is accepted or skipped with a notice. A call becomes an item
// with the type and name of its tool, whole and streamed.
func TestResponsesTools(t *testing.T) {
	var text string
	v := startScript(t, &text)
	for _, c := range []struct {
		name string
		args any
		want object // expected item
	}{
		{"plan", object{"a": 1}, object{"type": "function_call", "name": "plan", "arguments": `{"a":1}`}},
		{"mcp__files__read", object{"path": "x"}, object{"type": "function_call", "name": "read", "namespace": "mcp__files", "arguments": `{"path":"x"}`}},
		{"apply_patch", object{"input": "*** Begin\n\"é\"\n"}, object{"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin\n\"é\"\n"}},
		{"local_shell", object{"command": []string{"ls", "-l"}, "timeout_ms": 5}, object{"type": "local_shell_call"}},
	} {
		text = called(c.name, c.args)
		body := object{"input": "a", "tools": codexTools}
		r := v.ask("POST", "/v1/responses", body)
		item := at(r.json(t), "output", 0)
		if r.status != 200 {
			t.Fatalf("%s: %d %s", c.name, r.status, r.body)
		}
		notices := strings.Join(r.header.Values(wire.NoticeHeader), "\n")
		for _, kind := range []string{"web_search", "image_generation", "mcp", "from_tomorrow"} {
			if !strings.Contains(notices, `"`+kind+`"`) {
				t.Errorf("no notice about %s: %s", kind, notices)
			}
		}
		body["stream"] = true
		var done any
		for _, e := range v.events("/v1/responses", body) {
			if e.name == "response.output_item.done" {
				done = at(e.json(t), "item")
			}
		}
		for how, it := range map[string]any{"whole": item, "streamed": done} {
			for key, want := range c.want {
				got := at(it, key)
				if key == "arguments" {
					got = wire.Compact(json.RawMessage(got.(string)))
				}
				if got != want {
					t.Errorf("%s, %s: %s is %q, want %q", c.name, how, key, got, want)
				}
			}
			if at(it, "call_id") == nil || c.name == "local_shell" && (at(it, "action", "command", 1) != "-l" || at(it, "action", "timeout_ms") != 5.0) {
				t.Errorf("%s, %s: %v", c.name, how, it)
			}
		}
		// The next turn returns the item together with the tool's result.
		kind := at(item, "type").(string) + "_output"
		next := object{"tools": codexTools, "store": false, "input": []any{
			object{"role": "user", "content": "a"}, item, object{"type": kind, "call_id": at(item, "call_id"), "output": "Xq7result"},
		}}
		if r := v.ask("POST", "/v1/responses", next); r.status != 200 {
			t.Errorf("%s in the next turn: %d %s", c.name, r.status, r.body)
		}
	}
	alone := v.ask("POST", "/v1/responses", object{"input": "a", "tools": []object{{"type": "web_search"}}})
	if alone.status != 400 || at(alone.json(t), "error", "param") != "tools[0].type" {
		t.Errorf("a tool that cannot be offered, alone: %d %s", alone.status, alone.body)
	}
}

// A forced custom tool is called with input that matches its regular expression.
func TestForcedCustomTool(t *testing.T) {
	v := shared(t)
	for _, choice := range []any{
		object{"type": "custom", "name": "digits"},
		object{"type": "allowed_tools", "mode": "required", "tools": []object{{"type": "custom", "name": "digits"}, {"type": "web_search"}}},
	} {
		r := v.post("/v1/responses", object{"input": "a", "tools": codexTools, "tool_choice": choice, "parallel_tool_calls": false})
		it := at(r, "output", 0)
		if input, _ := at(it, "input").(string); at(it, "name") != "digits" || len(input) != 3 {
			t.Errorf("%v: %v", choice, it)
		}
	}
}

// messagesOf returns the messages for the model in a body of /v1/responses.
func messagesOf(t *testing.T, m *openai.Memory, body string) (string, *openai.Responses) {
	t.Helper()
	c, err := openai.ParseResponses([]byte(body), m)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	r, err := c.Requests(&wire.Model{})
	if err != nil {
		t.Fatal(err)
	}
	return string(r[0].Chat.Messages), c
}

// A conversation continues by the id of a response, by references to its items, and
// by the items themselves. The model sees the same in all cases.
func TestResponsesMemory(t *testing.T) {
	text := "first answer"
	v := startScript(t, &text)
	first := v.post("/v1/responses", object{"input": "one"})
	if first["store"] != true {
		t.Errorf("store %v", first["store"])
	}
	id, item := first["id"].(string), at(first, "output", 0, "id").(string)
	want, _ := messagesOf(t, &v.memory, `{"input":[{"role":"user","content":"one"},{"role":"assistant","content":"first answer"},{"role":"user","content":"two"}]}`)
	for name, body := range map[string]string{
		"previous_response_id": `{"previous_response_id":"` + id + `","input":"two"}`,
		"item_reference":       `{"input":[{"role":"user","content":"one"},{"type":"item_reference","id":"` + item + `"},{"role":"user","content":"two"}]}`,
		"bare id":              `{"input":[{"role":"user","content":"one"},{"id":"` + item + `"},{"role":"user","content":"two"}]}`,
	} {
		if got, _ := messagesOf(t, &v.memory, body); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	text = "second answer"
	second := v.post("/v1/responses", object{"previous_response_id": id, "input": "two", "instructions": "be brief"})
	if second["previous_response_id"] != id {
		t.Errorf("previous_response_id %v", second["previous_response_id"])
	}
	got := v.ask("GET", "/v1/responses/"+second["id"].(string), nil).json(t)
	if at(got, "output", 0, "content", 0, "text") != "second answer" || got["status"] != "completed" {
		t.Errorf("kept: %v", got)
	}
	list := v.ask("GET", "/v1/responses/"+second["id"].(string)+"/input_items?order=asc&limit=2", nil).json(t)
	if at(list, "data", 0, "content", 0, "text") != "one" || at(list, "data", 1, "id") != item || list["has_more"] != true {
		t.Errorf("input items: %v", list)
	}
	if r := v.ask("DELETE", "/v1/responses/"+id, nil).json(t); r["deleted"] != true {
		t.Errorf("deleted: %v", r)
	}
	// The response that continued from it still has its items.
	if got, _ := messagesOf(t, &v.memory, `{"input":[{"role":"user","content":"one"},{"type":"item_reference","id":"`+item+`"},{"role":"user","content":"two"}]}`); got != want {
		t.Errorf("an item of two responses, one of them deleted: %s", got)
	}
	for _, c := range [][2]string{{"GET", id}, {"DELETE", id}, {"GET", id + "/input_items"}, {"POST", id + "/cancel"}, {"GET", "resp_x"}} {
		if r := v.ask(c[0], "/v1/responses/"+c[1], nil); r.status != 404 || at(r.json(t), "error", "code") != "not_found" {
			t.Errorf("%s %s: %d %s", c[0], c[1], r.status, r.body)
		}
	}
	for _, body := range []object{
		{"input": "a", "previous_response_id": id},
		{"input": []object{{"type": "item_reference", "id": "msg_x"}}},
	} {
		if r := v.ask("POST", "/v1/responses", body); r.status != 404 {
			t.Errorf("%v: %d %s", body, r.status, r.body)
		}
	}
	quiet := v.post("/v1/responses", object{"input": "one", "store": false})
	if r := v.ask("GET", "/v1/responses/"+quiet["id"].(string), nil); r.status != 404 || quiet["store"] != false {
		t.Errorf("a response that is not stored: %d", r.status)
	}
	counted := v.post("/v1/responses/input_tokens", object{"previous_response_id": second["id"], "input": "three"})
	if n, _ := counted["input_tokens"].(float64); n < 20 {
		t.Errorf("%v tokens", counted)
	}
}

// The size of the memory stays limited.
func TestResponsesBound(t *testing.T) {
	var m openai.Memory
	last := ""
	big := strings.Repeat("x", 8<<20)
	for range 20 {
		_, c := messagesOf(t, &m, `{"input":"`+big+`"}`)
		w := c.Whole(&wire.Model{})
		w.Add(0, &engine.Event{Kind: engine.Text, Text: "a"})
		w.Add(0, &engine.Event{Kind: engine.End, Result: &engine.Result{Finish: engine.FinishStop}})
		last = w.Body().(*openai.Response).ID
	}
	if _, err := m.Body(last); err != nil {
		t.Error(err)
	}
	if n := m.Bytes(); n > 80<<20 {
		t.Errorf("%d bytes are kept", n)
	}
}

// A background response is fetched later, or cancelled.
func TestBackground(t *testing.T) {
	text := "an answer"
	v := startScript(t, &text)
	r := v.post("/v1/responses", object{"input": "a", "background": true})
	if r["status"] != "queued" || r["background"] != true {
		t.Errorf("at once: %v", r)
	}
	get := func(id any) map[string]any { return v.ask("GET", fmt.Sprint("/v1/responses/", id), nil).json(t) }
	wait(t, "answer", func() bool { return get(r["id"])["status"] == "completed" })
	if got := get(r["id"]); at(got, "output", 0, "content", 0, "text") != text {
		t.Errorf("later: %v", got)
	}
	text = strings.Repeat("a long answer ", 2000)
	long := v.post("/v1/responses", object{"input": "b", "background": true})
	if c := v.post(fmt.Sprint("/v1/responses/", long["id"], "/cancel"), nil); c["status"] != "cancelled" {
		t.Errorf("cancelled: %v", c)
	}
	wait(t, "free slots", func() bool { return get(long["id"])["status"] == "cancelled" })
	plain := v.post("/v1/responses", object{"input": "a", "max_output_tokens": 1})
	if r := v.ask("POST", fmt.Sprint("/v1/responses/", plain["id"], "/cancel"), nil); r.status != 400 {
		t.Errorf("cancel of a finished one: %d %s", r.status, r.body)
	}
	bad := v.post("/v1/responses", object{"input": strings.Repeat("long ", 5000), "background": true})
	wait(t, "failure", func() bool { return get(bad["id"])["status"] == "failed" })
}

// A request without input is answered without a model.
func TestEmptyInput(t *testing.T) {
	v := shared(t)
	r := v.post("/v1/responses", object{"input": []object{}, "model": "m"})
	if out, ok := r["output"].([]any); r["status"] != "completed" || !ok || len(out) != 0 || at(r, "usage", "total_tokens") != 0.0 {
		t.Errorf("whole: %v", r)
	}
	list := v.events("/v1/responses", object{"input": []object{}, "stream": true})
	if list[len(list)-1].name != "response.completed" {
		t.Errorf("streamed: %v", list)
	}
}

// Reasoning is restored from the opaque field, and items from other servers are
// skipped.
func TestResponsesItems(t *testing.T) {
	var m openai.Memory
	_, c := messagesOf(t, &m, `{"input":"a","include":["reasoning.encrypted_content"]}`)
	w := c.Whole(&wire.Model{})
	w.Add(0, &engine.Event{Kind: engine.Reasoning, Text: "Xq7think"})
	w.Add(0, &engine.Event{Kind: engine.Text, Text: "b"})
	w.Add(0, &engine.Event{Kind: engine.End, Result: &engine.Result{Finish: engine.FinishStop}})
	carried := w.Body().(*openai.Response).Output[0].Carried
	if wire.Carried(carried) != "Xq7think" {
		t.Errorf("encrypted content %q", carried)
	}
	got, c := messagesOf(t, &m, `{"input":[{"role":"user","content":"a"},{"type":"reasoning","summary":[],"encrypted_content":"`+carried+`"},{"role":"assistant","content":"b"},
		{"type":"reasoning","summary":[],"encrypted_content":"from elsewhere"},{"type":"web_search_call","id":"ws","status":"completed"},
		{"type":"function_call","call_id":"c","name":"read","namespace":"n","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"x"}]}],
		"user":"u","truncation":"auto","tools":[]}`)
	if !strings.Contains(got, `"reasoning_content":"Xq7think"`) || !strings.Contains(got, `"n__read"`) || !strings.Contains(got, "input_image left out") {
		t.Error(got)
	}
	if h := c.Head(); len(h.Notices) != 2 || strings.Join(h.Unused, " ") != "truncation user" {
		t.Errorf("notices %q, without effect %q", h.Notices, h.Unused)
	}
}

// The context length of a model is where clients look for it.
func TestModelContext(t *testing.T) {
	v := shared(t)
	m := v.ask("GET", "/v1/models", nil).json(t)
	for _, path := range [][]any{{"data", 0, "context_length"}, {"data", 0, "context_window"}, {"models", 0, "context_length"}} {
		if n, _ := at(m, path...).(float64); n < 1024 {
			t.Errorf("%v: %v", path, at(m, path...))
		}
	}
	if at(m, "data", 0, "capabilities", 0) != "completion" || at(m, "models", 0, "name") != at(m, "data", 0, "id") {
		t.Errorf("%v", m)
	}
}
