package api

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"godwit/app/api/wire"
	"godwit/app/pool"
	"godwit/engine"
)

// Unknown fields are listed in a header, for whole and streamed answers, and have
// no other effect.
func TestIgnoredFields(t *testing.T) {
	v := shared(t)
	for path, c := range map[string]struct {
		body   object
		nested string // name of an unknown field in a nested object
		stream bool
	}{
		"/v1/chat/completions":      {object{"messages": user("a"), "max_tokens": 2, "stream_options": object{}}, "stream_options", true},
		"/chat/completions":         {object{"messages": user("a"), "max_tokens": 2, "response_format": object{"type": "text"}}, "response_format", true},
		"/v1/completions":           {object{"prompt": "a", "max_tokens": 2, "stream_options": object{}}, "stream_options", true},
		"/v1/responses":             {object{"input": "a", "max_output_tokens": 2, "reasoning": object{"effort": "none"}}, "reasoning", true},
		"/v1/embeddings":            {object{"input": "a"}, "", false},
		"/v1/messages":              {object{"messages": user("a"), "max_tokens": 2, "thinking": object{"type": "disabled"}}, "thinking", true},
		"/v1/messages/count_tokens": {object{"messages": user("a"), "thinking": object{"type": "disabled"}}, "thinking", false},
		"/completion":               {object{"prompt": "a", "n_predict": 2}, "", true},
		"/infill":                   {object{"input_prefix": "a", "input_suffix": "b", "n_predict": 2}, "", true},
		"/tokenize":                 {object{"content": "a"}, "", false},
		"/detokenize":               {object{"tokens": []int{5}}, "", false},
		"/apply-template":           {object{"messages": user("a")}, "", false},
		"/api/chat":                 {object{"model": "m", "messages": user("a"), "options": object{"num_predict": 2}}, "options", true},
		"/api/generate":             {object{"model": "m", "prompt": "a", "options": object{"num_predict": 2}}, "options", true},
		"/api/embed":                {object{"model": "m", "input": "a"}, "", false},
		"/api/embeddings":           {object{"model": "m", "prompt": "a"}, "", false},
		"/api/show":                 {object{"model": "m"}, "", false},
	} {
		for _, stream := range []bool{false, true} {
			if stream && !c.stream {
				continue
			}
			if c.stream {
				c.body["stream"] = stream
			}
			before := v.ask("POST", path, c.body)
			if got, there := before.header[wire.IgnoredHeader]; there {
				t.Errorf("%s: %q though all fields are known", path, got)
			}
			want := "tempature"
			c.body["tempature"] = []any{1, object{"a": "b"}}
			if c.nested != "" {
				c.body[c.nested].(object)["bogus"] = 1
			}
			r := v.ask("POST", path, c.body)
			if r.status != before.status {
				t.Errorf("%s, stream %v: %d with unknown fields, %d without", path, stream, r.status, before.status)
			}
			got := r.header.Get(wire.IgnoredHeader)
			if !strings.Contains(got, want) || c.nested != "" && !strings.Contains(got, c.nested+".bogus") {
				t.Errorf("%s, stream %v: %q", path, stream, got)
			}
			delete(c.body, "tempature")
			if c.nested != "" {
				delete(c.body[c.nested].(object), "bogus")
			}
		}
	}
}

// A chat template in a request is used, or rejected with the reason: a Go template,
// one that is not Jinja, and one that never ends.
func TestTemplateInRequest(t *testing.T) {
	v := shared(t)
	bodies := map[string]object{
		"/v1/chat/completions": {"messages": user("a"), "chat_template": "", "max_tokens": 1},
		"/chat/completions":    {"messages": user("a"), "template": "", "max_tokens": 1},
		"/apply-template":      {"messages": user("a"), "chat_template": ""},
		"/v1/responses":        {"input": "a", "chat_template": "", "max_output_tokens": 1},
		"/api/chat":            {"model": "m", "messages": user("a"), "template": "", "stream": false, "options": object{"num_predict": 1}},
		"/api/generate":        {"model": "m", "prompt": "a", "template": "", "stream": false, "options": object{"num_predict": 1}},
	}
	tokens := func(r map[string]any) any {
		for _, path := range [][]any{{"usage", "prompt_tokens"}, {"usage", "input_tokens"}, {"prompt_eval_count"}} {
			if n := at(r, path...); n != nil {
				return n
			}
		}
		return nil
	}
	for path, body := range bodies {
		field := "chat_template"
		if body[field] == nil {
			field = "template"
		}
		for _, source := range []string{
			"{{ .Prompt }}", "{{ if .System }}a{{ end }}", "{{ messages ", "{% for m in messages %}",
			"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "{{ 'a' * 10**9 }}",
		} {
			body[field] = source
			if r := v.ask("POST", path, body); r.status != 400 || !strings.Contains(string(r.body), "template") {
				t.Errorf("%s with %q: %d %s", path, source, r.status, r.body)
			}
		}
		body[field] = "{{ messages[0].content }} b c d e"
		r := v.post(path, body)
		if path == "/apply-template" {
			if r["prompt"] != "a b c d e" {
				t.Errorf("%s: %v", path, r)
			}
		} else if tokens(r) != 5.0 {
			t.Errorf("%s: a prompt of %v tokens, want 5: %v", path, tokens(r), r)
		}
	}
}

