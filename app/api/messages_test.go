package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"godwit/app/api/anthropic"
	"godwit/app/api/wire"
	"godwit/engine"
)

// rendered returns the prompt for a body of /v1/messages.
func rendered(t *testing.T, o anthropic.Options, body string) (messages []map[string]any, c *anthropic.Call) {
	t.Helper()
	c, err := anthropic.ParseMessages([]byte(body), o)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	r, err := c.Requests(&wire.Model{})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if err := json.Unmarshal(r[0].Chat.Messages, &messages); err != nil {
		t.Fatal(err)
	}
	return messages, c
}

// turnsOf formats messages as role and text.
func turnsOf(messages []map[string]any) string {
	var out []string
	for _, m := range messages {
		text, _ := m["content"].(string)
		out = append(out, m["role"].(string)+":"+text)
	}
	return strings.Join(out, "|")
}

// System and developer messages become system turns at their place.
func TestSystemInPlace(t *testing.T) {
	got, _ := rendered(t, anthropic.Options{}, `{"max_tokens":5,"system":"a","messages":[{"role":"user","content":"b"},
		{"role":"system","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"d"},
		{"role":"developer","content":"e"},{"role":"user","content":"f"},{"role":"system","content":"g"}]}`)
	if s := turnsOf(got); s != "system:a|user:b|system:c|assistant:d|system:e|user:f|system:g" {
		t.Error(s)
	}
	v := shared(t)
	for _, stream := range []bool{false, true} {
		r := v.ask("POST", "/v1/messages", object{"max_tokens": 1, "stream": stream, "messages": []object{
			{"role": "user", "content": "hi"}, {"role": "system", "content": "x"}, {"role": "user", "content": "hi"},
		}})
		if r.status != 200 {
			t.Errorf("stream %v: %d %s", stream, r.status, r.body)
		}
	}
}

// The billing line is removed from two turns of Claude Code, and nothing else is.
func TestBillingLine(t *testing.T) {
	const line = "x-anthropic-billing-header: cc_version=2.1.328."
	body := func(version string) string {
		return `{"max_tokens":5,"system":[{"type":"text","text":"` + line + version + `; cc_entrypoint=sdk-cli;"},
			{"type":"text","text":"You are an agent."},{"type":"text","text":"` + line + version + `\nSecond."},{"type":"text","text":"Third.\n` + line + version + `"}],
			"messages":[{"role":"user","content":"` + line + version + `; is what I see"},{"role":"user","content":[{"type":"text","text":"` + line + version + `"}]}]}`
	}
	one, c := rendered(t, anthropic.Options{}, body("b7f"))
	want := "system:You are an agent.\nSecond.\nThird.\n" + line + "b7f|user:" + line + "b7f; is what I see|user:" + line + "b7f"
	if got := turnsOf(one); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := c.Head().Notices; len(n) != 2 || !strings.Contains(n[0], "system[0]") || !strings.Contains(n[1], "system[2]") || !strings.Contains(n[0], "x-anthropic-billing-header") {
		t.Errorf("notices %q", n)
	}
	kept, c := rendered(t, anthropic.Options{KeepHeaders: true}, body("b7f"))
	if got := kept[0]["content"].(string); strings.Count(got, line) != 3 || len(c.Head().Notices) != 0 {
		t.Errorf("kept %q, %q", got, c.Head().Notices)
	}
	if got, _ := rendered(t, anthropic.Options{}, `{"max_tokens":5,"system":"`+line+`a\nb","messages":[{"role":"user","content":"c"}]}`); turnsOf(got) != "system:b|user:c" {
		t.Errorf("a system prompt of one text: %s", turnsOf(got))
	}
	v := startModel(t, nil)
	ask := func(version string) reply {
		return v.ask("POST", "/v1/messages", object{"max_tokens": 1, "messages": user("hi"), "system": []object{
			{"type": "text", "text": line + version}, {"type": "text", "text": strings.Repeat("Answer in few words. ", 40)},
		}})
	}
	first := ask("aaa")
	if h := first.header.Values(wire.NoticeHeader); len(h) != 1 || !strings.Contains(h[0], "x-anthropic-billing-header") {
		t.Errorf("header %q", h)
	}
	if n, _ := at(ask("bbb").json(t), "usage", "cache_read_input_tokens").(float64); n < 128 {
		t.Errorf("%v tokens reused behind another billing line", n)
	}
	count := v.ask("POST", "/v1/messages/count_tokens", object{"messages": user("hi"), "system": line + "a\nb"})
	bare := v.ask("POST", "/v1/messages/count_tokens", object{"messages": user("hi"), "system": "b"})
	if count.status != http.StatusOK || string(count.body) != string(bare.body) || count.header.Get(wire.NoticeHeader) == "" {
		t.Errorf("count %s, %s without the line; header %q", count.body, bare.body, count.header)
	}
	settings := v.o.Settings
	settings.Server.KeepClientHeaders = true
	if err := v.Apply(&settings); err != nil {
		t.Fatal(err)
	}
	if h := ask("ccc").header.Values(wire.NoticeHeader); len(h) != 0 {
		t.Errorf("with --keep-client-headers: %q", h)
	}
}

