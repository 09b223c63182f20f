//go:build agents

package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"godwit/app/api"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/engine"
	"godwit/engine/llm"
	"godwit/engine/tokenizer"
)

// turn is one request of an agent that reached the model.
type turn struct {
	path   string
	body   []byte
	prompt []llm.Token
	answer []llm.Token
	text   string // text of the prompt
	status int
	reply  bytes.Buffer
	header http.Header
}

// cached is how many tokens of the prompt the server says it reused.
func (r *turn) cached(t testing.TB) int {
	t.Helper()
	all := regexp.MustCompile(`"(?:cached_tokens|cache_read_input_tokens)":(\d+)`).FindAllSubmatch(r.reply.Bytes(), -1)
	if len(all) == 0 {
		t.Fatalf("no count of cached tokens in the reply to %s: %.300s", r.path, r.reply.Bytes())
	}
	n, err := strconv.Atoi(string(all[len(all)-1][1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// server is the API over a model whose answers are scripted.
type server struct {
	url   string
	mu    sync.Mutex
	all   []*turn // every request, in the order of their arrival
	words *tokenizer.Tokenizer
	say   func(r *turn) string // text of the answer
}

type key struct{}

// start serves a model. say returns the answer to a prompt.
func start(t testing.TB, path string, o engine.Options) *server {
	t.Helper()
	s := &server{}
	m, err := engine.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if s.words, err = m.Tokenizer(); err != nil {
		t.Fatal(err)
	}
	o.Replay = s.replay
	lib, err := hub.Open(hub.Options{Dir: filepath.Dir(path), URL: "https://hub.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	found, err := lib.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	models, err := pool.New(pool.Options{Library: lib, Model: &found, Engine: pool.Fixed(o), KeepAlive: -1})
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(models, api.Options{Settings: config.Default(), States: t.TempDir(), Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.record(t, a))
	s.url = web.URL
	t.Cleanup(func() {
		web.Close()
		a.Close()
		if err := models.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := models.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// record keeps every request with its reply.
func (s *server) record(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			t.Errorf("%s %s asks for %s, which the server does not offer", r.Method, r.URL.Path, r.Header.Get("Upgrade"))
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		turn := &turn{path: r.Method + " " + r.URL.Path, body: body, status: http.StatusOK}
		s.mu.Lock()
		s.all = append(s.all, turn)
		s.mu.Unlock()
		next.ServeHTTP(&tee{w, turn}, r.WithContext(context.WithValue(r.Context(), key{}, turn)))
	})
}

// tee copies a reply.
type tee struct {
	http.ResponseWriter
	turn *turn
}

func (w *tee) WriteHeader(status int) {
	w.turn.status, w.turn.header = status, w.Header().Clone()
	w.ResponseWriter.WriteHeader(status)
}

func (w *tee) Write(b []byte) (int, error) {
	w.turn.reply.Write(b)
	return w.ResponseWriter.Write(b)
}

func (w *tee) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// replay answers a prompt by the script.
func (s *server) replay(ctx context.Context, prompt []llm.Token) []llm.Token {
	r, ok := ctx.Value(key{}).(*turn)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.prompt, r.text = prompt, string(s.words.Decode(prompt, true))
	r.answer = s.words.EncodeText(s.say(r), false, true)
	return r.answer
}

// dump writes what was recorded for a reader, where GODWIT_AGENTS_DUMP says so.
func (s *server) dump(t testing.TB) {
	dir := os.Getenv("GODWIT_AGENTS_DUMP")
	if dir == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.all {
		name := filepath.Join(dir, fmt.Sprintf("%s-%02d", t.Name(), i))
		var body bytes.Buffer
		if json.Indent(&body, r.body, "", " ") != nil {
			body.Write(r.body)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		for ext, data := range map[string][]byte{".json": body.Bytes(), ".prompt": []byte(r.text), ".reply": fmt.Appendf(nil, "%s %d\n%s", r.path, r.status, r.reply.Bytes())} {
			if err := os.WriteFile(name+ext, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
