package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"strings"
	"testing"

	"godwit/app/hub"
	"godwit/engine/testmodel"
)

// Makes a model from an uploaded file, another from that one with a system prompt
// and options, and a copy. Every dialect uses these additions.
func TestCreate(t *testing.T) {
	lib, err := hub.Open(hub.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	v := start(t, func(o *setup) { o.Library = lib })
	data, err := os.ReadFile(testmodel.Small(t, "llama-hd64"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	raw := func(r *http.Request) { r.Header.Set("Content-Type", "application/octet-stream") }
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		edit         func(*http.Request)
	}{
		{"HEAD", "/api/blobs/" + digest, nil, 404, raw},
		{"HEAD", "/api/blobs/sha256:12", nil, 400, raw},
		{"POST", "/api/blobs/" + digest, string(data[1:]), 400, raw},
		{"POST", "/api/blobs/" + digest, string(data), 415, func(r *http.Request) { raw(r); r.Header.Set("Origin", v.url) }},
		{"POST", "/api/create", object{"model": "base", "files": object{"a.gguf": digest}}, 404, nil},
		{"POST", "/api/blobs/" + digest, string(data), 201, raw},
		{"HEAD", "/api/blobs/" + digest, nil, 200, raw},
		{"POST", "/api/create", object{"model": "../x", "files": object{"a.gguf": digest}}, 400, nil},
		{"POST", "/api/create", object{"model": "x"}, 400, nil},
		{"POST", "/api/create", object{"model": "base:latest", "files": object{"a.gguf": digest}}, 200, nil},
		{"HEAD", "/api/blobs/" + digest, nil, 200, raw},
		{"POST", "/api/create", object{"model": "x", "from": "nobody"}, 404, nil},
		{"POST", "/api/create", object{"model": "x", "from": "base", "template": "{{ .Prompt }}"}, 400, nil},
		{"POST", "/api/create", object{"model": "x", "from": "base", "parameters": object{"temperature": "hot"}}, 400, nil},
		{"POST", "/api/create", object{"model": "x", "from": "base", "quantize": "q4_0"}, 400, nil},
		{"POST", "/api/create", object{
			"model": "bob", "from": "base", "system": "You are Bob.", "parameters": object{"num_predict": 3, "temperature": 0, "stop": []string{"###"}},
			"template": "{% for m in messages %}[{{ m.role }}] {{ m.content }} {% endfor %}",
		}, 200, nil},
		{"POST", "/api/copy", object{"source": "bob", "destination": "twin"}, 200, nil},
		{"POST", "/api/copy", object{"source": "nobody", "destination": "x"}, 404, nil},
		{"POST", "/api/create", object{"model": "base", "from": "twin"}, 409, nil},
		{"POST", "/api/create", object{"model": "base", "from": "base", "system": "Xq7", "parameters": object{"top_k": 7}}, 200, nil},
		{"POST", "/api/push", object{"model": "bob"}, 501, nil},
	} {
		var edits []func(*http.Request)
		if c.edit != nil {
			edits = append(edits, c.edit)
		}
		if r := v.ask(c.method, c.path, c.body, edits...); r.status != c.status {
			t.Fatalf("%s %s: %d %s, want %d", c.method, c.path, r.status, r.body, c.status)
		}
	}
	v.shows("base", "Xq7", "top_k 7")
	for _, name := range []string{"bob", "twin:latest"} {
		ask := object{"model": name, "messages": user("Who?")}
		if got := at(v.ask("POST", "/apply-template", ask).json(t), "prompt"); got != "[system] You are Bob. [user] Who? " {
			t.Errorf("%s reads %q", name, got)
		}
		own := object{"model": name, "messages": append([]object{{"role": "system", "content": "Be brief."}}, user("Who?")...)}
		if got := at(v.ask("POST", "/apply-template", own).json(t), "prompt"); got != "[system] Be brief. [user] Who? " {
			t.Errorf("%s with a system prompt of the request reads %q", name, got)
		}
		v.shows(name, "You are Bob.", "num_predict 3")
		r := v.ask("POST", "/v1/chat/completions", ask).json(t)
		if r["model"] != strings.TrimSuffix(name, ":latest") || at(r, "usage", "completion_tokens") != 3.0 {
			t.Errorf("%s answers %v", name, r)
		}
	}
	if r := v.ask("DELETE", "/api/delete", object{"model": "base"}); r.status != 200 {
		t.Errorf("delete: %d %s", r.status, r.body)
	}
	if r := v.ask("POST", "/api/generate", object{"model": "twin", "prompt": "a", "stream": false}).json(t); r["eval_count"] != 3.0 {
		t.Errorf("without its base: %v", r)
	}
	if tags := v.ask("GET", "/api/tags", nil); bytes.Contains(tags.body, []byte(`"base"`)) || !bytes.Contains(tags.body, []byte(`"bob"`)) {
		t.Errorf("tags: %s", tags.body)
	}
}

// shows checks how a derived model is described.
func (v *live) shows(model, system, option string) {
	v.t.Helper()
	show := v.ask("POST", "/api/show", object{"model": model}).json(v.t)
	if from := str(show, "modelfile"); show["system"] != system || !strings.Contains(str(show, "parameters"), option) || !strings.Contains(from, "FROM ba") && !strings.Contains(from, "FROM bob") {
		v.t.Errorf("show %s: %v", model, show)
	}
}