// Additional fields of Claude Code and the SDKs are accepted. Tools that run on
// other servers are skipped with a notice.
func TestMessagesFields(t *testing.T) {
	_, c := rendered(t, anthropic.Options{}, `{"max_tokens":5,"messages":[{"role":"user","content":"a"}],"metadata":{"user_id":"u"},"betas":["b"],
		"service_tier":"auto","context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"cache_control":{"type":"ephemeral"},
		"thinking":{"type":"adaptive","display":"omitted"},"output_config":{"effort":"high"},
		"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"f","input_schema":{"type":"object"},"defer_loading":true},{"type":"bash_20250124","name":"bash"}]}`)
	if got := strings.Join(c.Head().Unused, " "); got != "metadata betas context_management cache_control service_tier" {
		t.Errorf("fields without effect: %s", got)
	}
	if n := c.Head().Notices; len(n) != 1 || !strings.Contains(n[0], "web_search_20250305") {
		t.Errorf("notices %q", n)
	}
	r, err := c.Requests(&wire.Model{})
	if err != nil {
		t.Fatal(err)
	}
	if tools := string(r[0].Chat.Tools); strings.Contains(tools, "web_search") || !strings.Contains(tools, `"bash"`) || !strings.Contains(tools, `"restart"`) {
		t.Errorf("tools %s", tools)
	}
	if r[0].Chat.Thinking != nil || !strings.Contains(string(r[0].Chat.Kwargs), "high") || r[0].Budget != nil {
		t.Errorf("thinking %v, %s", r[0].Chat.Thinking, r[0].Chat.Kwargs)
	}
	_, c = rendered(t, anthropic.Options{}, `{"max_tokens":5,"messages":[{"role":"user","content":"a"}],"thinking":{"type":"enabled","budget_tokens":1024}}`)
	if r, err = c.Requests(&wire.Model{}); err != nil || r[0].Budget == nil || r[0].Budget.Tokens != 1024 || !*r[0].Chat.Thinking {
		t.Errorf("budget %v, %v", r[0].Budget, err)
	}
}

// The text in documents and tool results is read.
func TestMessagesBlocks(t *testing.T) {
	got, c := rendered(t, anthropic.Options{}, `{"max_tokens":5,"messages":[
		{"role":"user","content":[{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"a"}},
			{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"Yg=="}},{"type":"text","text":"?"}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"`+wire.Carry("hm")+`"},{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"tool_use","id":"t","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":""}}]}]}]}`)
	if s := turnsOf(got); s != "user:T\na\nb\n?|assistant:|tool:r\n[image left out: only text is read here]" || got[1]["reasoning_content"] != "hm" {
		t.Errorf("%s, thinking %v", s, got[1]["reasoning_content"])
	}
	if n := c.Head().Notices; len(n) != 2 {
		t.Errorf("notices %q", n)
	}
	for _, body := range []string{
		`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":""}}`,
	} {
		_, err := anthropic.ParseMessages([]byte(`{"max_tokens":5,"messages":[{"role":"user","content":[`+body+`]}]}`), anthropic.Options{})
		if err == nil || !strings.Contains(err.Error(), "only text documents are") {
			t.Errorf("%s: %v", body, err)
		}
	}
	body := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":""}}`
	if _, err := anthropic.ParseMessages([]byte(`{"max_tokens":5,"messages":[{"role":"user","content":[`+body+`]}]}`), anthropic.Options{}); err == nil {
		t.Error("a picture without a file was accepted")
	}
}

