package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"godwit/app/keys"
)

// keyed is a server with named keys.
type keyed struct {
	*live
	path string
}

// startKeyed starts a server with the real model and a file of keys.
func startKeyed(t *testing.T, log *buffer, list ...keys.Key) (*keyed, []string) {
	t.Helper()
	return startKeyedAs(t, log, func(*setup) {}, list...)
}

// startKeyedAs is startKeyed with other options.
func startKeyedAs(t *testing.T, log *buffer, change func(*setup), list ...keys.Key) (*keyed, []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), keys.FileName)
	var secrets []string
	for _, k := range list {
		secret, err := keys.Add(t.Context(), path, k)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, secret)
	}
	book, err := keys.Open(path, path+".used", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var follower sync.WaitGroup
	follower.Go(func() { book.Follow(ctx) })
	t.Cleanup(func() {
		cancel()
		follower.Wait()
	})
	v := startModel(t, func(o *setup) {
		o.Keys = book
		o.Log = slog.New(slog.NewTextHandler(log, nil))
		o.Settings.Server.RequestLog = true
		change(o)
	})
	return &keyed{v, path}, secrets
}

func bearer(secret string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
}

// A named key works in every place of a key, is refused for other models, and
// appears in the request log by its name only.
func TestNamedKeys(t *testing.T) {
	var log buffer
	v, s := startKeyed(t, &log, keys.Key{Name: "all"}, keys.Key{Name: "other", Limits: keys.Limits{Models: []string{"gemma*"}}})
	chat := object{"messages": user(question), "max_tokens": 2}
	if r := v.ask("POST", "/v1/chat/completions", chat, bearer(s[0])); r.status != 200 {
		t.Errorf("a key: %d %s", r.status, r.body)
	}
	if r := v.ask("POST", "/v1/messages", chat, func(r *http.Request) { r.Header.Set("X-Api-Key", s[0]) }); r.status != 200 {
		t.Errorf("x-api-key: %d %s", r.status, r.body)
	}
	for _, path := range []string{"/v1/chat/completions", "/api/chat", "/v1/messages", "/v1/embeddings"} {
		body := object{"model": "tiny-chat", "messages": user(question), "max_tokens": 2}
		if path == "/v1/embeddings" {
			body = object{"input": "x"}
		}
		if r := v.ask("POST", path, body, bearer(s[1])); r.status != http.StatusForbidden || !strings.Contains(string(r.body), "tiny-chat") {
			t.Errorf("%s with a key for other models: %d %s", path, r.status, r.body)
		}
	}
	for _, secret := range []string{"", "gw-wrong", s[0] + "x"} {
		if r := v.ask("POST", "/v1/chat/completions", chat, bearer(secret)); r.status != http.StatusUnauthorized {
			t.Errorf("key %q: %d", secret, r.status)
		}
	}
	for _, path := range []string{"/api/memory", "/metrics"} {
		if r := v.ask("GET", path, nil, bearer(s[0])); r.status != 200 || strings.Contains(string(r.body), `"process"`) || strings.Contains(string(r.body), `prefixes"`) || strings.Contains(string(r.body), `of="heap"`) {
			t.Errorf("%s tells one key about another: %s", path, r.body)
		}
	}
	wait(t, "the log", func() bool { return strings.Contains(log.String(), "key=other") })
	if text := log.String(); !strings.Contains(text, "key=all") || strings.Contains(text, s[0]) || strings.Contains(text, s[1]) {
		t.Errorf("the log has %s", text)
	}
}

// 16 clients with one key never get more requests or tokens than its limits, with and
// without streams, and the error says when to come back.
func TestKeyLimits(t *testing.T) {
	var log buffer
	const tokens = 400
	v, s := startKeyed(t, &log, keys.Key{Name: "tokens", Limits: keys.Limits{Tokens: tokens}}, keys.Key{Name: "requests", Limits: keys.Limits{Requests: 5}})
	var used, passed, refused atomic.Int64
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			for range 8 {
				r := v.ask("POST", "/v1/chat/completions", object{"messages": user("Count " + strconv.Itoa(i)), "max_tokens": 8, "ignore_eos": true}, bearer(s[0]))
				switch {
				case r.status == 200:
					used.Add(int64(r.json(t)["usage"].(map[string]any)["total_tokens"].(float64)))
				case r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "" && strings.Contains(string(r.body), "400 tokens a day"):
					refused.Add(1)
				default:
					t.Errorf("%d %s", r.status, r.body)
				}
			}
			if r := v.ask("POST", "/tokenize", object{"content": "x"}, bearer(s[1])); r.status == 200 {
				passed.Add(1)
			}
		})
	}
	clients.Wait()
	if used.Load() > tokens || used.Load() < tokens/4 || refused.Load() == 0 {
		t.Errorf("%d tokens passed of %d, %d requests were refused", used.Load(), tokens, refused.Load())
	}
	if passed.Load() != 5 {
		t.Errorf("%d requests passed of 5 a minute", passed.Load())
	}
	if r := v.ask("GET", "/v1/models", nil, bearer(s[1])); r.status != 200 {
		t.Errorf("a request that only reads: %d", r.status)
	}
}