// A chat template for a text that is continued is refused, not ignored.
func TestTemplateWithoutChat(t *testing.T) {
	v := shared(t)
	for path, body := range map[string]object{
		"/v1/completions": {"prompt": "a"}, "/api/v0/completions": {"prompt": "a"}, "/completion": {"prompt": "a"}, "/completions": {"prompt": "a"},
		"/infill": {"input_prefix": "a", "input_suffix": "b"},
	} {
		for _, stream := range []bool{false, true} {
			body["stream"], body["chat_template"] = stream, "{{ messages[0].content }}"
			if r := v.ask("POST", path, body); r.status != 400 || !strings.Contains(string(r.body), "do not use a chat template") {
				t.Errorf("%s, stream %v: %d %s", path, stream, r.status, r.body)
			}
		}
	}
}

// Stop strings work in the responses API as in chats.
func TestResponsesStop(t *testing.T) {
	v := shared(t)
	body := object{"input": question, "max_output_tokens": 24}
	whole, _ := at(v.post("/v1/responses", body), "output", 0, "content", 0, "text").(string)
	words := strings.Fields(whole)
	if len(words) < 4 {
		t.Fatalf("the answer is %q", whole)
	}
	stop := words[2]
	want, _, _ := strings.Cut(whole, stop)
	body["stop"] = []string{stop}
	r := v.post("/v1/responses", body)
	if got := at(r, "output", 0, "content", 0, "text"); got != want || r["status"] != "completed" {
		t.Errorf("stop %q: %q, want %q", stop, got, want)
	}
}

// An answer that ends because the context is full says so.
func TestFullContext(t *testing.T) {
	v := startModel(t, func(o *setup) {
		o.Engine.Context, o.Engine.Cells, o.Engine.Parallel = 64, 256, 1
	})
	body := object{"prompt": strings.Repeat("sand and water ", 16), "ignore_eos": true}
	if r := v.post("/completion", body); r["stop_type"] != "limit" || r["truncated"] != true {
		t.Errorf("full: %v, truncated %v", r["stop_type"], r["truncated"])
	}
	list := v.events("/completion", object{"prompt": body["prompt"], "ignore_eos": true, "stream": true})
	if r := list[len(list)-1].json(t); r["stop_type"] != "limit" || r["truncated"] != true {
		t.Errorf("full, streamed: %v, truncated %v", r["stop_type"], r["truncated"])
	}
	body["n_predict"] = 2
	if r := v.post("/completion", body); r["stop_type"] != "limit" || r["truncated"] != false {
		t.Errorf("two tokens: %v, truncated %v", r["stop_type"], r["truncated"])
	}
}

// Ollama's num_ctx reloads the model if its context is too short. The reload waits
// for the model's users, and fails with an explanation if there is too little
// memory.
func TestContextGrows(t *testing.T) {
	var free atomic.Int64
	v := startModel(t, func(o *setup) {
		o.Engine.Context, o.Engine.Cells, o.Engine.Parallel = 256, 256, 2
		o.Free = func(string, *engine.Options) int64 { return free.Load() }
	})
	context := func() any { return at(v.ask("GET", "/api/ps", nil).json(t), "models", 0, "context_length") }
	ask := func(path string, n int) reply {
		return v.ask("POST", path, object{"model": "m", "messages": user("a"), "prompt": "a", "stream": false, "options": object{"num_ctx": n, "num_predict": 2}})
	}
	if r := ask("/api/chat", 128); r.status != 200 || context() != 256.0 {
		t.Errorf("shorter: %d, context %v", r.status, context())
	}
	// While a stream runs, the load waits for it, and so do later requests.
	m, err := v.pool.Find("")
	if err != nil {
		t.Fatal(err)
	}
	held, err := v.pool.Acquire(t.Context(), m, pool.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan reply, 2)
	go func() { answers <- ask("/api/chat", 512) }()
	wait(t, "the request that grows", func() bool { return v.pool.Standing(m.Path).Wanted })
	go func() { answers <- ask("/api/generate", 1) }()
	select {
	case r := <-answers:
		t.Errorf("answered while the model was in use: %s", r.body)
	case <-time.After(50 * time.Millisecond):
	}
	held.Release()
	for range 2 {
		if r := <-answers; r.status != 200 {
			t.Errorf("after the load: %d %s", r.status, r.body)
		}
	}
	if context() != 512.0 {
		t.Errorf("context %v, want 512", context())
	}
	free.Store(180 << 20)
	r := ask("/api/generate", 4096)
	if r.status != 400 || at(r.json(t), "code") != "insufficient_memory" || !strings.Contains(string(r.body), "a context of 4096 tokens needs 0.2 GiB with the model, but 0.2 GiB is free; the largest context that fits is ") || context() != 512.0 {
		t.Errorf("no memory: %d %s, context %v", r.status, r.body, context())
	}
	free.Store(0)
	if r := ask("/api/chat", 1<<24); r.status != 200 || context() != float64(m.Info.Context) {
		t.Errorf("beyond the trained length: %d %s, context %v", r.status, r.body, context())
	}
}