// Reasoning that a client asked not to see is in the signature, and returns with
// the next request.
func TestOmittedThinking(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "short": "a", "long": strings.Repeat("é", 5000)} {
		if got := wire.Carried(wire.Carry(text)); got != text {
			t.Errorf("%s: %.20q came back", name, got)
		}
	}
	for _, foreign := range []string{"EqoBCkgIARABGAIiQL", "godwit1.", "godwit1.AAAA", "godwit1.AAAAAAAA", wire.Carry("ab") + "A"} {
		if got := wire.Carried(foreign); got != "" {
			t.Errorf("%s is read as %q", foreign, got)
		}
	}
	for display, shown := range map[string]string{"omitted": "", "summarized": "hm well"} {
		_, c := rendered(t, anthropic.Options{}, `{"max_tokens":5,"messages":[{"role":"user","content":"a"}],"thinking":{"type":"adaptive","display":"`+display+`"}}`)
		events := []engine.Event{
			{Kind: engine.Reasoning, Text: "hm "},
			{Kind: engine.Reasoning, Text: "well"},
			{Kind: engine.Text, Text: "b"},
			{Kind: engine.End, Result: &engine.Result{Finish: engine.FinishStop}},
		}
		m := &wire.Model{}
		whole, stream, out := c.Whole(m), c.Stream(m), &sent{}
		for i := range events {
			whole.Add(0, &events[i])
			if err := stream.Add(out, 0, &events[i]); err != nil {
				t.Fatal(err)
			}
		}
		b := whole.Body().(*anthropic.Message).Content[0]
		if *b.Thinking != shown || wire.Carried(*b.Signature) != "hm well" {
			t.Errorf("%s: thinking %q, signature of %q", display, *b.Thinking, wire.Carried(*b.Signature))
		}
		var text, sign string
		for _, raw := range *out {
			var ev map[string]any
			if err := json.Unmarshal(raw, &ev); err != nil {
				t.Fatal(err)
			}
			if s, ok := at(ev, "delta", "thinking").(string); ok {
				text += s
			}
			if s, ok := at(ev, "delta", "signature").(string); ok {
				sign += s
			}
		}
		if text != shown || wire.Carried(sign) != "hm well" {
			t.Errorf("%s, streamed: thinking %q, signature of %q", display, text, wire.Carried(sign))
		}
	}
}

// sent collects the messages of a stream.
type sent []json.RawMessage

func (s *sent) Send(_ string, data any) error {
	*s = append(*s, wire.JSON(data))
	return nil
}

// As many tools are accepted as fit the context.
func TestManyTools(t *testing.T) {
	v := startModel(t, func(o *setup) { o.Engine.Context, o.Engine.Cells = 8192, 8192 })
	for _, n := range []int{129, 259} {
		var chat, messages, responses []object
		for i := range n {
			name := "f" + strings.Repeat("x", i%3) + string(rune('a'+i%26)) + string(rune('a'+i/26))
			schema := object{"type": "object"}
			chat = append(chat, object{"type": "function", "function": object{"name": name}})
			messages = append(messages, object{"name": name, "input_schema": schema})
			responses = append(responses, object{"type": "function", "name": name})
		}
		for path, body := range map[string]object{
			"/apply-template":           {"messages": user("a"), "tools": chat},
			"/v1/messages/count_tokens": {"messages": user("a"), "tools": messages},
		} {
			if r := v.ask("POST", path, body); r.status != 200 {
				t.Errorf("%d tools, %s: %d %.200s", n, path, r.status, r.body)
			}
		}
		r := v.ask("POST", "/v1/responses", object{"input": strings.Repeat("long ", 8192), "tools": responses})
		if r.status != 400 || at(r.json(t), "error", "code") != "context_length_exceeded" {
			t.Errorf("%d tools that do not fit: %d %.200s", n, r.status, r.body)
		}
	}
}
