package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"godwit/app/api/openai"
)

// Ollama's clients look for a server at /, even if a page is served there.
func TestAlive(t *testing.T) {
	v := shared(t)
	if r := v.ask("GET", "/", nil); r.status != 200 || string(r.body) != "Ollama is running" {
		t.Errorf("GET /: %d %q", r.status, r.body)
	}
	if r := v.ask("HEAD", "/", nil); r.status != 200 {
		t.Errorf("HEAD /: %d", r.status)
	}
	if r := v.ask("POST", "/", nil); r.status != 405 {
		t.Errorf("POST /: %d", r.status)
	}
	if r := v.ask("GET", "/nothing", nil); r.status != 404 {
		t.Errorf("GET /nothing: %d", r.status)
	}
	for _, page := range []fstest.MapFS{{"index.html": {Data: []byte("<p>page</p>")}}, {}} {
		p := start(t, func(o *setup) { o.Page = page })
		if r := p.ask("HEAD", "/", nil); r.status != 200 {
			t.Errorf("HEAD / with a page of %d files: %d", len(page), r.status)
		}
		if r := p.ask("GET", "/", nil); len(page) > 0 && string(r.body) != "<p>page</p>" {
			t.Errorf("GET / with a page: %d %q", r.status, r.body)
		}
	}
	keyed := start(t, func(o *setup) { o.Settings.Server.APIKey = []string{"secret"} })
	if r := keyed.ask("HEAD", "/", nil); r.status != 200 {
		t.Errorf("HEAD / without a key: %d", r.status)
	}
}

// localhost with a trailing dot is this machine.
func TestLocalhostDot(t *testing.T) {
	v := shared(t)
	for host, want := range map[string]int{"localhost.": 200, "LocalHost.:1": 200, "localhost..": 403, "localhost.example": 403, "x.localhost.": 403} {
		r := v.ask("GET", "/v1/models", nil, func(r *http.Request) { r.Host = host })
		if r.status != want {
			t.Errorf("Host %s: %d, want %d", host, r.status, want)
		}
	}
}

// A limit of -1 means no limit, and 0 is rejected.
func TestUnlimited(t *testing.T) {
	v := startModel(t, func(o *setup) { o.Engine.Context, o.Engine.Cells, o.Engine.Parallel = 48, 96, 1 })
	for path, c := range map[string]struct {
		field string
		body  object
	}{
		"/v1/chat/completions": {"max_tokens", object{"messages": user("a")}},
		"/chat/completions":    {"max_completion_tokens", object{"messages": user("a")}},
		"/v1/completions":      {"max_tokens", object{"prompt": "a"}},
		"/v1/responses":        {"max_output_tokens", object{"input": "a"}},
		"/completion":          {"n_predict", object{"prompt": "a"}},
	} {
		c.body[c.field] = -1
		if r := v.ask("POST", path, c.body); r.status != 200 {
			t.Errorf("%s, %s -1: %d %s", path, c.field, r.status, r.body)
		}
		if path == "/completion" {
			continue // here, 0 reads only the prompt
		}
		for _, n := range []int{0, -2} {
			c.body[c.field] = n
			if r := v.ask("POST", path, c.body); r.status != 400 || !strings.Contains(string(r.body), c.field) {
				t.Errorf("%s, %s %d: %d %s", path, c.field, n, r.status, r.body)
			}
		}
	}
}

