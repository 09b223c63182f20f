package api

import (
	"net/http"
	"strings"
	"testing"

	"godwit/app/api/wire"
	"godwit/engine"
)

// keeping enables a server's prefix store.
func keeping(t testing.TB, o *setup, dir string) {
	store := engine.OpenPrefixes(engine.PrefixOptions{Dir: dir, Disk: 1 << 30, Memory: 256 << 20})
	o.Prefixes, o.Engine.Prefixes = store, store
	t.Cleanup(func() { // runs after the server has stopped, whose cleanup was registered later or which ends by itself
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// prefixDialects are the same chat in every dialect, with the field that counts
// cached tokens.
var prefixDialects = []struct {
	path string
	body func(text string) object
	at   []any
}{
	{"/v1/chat/completions", func(text string) object { return object{"messages": user(text), "max_tokens": 2} }, []any{"usage", "prompt_tokens_details", "cached_tokens"}},
	{"/v1/responses", func(text string) object { return object{"input": text, "max_output_tokens": 2, "store": false} }, []any{"usage", "input_tokens_details", "cached_tokens"}},
	{"/v1/messages", func(text string) object { return object{"messages": user(text), "max_tokens": 2} }, []any{"usage", "cache_read_input_tokens"}},
	{"/completion", func(text string) object { return object{"prompt": text, "n_predict": 2} }, []any{"timings", "cache_n"}},
	{"/v1/completions", func(text string) object { return object{"prompt": text, "max_tokens": 2} }, []any{"usage", "prompt_tokens_details", "cached_tokens"}},
}

func (v *live) cached(i int, text string, edits ...func(*http.Request)) float64 {
	v.t.Helper()
	d := prefixDialects[i]
	r := v.ask("POST", d.path, d.body(text), edits...)
	n, ok := at(r.json(v.t), d.at...).(float64)
	if r.status != 200 || !ok {
		v.t.Fatalf("%s: %d %s", d.path, r.status, r.body)
	}
	return n
}

func withHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// A text is not computed again in another dialect, after other texts, or after a
// restart. A private request leaves nothing behind, in any dialect.
func TestPrefixDialects(t *testing.T) {
	dir := t.TempDir()
	about := func(what string) string { return strings.Repeat("The "+what+" and the sand. ", 30) }
	v := startModel(t, func(o *setup) {
		o.Engine.Parallel, o.Engine.Cells = 1, 1024
		keeping(t, o, dir)
	})
	others := func() { v.cached(3, about("mountain")); v.cached(3, about("river")) }
	for _, i := range []int{0, 1, 2} { // dialects whose messages give the same prompt
		if n := v.cached(i, about("sea")); i > 0 && n < 128 {
			t.Errorf("%s: %v tokens from the cache", prefixDialects[i].path, n)
		}
		others()
	}
	for i := range prefixDialects {
		text := about([]string{"cat", "dog", "bird", "fish", "horse"}[i])
		v.cached(i, text, withHeader(wire.PrivateHeader, "1"))
		if n := v.cached(i, text, withHeader(wire.PrivateHeader, "0")); n > 64 {
			t.Errorf("%s: %v tokens are left of a private request", prefixDialects[i].path, n)
		}
		others()
		if n := v.cached(i, text); n < 128 {
			t.Errorf("%s: %v tokens are left of a request", prefixDialects[i].path, n)
		}
	}
	body := prefixDialects[0].body(about("moon"))
	body["cache_store"] = false
	v.post("/v1/chat/completions", body)
	if n := v.cached(0, about("moon")); n > 64 {
		t.Errorf("%v tokens are left of a request that was not to be stored", n)
	}
	salted := prefixDialects[0].body(about("moon"))
	salted["cache_salt"] = "pepper"
	if n := at(v.post("/v1/chat/completions", salted), prefixDialects[0].at...); n != 0.0 {
		t.Errorf("another salt takes %v tokens", n)
	}
	v.end()
	<-v.done
	v.done <- nil // the cleanup waits too
	if err := v.o.Prefixes.Close(); err != nil {
		t.Fatal(err)
	}
	v = startModel(t, func(o *setup) { keeping(t, o, dir) })
	r := v.post("/v1/chat/completions", prefixDialects[0].body(about("sea")))
	if n := at(r, "usage", "prompt_tokens_details", "cached_disk_tokens").(float64); n < 128 || n != at(r, prefixDialects[0].at...) {
		t.Errorf("after a restart %v tokens come from disk: %v", n, r["usage"])
	}
	k := v.ask("GET", "/api/prefixes", nil).json(t)
	if k["disk_bytes"].(float64) < 1e6 || at(k, "texts", 0, "tokens").(float64) < 256 {
		t.Errorf("kept: %v", k)
	}
	if k := v.ask("DELETE", "/api/prefixes", nil).json(t); k["disk_bytes"] != 0.0 || k["memory_bytes"] != 0.0 {
		t.Errorf("cleared: %v", k)
	}
}

// Clients with different keys share nothing unless the settings allow it.
func TestPrefixKeys(t *testing.T) {
	text := strings.Repeat("The sea and the sand. ", 30)
	for _, share := range []bool{false, true} {
		v := startModel(t, func(o *setup) {
			o.Settings.Server.APIKey, o.Settings.Server.SharePrefixes = []string{"one-key", "two-key"}, share
			keeping(t, o, t.TempDir())
		})
		one, two := withHeader("Authorization", "Bearer one-key"), withHeader("X-Api-Key", "two-key")
		v.cached(0, text, one)
		n := v.cached(0, text, two)
		if share != (n >= 128) {
			t.Errorf("sharing %v: the second key takes %v tokens", share, n)
		}
		if n := v.cached(0, text, one); n < 128 {
			t.Errorf("the first key takes %v", n)
		}
		k := v.ask("GET", "/api/prefixes", nil, two).json(t)
		if !share && k["disk_bytes"] != 0.0 {
			t.Errorf("one key sees what others have: %v", k)
		}
	}
}

// The reason why a prompt was read again names the role of the message, and no text.
func TestReuseRoles(t *testing.T) {
	v := startModel(t, func(o *setup) { o.Engine.Parallel, o.Engine.Cells = 1, 1024 })
	long := strings.Repeat("The sea and the sand. ", 30)
	ask := func(messages ...object) string {
		r := v.ask("POST", "/v1/chat/completions", object{"messages": messages, "max_tokens": 1})
		return str(r.json(t), "usage", "prompt_tokens_details", "cache_ended_why")
	}
	system, question := object{"role": "system", "content": long}, object{"role": "user", "content": long}
	for _, c := range []struct {
		messages []object
		want     string
	}{
		{[]object{{"role": "system", "content": long[:440] + "Forests. " + long}, question}, ", in the system message, part 1 of "},
		{[]object{system, {"role": "user", "content": long[:440] + "Forests. " + long}}, ", in the user message, part 2 of "},
	} {
		ask(system, question)
		if why := ask(c.messages...); !strings.Contains(why, c.want) {
			t.Errorf("%q, want %q", why, c.want)
		}
	}
}

// The reason why a prompt was read again says that its pages were dropped, or that they are
// of another cache type or model. It says nothing about the texts of another key.
func TestReuseReasons(t *testing.T) {
	dir := t.TempDir()
	var v *live
	serve := func(types string) {
		v = startModel(t, func(o *setup) {
			want, err := engine.ParseCacheTypes(types, types)
			if err != nil {
				t.Fatal(err)
			}
			o.Engine.Parallel, o.Engine.Cells, o.Engine.Want = 1, 1024, want
			o.Settings.Server.APIKey = []string{"one-key", "two-key"}
			keeping(t, o, dir)
		})
	}
	why := func(want, what, key string) {
		t.Helper()
		body := object{"messages": user(strings.Repeat("The "+what+" and the sand. ", 30)), "max_tokens": 1}
		r := v.ask("POST", "/v1/chat/completions", body, withHeader("Authorization", "Bearer "+key))
		if got := str(r.json(t), "usage", "prompt_tokens_details", "cache_ended_why"); !strings.HasPrefix(got, want) {
			t.Errorf("%s of %s: %q, want %q", what, key, got, want)
		}
	}
	serve("f16")
	why("nothing begins alike", "sea", "one-key")
	why("all but the last page", "sea", "one-key")
	why("nothing begins alike", "sea", "two-key")
	v.end()
	<-v.done
	v.done <- nil // the cleanup waits too
	if err := v.o.Prefixes.Close(); err != nil {
		t.Fatal(err)
	}
	serve("q8_0")
	why("other cache type, known up to ", "sea", "one-key")
	why("all but the last page", "sea", "one-key")
	why("nothing begins alike", "river", "one-key")
	why("nothing begins alike", "river", "two-key")

	store := engine.OpenPrefixes(engine.PrefixOptions{Memory: 256 << 20})
	v = startModel(t, func(o *setup) {
		o.Engine.Parallel, o.Engine.Cells = 1, 1024
		o.Prefixes, o.Engine.Prefixes = store, store
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	})
	why("nothing begins alike", "sea", "")
	why("nothing begins alike", "river", "")
	store.SetMemory(0)
	store.SetMemory(256 << 20)
	why("evicted ", "sea", "")
}
