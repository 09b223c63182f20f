package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"godwit/app/api/resume"
)

// An answer with X-Conversation-Id continues when its client disconnects, and can
// be read again from any byte, but only with the same key.
func TestResumableStream(t *testing.T) {
	v := startModel(t, func(o *setup) { o.Settings.Server.APIKey = []string{"a", "b"} })
	key := func(k string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+k) }
	}
	begin := func(conv string, tokens int) *http.Response {
		t.Helper()
		r, err := v.request(t.Context(), "POST", "/v1/chat/completions", object{"messages": user("a"), "max_tokens": tokens, "stream": true, "logit_bias": object{"0": -100, "2": -100}})
		if err != nil {
			t.Fatal(err)
		}
		key("a")(r)
		r.Header.Set(resume.Header, conv)
		resp, err := http.DefaultClient.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		return resp
	}
	resp := begin("c 1", 200)
	first := make([]byte, 300)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close() // the laptop sleeps
	whole := v.ask("GET", "/v1/stream?conv_id=c%201&from=0", nil, key("a"))
	events := readEvents(t, whole.body)
	if whole.status != 200 || !bytes.HasPrefix(whole.body, first) || events[len(events)-1].data != "[DONE]" || len(events) < 100 {
		t.Fatalf("the whole stream: %d, %d events, %.400q", whole.status, len(events), whole.body)
	}
	if whole.header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Errorf("headers: %v", whole.header)
	}
	for _, from := range []int{1, len(first), len(whole.body) - 1, len(whole.body)} {
		if rest := v.ask("GET", fmt.Sprintf("/v1/stream/c%%201?from=%d", from), nil, key("a")); rest.status != 200 || !bytes.Equal(rest.body, whole.body[from:]) {
			t.Errorf("from %d: %d, %d bytes, want %d", from, rest.status, len(rest.body), len(whole.body)-from)
		}
	}
	for path, status := range map[string]int{
		"/v1/stream?conv_id=c2": 404, "/v1/stream?conv_id=c%201&from=-1": 400, fmt.Sprintf("/v1/stream?conv_id=c%%201&from=%d", len(whole.body)+1): 416,
	} {
		if r := v.ask("GET", path, nil, key("a")); r.status != status {
			t.Errorf("%s: %d %s, want %d", path, r.status, r.body, status)
		}
	}
	if r := v.ask("GET", "/v1/stream?conv_id=c%201", nil, key("b")); r.status != 404 {
		t.Errorf("another key reads the stream: %d", r.status)
	}
	begin("c3", 100000).Body.Close()
	if r := v.ask("DELETE", "/v1/stream?conv_id=c3", nil, key("a")); r.status != 204 {
		t.Errorf("stop: %d %s", r.status, r.body)
	}
	wait(t, "the stopped stream's slot", func() bool {
		return !bytes.Contains(v.ask("GET", "/slots", nil, key("a")).body, []byte(`"is_processing":true`))
	})
	r, err := v.request(t.Context(), "POST", "/v1/chat/completions", object{"messages": []object{}, "stream": true})
	if err != nil {
		t.Fatal(err)
	}
	key("a")(r)
	r.Header.Set(resume.Header, "c4")
	bad, err := http.DefaultClient.Do(r)
	if err != nil || bad.StatusCode != http.StatusBadRequest {
		t.Errorf("a wrong request: %v, %v", bad, err)
	}
	bad.Body.Close()
}
