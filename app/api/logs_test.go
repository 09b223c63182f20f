package api

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// buffer is a log for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Prompts, answers and keys never appear in the log or the metrics: at any level,
// with requests logged, and in errors.
func TestNothingPrivateIsLogged(t *testing.T) {
	const prompt, key = "plumbago", "sesame-key"
	var log buffer
	v := startModel(t, func(o *setup) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Settings.Server.RequestLog = true
		o.Settings.Server.APIKey = []string{key}
	})
	auth := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) }
	said := user("Say the word " + prompt + ".")
	for _, c := range []struct {
		path   string
		body   any
		status int
	}{
		{"/v1/chat/completions", object{"messages": said, "max_tokens": 8}, 200},
		{"/v1/chat/completions", object{"messages": said, "max_tokens": 8, "stream": true}, 200},
		{"/v1/messages", object{"messages": said, "max_tokens": 8}, 200},
		{"/v1/completions", object{"prompt": prompt, "max_tokens": 8, "echo": true}, 200},
		{"/v1/embeddings", object{"input": prompt}, 200},
		{"/tokenize", object{"content": prompt}, 200},
		{"/v1/chat/completions", object{"messages": user(strings.Repeat(prompt+" ", 2000))}, 400},
		{"/v1/chat/completions", `{"messages": [{"role": "` + prompt + `"}]}`, 400},
		{"/v1/chat/completions", `{"messages": "` + prompt, 400},
		{"/v1/completions", object{"prompt": prompt, "suffix": prompt}, 501},
		{"/" + prompt, object{"prompt": prompt}, 404},
	} {
		if r := v.ask("POST", c.path, c.body, auth); r.status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.path, r.status, c.status, r.body)
		}
	}
	for _, wrong := range []string{key + "x", "x" + key} {
		v.ask("GET", "/v1/models", nil, func(r *http.Request) { r.Header.Set("X-Api-Key", wrong) })
	}
	shown := map[string]string{"the log": log.String(), "the metrics": string(v.ask("GET", "/metrics", nil, auth).body)}
	if !strings.Contains(shown["the log"], "/v1/chat/completions") {
		t.Error("requests are not in the log")
	}
	for where, text := range shown {
		for _, secret := range []string{prompt, key} {
			if i := strings.Index(strings.ToLower(text), secret); i >= 0 {
				t.Errorf("%s has %q: %.200s", where, secret, text[max(0, i-100):])
			}
		}
	}
}