// A running stream ends when its key is revoked, and the key is refused from then on.
func TestRevokedKey(t *testing.T) {
	var log buffer
	v, s := startKeyed(t, &log, keys.Key{Name: "a"}, keys.Key{Name: "b"})
	r, err := v.request(t.Context(), "POST", "/v1/chat/completions", object{"messages": user(question), "stream": true, "ignore_eos": true, "max_tokens": 100000}, bearer(s[0]))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 512)); err != nil {
		t.Fatal(err)
	}
	if err := keys.Revoke(t.Context(), v.path, "a"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(rest), keys.ErrRevoked.Error()) {
		t.Errorf("the stream ended with %.300q, %v", rest[max(0, len(rest)-300):], err)
	}
	if r := v.ask("GET", "/v1/models", nil, bearer(s[0])); r.status != http.StatusUnauthorized {
		t.Errorf("a revoked key: %d", r.status)
	}
	if r := v.ask("GET", "/v1/models", nil, bearer(s[1])); r.status != 200 {
		t.Errorf("the other key: %d", r.status)
	}
}

// A key with limits cannot change the server for others or open the page, and every
// endpoint that is not read-only is known to do so or not.
func TestLimitedKey(t *testing.T) {
	var log buffer
	v, s := startKeyed(t, &log, keys.Key{Name: "limited", Limits: keys.Limits{Requests: 1000}}, keys.Key{Name: "free"})
	v.Mount("/app/", http.NotFoundHandler(), nil)
	asking := 0
	for _, r := range v.endpoints.all {
		if r.Method == http.MethodGet {
			continue
		}
		what := r.Method + " " + r.Path
		answer := v.ask(r.Method, strings.NewReplacer("{id}", "0", "{digest}", "sha256:00").Replace(r.Path), object{}, bearer(s[0]))
		refused := answer.status == http.StatusForbidden && strings.Contains(string(answer.body), "has limits")
		if refused != managing[what] {
			t.Errorf("%s: %d %s", what, answer.status, answer.body)
		}
		if !refused {
			asking++
		}
		changes := slices.ContainsFunc([]string{"pull", "Download", "Remove a model", "Make a model", "Copy a model", "Upload", "Load a model", "Unload", "LoRA", "slot", "stored prompts"}, func(word string) bool {
			return strings.Contains(r.About, word)
		})
		if changes != managing[what] {
			t.Errorf("%s (%s) is managing: %v", what, r.About, managing[what])
		}
	}
	if asking < 20 || len(managing) < 10 {
		t.Errorf("%d endpoints ask, %d manage", asking, len(managing))
	}
	for i, want := range []int{http.StatusForbidden, http.StatusNotFound} {
		if r := v.ask("GET", "/app/config.json", nil, bearer(s[i])); r.status != want {
			t.Errorf("key %d on the page: %d, want %d", i, r.status, want)
		}
	}
}

// A key with a limit of cache bytes loses its own least valuable prompts, never those
// of another key.
func TestKeyCache(t *testing.T) {
	var log buffer
	v, s := startKeyedAs(t, &log, func(o *setup) {
		o.Engine.Parallel, o.Engine.Cells = 1, 1024
		keeping(t, o, t.TempDir())
		o.Keys.Caches(o.Prefixes.SetLimits)
	}, keys.Key{Name: "limited", Limits: keys.Limits{Cache: 24 << 20}}, keys.Key{Name: "free"})
	about := func(what string) string { return strings.Repeat("The "+what+" and the sand. ", 30) }
	v.cached(0, about("sea"), bearer(s[1]))
	list := v.o.Prefixes.List()
	if len(list) != 1 {
		t.Fatalf("stored: %v", list)
	}
	held := func() (bytes int64) { // bytes of the limited key, in memory or on disk
		v.o.Prefixes.Sync()
		for _, c := range v.o.Prefixes.List() {
			if c.Name != list[0].Name {
				bytes += c.PageBytes + c.PointBytes
			}
		}
		return bytes
	}
	const limit = 24 << 20
	for i := range 12 {
		v.cached(0, about("mountain "+strconv.Itoa(i)), bearer(s[0]))
		if n := held(); n > 2*limit { // memory and disk can hold different records
			t.Fatalf("after %d prompts the limited key has %d bytes", i+1, n)
		}
	}
	if n := held(); n < limit/2 {
		t.Fatalf("the limited key has only %d bytes, so its limit was not reached", n)
	}
	if n := v.cached(0, about("mountain 11"), bearer(s[0])); n < 128 {
		t.Errorf("the limited key finds %v tokens of its newest prompt", n)
	}
	if n := v.cached(0, about("sea"), bearer(s[1])); n < 128 {
		t.Errorf("the other key finds %v tokens of its prompt", n)
	}
	if n := v.cached(0, about("mountain 0"), bearer(s[0])); n >= 128 {
		t.Errorf("the limited key finds %v tokens of its oldest prompt", n)
	}
}
