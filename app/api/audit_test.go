package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/app/api/resume"
	"godwit/app/keys"
	"godwit/app/telemetry"
)

// auditLine is a line of the audit log.
type auditLine struct {
	Time                   string
	Method, Path           string
	Key, Model             string
	Status                 int
	MS                     *int
	Prompt, Cached, Tokens int
}

// auditOf reads an audit log.
func auditOf(t *testing.T, path string) (list []auditLine) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	for {
		var line auditLine
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if line.Time == "" || line.MS == nil || line.Status == 0 {
			t.Errorf("a line without time or status: %s", data)
		}
		list = append(list, line)
	}
}

// The audit log has a line for every request, also for rejected ones and for work that
// outlives its request, with the name of the key, the model and the tokens, and never
// with text of the client.
func TestAudit(t *testing.T) {
	const secret = "plumbago"
	path := filepath.Join(t.TempDir(), "audit.log")
	audit, err := telemetry.OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := audit.Close(); err != nil {
			t.Error(err)
		}
	})
	var log buffer
	v, s := startKeyedAs(t, &log, func(o *setup) { o.Audit = audit }, keys.Key{Name: "build"}, keys.Key{Name: "few", Limits: keys.Limits{Requests: 1}})
	chat := object{"messages": user("Say " + secret), "max_tokens": 3, "ignore_eos": true}
	stream := object{"messages": user("Say " + secret), "max_tokens": 5, "ignore_eos": true, "stream": true}
	v.ask("POST", "/v1/chat/completions", chat, bearer(s[0]))
	v.ask("POST", "/v1/chat/completions", chat, bearer("gw-"+secret))
	v.ask("POST", "/tokenize", object{"content": secret}, bearer(s[1]))
	v.ask("POST", "/tokenize", object{"content": secret}, bearer(s[1]))
	v.ask("POST", "/"+secret, chat, bearer(s[0]))
	v.ask("DELETE", "/v1/models", nil, bearer(s[0]))
	v.ask("GET", "/v1/models", nil, bearer(s[0]), func(r *http.Request) { r.Method = strings.ToUpper(secret) })
	v.ask("GET", "/v1/models", nil, bearer(s[0]), func(r *http.Request) { r.Header.Set("Origin", "https://"+secret+".example") })
	v.ask("POST", "/v1/chat/completions", stream, bearer(s[0]), func(r *http.Request) { r.Header.Set(resume.Header, secret) })
	v.ask("POST", "/v1/responses", object{"input": secret, "max_output_tokens": 16, "background": true}, bearer(s[0]))
	wait(t, "the line of the background answer", func() bool {
		list := auditOf(t, path)
		return list[len(list)-1].Path == "background"
	})
	want := []auditLine{
		{Method: "POST", Path: "/v1/chat/completions", Key: "build", Status: 200, Model: "tiny-chat", Tokens: 3},
		{Method: "POST", Path: "/v1/chat/completions", Status: 401},
		{Method: "POST", Path: "/tokenize", Key: "few", Status: 200, Model: "tiny-chat"},
		{Method: "POST", Path: "/tokenize", Key: "few", Status: 429},
		{Method: "POST", Path: "other", Key: "build", Status: 404},
		{Method: "DELETE", Path: "/v1/models", Key: "build", Status: 405},
		{Method: "other", Path: "/v1/models", Key: "build", Status: 405},
		{Method: "GET", Path: "/v1/models", Status: 403},
		{Method: "POST", Path: "/v1/chat/completions", Key: "build", Status: 200, Model: "tiny-chat", Tokens: 5},
		{Method: "POST", Path: "/v1/responses", Key: "build", Status: 200},
		{Path: "background", Key: "build", Status: 200, Model: "tiny-chat"},
	}
	list := auditOf(t, path)
	if len(list) != len(want) {
		t.Fatalf("%d lines, want %d: %+v", len(list), len(want), list)
	}
	for i, got := range list {
		if answered := got.Tokens > 0; answered != (got.Prompt > 0) {
			t.Errorf("line %d has %d prompt tokens and %d of the answer", i, got.Prompt, got.Tokens)
		}
		if want[i].Path == "background" {
			if got.Tokens == 0 {
				t.Error("the background answer has no tokens")
			}
			want[i].Tokens = got.Tokens
		}
		got.Time, got.MS, got.Prompt, got.Cached = "", nil, 0, 0
		if got != want[i] {
			t.Errorf("line %d: %+v, want %+v", i, got, want[i])
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, private := range []string{secret, s[0], s[1]} {
		if strings.Contains(strings.ToLower(string(data)), private) {
			t.Errorf("the audit log has %q: %s", private, data)
		}
	}
}
