package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"godwit/app/hub"
	"godwit/engine/testmodel"
)

// pullHub simulates a hub with the repositories birds/godwit and birds/torn, which
// have one file each. The announced size or digest of the second file is wrong.
func pullHub(t *testing.T) *httptest.Server {
	t.Helper()
	data, err := os.ReadFile(testmodel.Small(t, "llama-hd64"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/models/birds/{repo}", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256(data)
		switch r.PathValue("repo") {
		case "godwit":
		case "torn":
			sum[0]++
		default:
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(object{"sha": strings.Repeat("a", 40), "siblings": []object{{
			"rfilename": "godwit-F32.gguf", "size": len(data),
			"lfs": object{"sha256": hex.EncodeToString(sum[:]), "size": len(data)},
		}}})
	})
	mux.HandleFunc("GET /birds/{repo}/resolve/{rev}/{file}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// A model is pulled with progress as JSON lines, answers, and is deleted. A failed
// pull gives an error, inside the stream if that has started.
func TestPull(t *testing.T) {
	source := pullHub(t)
	lib, err := hub.Open(hub.Options{Dir: t.TempDir(), URL: source.URL, AllowHTTP: true, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	v := start(t, func(o *setup) { o.Library = lib })
	lines := v.events("/api/pull", object{"model": "birds/godwit"})
	done := -1.0
	for i, e := range lines {
		l := e.json(t)
		if last := i == len(lines)-1; (l["status"] == "success") != last || l["error"] != nil {
			t.Errorf("line %d of %d: %s", i, len(lines), e.data)
		}
		if at, ok := l["completed"].(float64); ok && l["total"] != nil {
			if at < done || at > l["total"].(float64) {
				t.Errorf("line %d: %v after %v of %v", i, at, done, l["total"])
			}
			done = at
		}
	}
	name, _ := at(v.ask("GET", "/api/tags", nil).json(t), "models", 0, "name").(string)
	r := v.post("/v1/completions", object{"model": name, "prompt": []int{5, 6, 7}, "max_tokens": 2})
	if r["model"] != name || name == "" {
		t.Errorf("%q was pulled, %v answered", name, r["model"])
	}
	if r := v.ask("POST", "/api/pull", object{"model": "birds/godwit", "stream": false}); r.status != 200 || r.json(t)["status"] != "success" {
		t.Errorf("once more, at once: %d %s", r.status, r.body)
	}
	for _, c := range []struct {
		name   string
		status int
	}{{"birds/none", 404}, {"../../x", 400}, {"", 400}} {
		if r := v.ask("POST", "/api/pull", object{"model": c.name}); r.status != c.status || r.json(t)["error"] == nil {
			t.Errorf("%q: %d %s, want %d", c.name, r.status, r.body, c.status)
		}
	}
	lines = v.events("/api/pull", object{"model": "birds/torn"})
	if last := lines[len(lines)-1].json(t); !strings.Contains(last["error"].(string), "SHA-256") && !strings.Contains(last["error"].(string), "digest") {
		t.Errorf("a file that is not what was said: %v", last)
	}
	if r := v.ask("DELETE", "/api/delete", object{"model": name}); r.status != 200 {
		t.Errorf("delete: %d %s", r.status, r.body)
	}
	if list := v.ask("GET", "/api/tags", nil).json(t)["models"].([]any); len(list) != 0 {
		t.Errorf("after delete: %v", list)
	}
}
