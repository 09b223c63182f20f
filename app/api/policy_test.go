package api

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/app/config"
)

// Requests cannot change locked settings: how long a model stays loaded, its context,
// its adapters, and downloads.
func TestPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(path, []byte("lock = ['engine.lora']\n[server]\nkeep_alive = '5m'\n[engine]\nctx_size = 1024\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := config.Open(filepath.Join(t.TempDir(), "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Lock(path); err != nil {
		t.Fatal(err)
	}
	lib := library(t)
	lib.Allow(false)
	v := start(t, func(o *setup) {
		o.Library, o.Policy = lib, file
		o.Settings.Engine.CtxSize = 1024
	})
	chat := func(more object) object {
		body := object{"model": "tiny-chat", "messages": user(question), "stream": false, "options": object{"num_predict": 2}}
		for name, value := range more {
			body[name] = value
		}
		return body
	}
	for _, c := range []struct {
		path string
		body any
		want string
	}{
		{"/api/chat", chat(object{"keep_alive": -1}), path},
		{"/api/chat", chat(object{"keep_alive": "10m"}), path},
		{"/api/chat", chat(object{"options": object{"num_ctx": 2048}}), path},
		{"/lora-adapters", "[]", path},
		{"/api/pull", object{"model": "owner/repo", "stream": false}, "downloads are off"},
		{"/api/v1/models/download", object{"model": "owner/repo"}, "downloads are off"},
	} {
		if r := v.ask("POST", c.path, c.body); r.status != http.StatusForbidden || !strings.Contains(string(r.body), c.want) {
			t.Errorf("%s %v: %d %s", c.path, c.body, r.status, r.body)
		}
	}
	for _, more := range []object{{}, {"keep_alive": "5m"}, {"keep_alive": 300}, {"options": object{"num_ctx": 512, "num_predict": 2}}} {
		if r := v.ask("POST", "/api/chat", chat(more)); r.status != http.StatusOK {
			t.Errorf("%v: %d %s", more, r.status, r.body)
		}
	}
}