// 64-bit seeds are accepted signed and unsigned, and give the same answer again.
func TestSeeds64(t *testing.T) {
	v := shared(t)
	for _, seed := range []string{"9223372036854775807", "9223372036854775808", "18446744073709551615", "-9223372036854775808", "4294967295"} {
		body := fmt.Sprintf(`{"model":"m","prompt":"The sea","messages":[{"role":"user","content":"The sea"}],"max_tokens":6,"temperature":1.5,"seed":%s}`, seed)
		ollama := fmt.Sprintf(`{"model":"m","prompt":"The sea","stream":false,"options":{"num_predict":6,"temperature":1.5,"seed":%s}}`, seed)
		for path, text := range map[string][]any{
			"/v1/chat/completions": {"choices", 0, "message", "content"}, "/v1/completions": {"choices", 0, "text"},
			"/completion": {"content"}, "/api/generate": {"response"},
			"/v1/messages": {"content", 0, "text"},
		} {
			b := body
			if path == "/api/generate" {
				b = ollama
			}
			first, again := v.ask("POST", path, b), v.ask("POST", path, b)
			if first.status != 200 || at(first.json(t), text...) == nil || at(first.json(t), text...) != at(again.json(t), text...) {
				t.Errorf("%s, seed %s: %d %s, then %s", path, seed, first.status, first.body, again.body)
			}
		}
	}
	for _, seed := range []string{"18446744073709551616", "1.5", `"1"`} {
		if r := v.ask("POST", "/v1/completions", `{"prompt":"a","seed":`+seed+`}`); r.status != 400 {
			t.Errorf("seed %s: %d", seed, r.status)
		}
	}
}

// A schema is accepted inside json_schema and next to the type.
func TestSchemaForms(t *testing.T) {
	v := shared(t)
	schema := object{"type": "object", "properties": object{"a": object{"type": "integer", "maximum": 9, "minimum": 0}}, "required": []string{"a"}, "additionalProperties": false}
	for _, form := range []object{
		{"type": "json_schema", "json_schema": object{"name": "x", "schema": schema}},
		{"type": "json_schema", "schema": schema},
		{"type": "json_object", "schema": schema},
	} {
		r := v.ask("POST", "/v1/chat/completions", object{"messages": user("Give JSON"), "max_tokens": 40, "response_format": form})
		text, _ := at(r.maybe(), "choices", 0, "message", "content").(string)
		if r.status != 200 || !strings.HasPrefix(strings.ReplaceAll(text, " ", ""), `{"a":`) || !strings.HasSuffix(strings.TrimSpace(text), "}") {
			t.Errorf("%v: %d %s", form["type"], r.status, r.body)
		}
	}
}

// Endpoints that need another kind of model are rejected with the reason.
func TestRefusals(t *testing.T) {
	v := shared(t)
	for path, reason := range openai.Refusals {
		r := v.ask("POST", path, object{"model": "m", "input": "a"})
		if r.status != 501 || at(r.json(t), "error", "message") != reason || at(r.json(t), "error", "type") != "not_supported_error" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

// The request log contains the model and the tokens. An interrupted answer is
// counted in the log and in the metrics.
func TestTally(t *testing.T) {
	var log buffer
	v := startModel(t, func(o *setup) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Settings.Server.RequestLog = true
	})
	prompt := strings.Repeat("sand and water, ", 60)
	v.post("/completion", object{"prompt": prompt, "n_predict": 3})
	wait(t, "the first line", func() bool { return strings.Contains(log.String(), "path=/completion") })
	if line := log.String(); !strings.Contains(line, "model=tiny-chat") || !strings.Contains(line, "tokens=3") || !strings.Contains(line, "cached=0") || strings.Contains(line, "prompt=0") {
		t.Errorf("the log has %s", line)
	}
	v.post("/completion", object{"prompt": prompt, "n_predict": 3})
	wait(t, "reuse", func() bool { return strings.Count(log.String(), "path=/completion") == 2 })
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); strings.Contains(lines[len(lines)-1], "cached=0 ") {
		t.Errorf("the log has %s", lines[len(lines)-1])
	}
	before := v.counters.generated.Get()
	resp := v.open(t, "/v1/chat/completions", object{"messages": user(question), "stream": true, "ignore_eos": true})
	some := make([]byte, 4096)
	for n := 0; n < len(some); {
		m, err := resp.Read(some[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	_ = resp.Close()
	wait(t, "the counter", func() bool { return v.counters.generated.Get() > before })
	wait(t, "the line", func() bool { return strings.Contains(log.String(), "path=/v1/chat/completions") })
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if last := lines[len(lines)-1]; strings.Contains(last, "tokens=0") || !strings.Contains(last, "model=tiny-chat") {
		t.Errorf("the log has %s", last)
	}
}
