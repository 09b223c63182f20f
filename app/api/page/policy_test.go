package page

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/tune"
)

// The page shows locked settings with the policy file that locks them, and cannot
// change them, neither for all models nor for one.
func TestPolicy(t *testing.T) {
	dir := newFolder(t, true)
	path := filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(path, []byte("lock = ['app.theme', 'server.api_key']\n[engine]\nctx_size = 512\n[library]\ndownloads = false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := openAs(t, dir, nil, func(o *Options, lib *hub.Options) {
		file, err := config.Open(filepath.Join(dir, "config.toml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Lock(path); err != nil {
			t.Fatal(err)
		}
		start, err := file.Settings(func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		if o.Settings, err = config.NewLive(file, func(string) (string, bool) { return "", false }, start); err != nil {
			t.Fatal(err)
		}
		o.Tuned = tune.Open(filepath.Join(dir, tune.FileName), tune.Options{Locked: file.Refused})
		lib.NoDownloads = !start.Library.Downloads
	})
	before, _ := os.ReadFile(filepath.Join(dir, "config.toml")) // it may be missing
	list := ask[listed](d, "GET", "/app/settings", nil)
	for name, value := range map[string]any{"engine.ctx_size": 512.0, "app.theme": "system", "library.downloads": false, "server.api_key": nil} {
		if f, _ := list.of(name); f.Origin != config.FromPolicy || f.Policy != path || f.Value != value {
			t.Errorf("%s is listed as %+v", name, f)
		}
	}
	if f, _ := list.of("engine.threads"); f.Policy != "" || f.Origin == config.FromPolicy {
		t.Errorf("a setting that is free is listed as %+v", f)
	}
	for name, value := range map[string]any{"engine.ctx_size": 1024, "app.theme": "dark", "library.downloads": nil, "server.api_key": []string{"x"}} {
		status, text := d.refused("POST", "/app/settings", map[string]any{"changes": map[string]any{name: value, "engine.threads": 1}})
		if status != http.StatusForbidden || !strings.Contains(text, path) || !strings.Contains(text, "administrator") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	status, text := d.refused("POST", "/app/models/"+modelName+"/tune", map[string]any{"context": 1024})
	if status != http.StatusForbidden || !strings.Contains(text, path) {
		t.Errorf("the settings of a model: %d %s", status, text)
	}
	if status, text := d.refused("GET", "/app/hub/search?q=x", nil); status != http.StatusForbidden || !strings.Contains(text, "downloads are off") {
		t.Errorf("a search: %d %s", status, text)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "config.toml")); string(after) != string(before) {
		t.Errorf("the settings file has %s", after)
	}
}
