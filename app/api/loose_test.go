package api

import (
	"net/http"
	"strings"
	"testing"

	"godwit/app/api/wire"
)

// never is a schema that no document satisfies, because of a keyword that grammars
// do not support.
var never = object{
	"type": "object", "required": []string{"a"}, "additionalProperties": false,
	"properties": object{"a": object{
		"type": "array", "items": object{"type": "integer", "minimum": 1, "maximum": 1}, "minItems": 2, "maxItems": 2, "uniqueItems": true,
	}},
}

// sometimes is a schema that every document of its grammar satisfies.
var sometimes = object{
	"type": "object", "required": []string{"a"}, "additionalProperties": false,
	"properties": object{"a": object{"type": "integer", "minimum": 1, "maximum": 3, "not": object{"const": 7}}},
}

// A schema with unsupported keywords is used without them, and a notice says so.
// Violations in the answer are named. A strict schema is rejected.
func TestLooseSchemas(t *testing.T) {
	v := shared(t)
	ask := func(d dialect, a asked, stream bool) (reply, string) {
		body := d.body(a)
		body["stream"] = stream
		r := v.ask(http.MethodPost, d.path, body)
		return r, strings.Join(r.header.Values(wire.NoticeHeader), "\n")
	}
	list := dialects()
	list["completion"] = dialect{path: "/completion", body: func(a asked) object {
		return object{"prompt": question, "json_schema": a.form, "n_predict": a.tokens, "temperature": 0}
	}}
	list["generate"] = dialect{path: "/api/generate", body: func(a asked) object {
		return object{"model": "any", "prompt": question, "format": a.form, "options": object{"num_predict": a.tokens, "temperature": 0}}
	}}
	for name, d := range list {
		for _, stream := range []bool{false, true} {
			check := func(what string, a asked, keyword, broken string) {
				t.Helper()
				r, notices := ask(d, a, stream)
				if r.status != http.StatusOK || !strings.Contains(notices, "may not follow "+keyword) {
					t.Errorf("%s %s, stream %v: %d, notices %q: %.300s", name, what, stream, r.status, notices, r.body)
					return
				}
				said := notices + string(r.body)
				if stream && d.path == "/api/chat" || stream && d.path == "/api/generate" {
					return // JSON lines have no comments
				}
				if strings.Contains(said, "does not satisfy") != (broken != "") || !strings.Contains(said, broken) {
					t.Errorf("%s %s, stream %v: want %q: notices %q: %.600s", name, what, stream, broken, notices, r.body)
				}
			}
			check("form", asked{form: never, tokens: 40}, "#/properties/a/uniqueItems", "the answer: the document is not valid: /a does not satisfy #/properties/a/uniqueItems")
			check("valid form", asked{form: sometimes, tokens: 40}, "#/properties/a/not", "")
			if name == "completion" || name == "generate" || name == "ollama" {
				continue // these APIs cannot require calls
			}
			check("call", asked{params: never, tools: true, forced: true, tokens: 60}, "#/properties/a/uniqueItems", "the arguments of weather: the document is not valid: /a does not satisfy")
			check("valid call", asked{params: sometimes, tools: true, forced: true, tokens: 60}, "#/properties/a/not", "")
			strict := []asked{{params: never, tools: true, forced: true, strict: true, tokens: 60}, {form: never, strict: true, tokens: 60}}
			if name == "anthropic" { // its forms are not strict
				strict = strict[:1]
			}
			for _, a := range strict {
				if r, _ := ask(d, a, stream); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "uniqueItems") {
					t.Errorf("%s, strict, form %v, stream %v: %d %.300s", name, a.form != nil, stream, r.status, r.body)
				}
			}
			if r, notices := ask(d, asked{params: never, tools: true, tokens: 20}, stream); r.status != http.StatusOK || strings.Contains(notices, "may not follow") {
				t.Errorf("%s, a call that is not demanded: %d, notices %q", name, r.status, notices)
			}
		}
	}
}

// If a model must not think but its template has no switch, it does not think, and
// a notice says how.
func TestNoSwitchNotice(t *testing.T) {
	v := thinker(t, "NVIDIA-Nemotron-Nano-v2")
	off := false
	for name, d := range dialects() {
		for how, s := range v.answer(d, asked{tokens: 20, think: &off}) {
			if s.thinking != "" || strings.Contains(s.text, "think>") {
				t.Errorf("%s %s: thinking %q, content %q", name, how, s.thinking, s.text)
			}
		}
		for _, stream := range []bool{false, true} {
			body := d.body(asked{tokens: 4, think: &off})
			body["stream"] = stream
			r := v.ask(http.MethodPost, d.path, body)
			if notices := strings.Join(r.header.Values(wire.NoticeHeader), "\n"); !strings.Contains(notices, "no switch for thinking") {
				t.Errorf("%s, stream %v: notices %q", name, stream, notices)
			}
		}
	}
}

// Unusual conversations are answered in every dialect. The prompt contains all
// their text, and a notice reports what was moved.
func TestOddTurns(t *testing.T) {
	v := thinker(t, "mistralai-Mistral-Nemo-Instruct-2407")
	for name, c := range map[string]struct {
		path string
		body object
	}{
		"chat":      {"/v1/chat/completions", object{"messages": []object{{"role": "system", "content": "Xq7 system"}}, "max_tokens": 2}},
		"responses": {"/v1/responses", object{"input": []object{{"role": "developer", "content": "Xq7 system"}}, "max_output_tokens": 2}},
		"ollama":    {"/api/chat", object{"model": "any", "messages": []object{{"role": "system", "content": "Xq7 system"}}, "options": object{"num_predict": 2}}},
		"anthropic": {"/v1/messages", object{"messages": []object{{"role": "system", "content": "Xq7 system"}}, "max_tokens": 2}},
	} {
		for _, stream := range []bool{false, true} {
			c.body["stream"] = stream
			r := v.ask(http.MethodPost, c.path, c.body)
			notices := strings.Join(r.header.Values(wire.NoticeHeader), "\n")
			if r.status != http.StatusOK || !strings.Contains(notices, "system message") {
				t.Errorf("%s, stream %v: %d, notices %q: %.200s", name, stream, r.status, notices, r.body)
			}
		}
	}
	r := v.post("/apply-template", object{"messages": []object{{"role": "system", "content": "Xq7 system"}}})
	if !strings.Contains(str(r, "prompt"), "Xq7 system") {
		t.Errorf("the system message is not in %q", str(r, "prompt"))
	}
}
