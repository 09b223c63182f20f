package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/app/api"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/store"
	"godwit/app/tune"
	"godwit/engine"
	"godwit/engine/cpu"
	"godwit/engine/kv/layout"
	"godwit/engine/testmodel"
)

// desk is a running server with its page. Its folder outlives the server.
type desk struct {
	*Page
	t    *testing.T
	url  string
	dir  string
	stop func() error
}

// modelName is the real model's name in the tests' library.
const modelName = "small"

// newFolder makes a user's folder, with the real model in its library if requested.
func newFolder(t *testing.T, model bool) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "models"), 0o755); err != nil {
		t.Fatal(err)
	}
	if model {
		if err := os.Symlink(testmodel.SmolLM2(t), filepath.Join(dir, "models", modelName+".gguf")); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// settings returns the settings of a folder, live and as at the start. flags changes the
// settings at the start.
func settings(t *testing.T, dir string, flags func(*config.Settings)) (*config.Live, config.Settings) {
	t.Helper()
	file, err := config.Open(filepath.Join(dir, "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	env := func(string) (string, bool) { return "", false }
	start, err := file.Settings(env)
	if err != nil {
		t.Fatal(err)
	}
	if flags != nil {
		flags(&start)
	}
	live, err := config.NewLive(file, env, start)
	if err != nil {
		t.Fatal(err)
	}
	return live, start
}

// open starts a server with a folder. change modifies the page's options.
func open(t *testing.T, dir string, change func(*Options, *hub.Options)) *desk {
	t.Helper()
	return openAs(t, dir, nil, change)
}

// openAs is open with settings from the command line.
func openAs(t *testing.T, dir string, flags func(*config.Settings), change func(*Options, *hub.Options)) *desk {
	t.Helper()
	live, start := settings(t, dir, flags)
	chats, err := store.Open(filepath.Join(dir, "chats.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kept := engine.OpenPrefixes(engine.PrefixOptions{Dir: filepath.Join(dir, "prefixes"), Disk: 1 << 30, Memory: 64 << 20})
	tuned := tune.Open(filepath.Join(dir, tune.FileName), tune.Options{})
	o := Options{
		Store: chats, Settings: live, Version: "1.2.3", Tuned: tuned,
		Engine: func(c *config.Engine) (engine.Options, error) {
			want, err := engine.ParseCacheTypes(c.CacheTypeK, c.CacheTypeV)
			ctx := c.CtxSize
			if ctx == 0 {
				ctx = 1024
			}
			return engine.Options{
				Driver: cpu.Driver{}, Threads: c.Threads, Context: ctx, Parallel: 4, UBatch: 128, Want: want, SparseV: float32(c.SparseV), Prefixes: kept, KV: layout.Settings{Memory: int64(c.KVMemory)},
			}, err
		},
	}
	library := hub.Options{Dir: filepath.Join(dir, "models"), URL: "https://hub.invalid", Removed: tuned.Forget}
	if change != nil {
		change(&o, &library)
	}
	if o.Library, err = hub.Open(library); err != nil {
		t.Fatal(err)
	}
	var p *Page
	models, err := pool.New(pool.Options{Library: o.Library, KeepAlive: time.Duration(start.Server.KeepAlive), Engine: func(path string) (engine.Options, error) { return p.reload(path) }})
	if err != nil {
		t.Fatal(err)
	}
	if p, err = New(models, o); err != nil {
		t.Fatal(err)
	}
	p.titles.wait = time.Hour // no chat gets a title automatically
	start.Server.Port = 0
	s, err := api.New(models, api.Options{Settings: start, Tuned: tuned})
	if err != nil {
		t.Fatal(err)
	}
	s.Mount(Path, p, Keyless)
	live.OnChange(s.Apply)
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	context.AfterFunc(ctx, func() { _ = p.Close() })
	last := sync.OnceValue(func() error { return errors.Join(p.Close(), models.Close(), kept.Close()) })
	go func() { done <- s.Serve(ctx, l, last) }()
	d := &desk{Page: p, t: t, url: s.URL(l), dir: dir}
	stopped := false
	d.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		end()
		err := <-done
		// While it stops, the server waits only a few seconds for requests to end.
		s.Close()
		return errors.Join(err, last(), chats.Close())
	}
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return d
}

// do sends a request with the token and returns the status and the body.
func (d *desk) do(method, path string, body any) (int, []byte) {
	d.t.Helper()
	var data io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			d.t.Fatal(err)
		}
		data = bytes.NewReader(raw)
	}
	r, err := http.NewRequest(method, d.url+path, data)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// ask is do for requests that must succeed. It decodes the response.
func ask[T any](d *desk, method, path string, body any) T {
	d.t.Helper()
	var out T
	status, answer := d.do(method, path, body)
	if status/100 != 2 {
		d.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if len(answer) > 0 {
		if err := json.Unmarshal(answer, &out); err != nil {
			d.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
	return out
}

// refused returns the status and text of a request that must be rejected.
func (d *desk) refused(method, path string, body any) (int, string) {
	d.t.Helper()
	status, answer := d.do(method, path, body)
	if status/100 == 2 {
		d.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return status, string(answer)
}

// events reads a stream and calls f for each event until f returns false.
func (d *desk) events(path string, f func(name, data string) bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %s", path, resp.Status)
	}
	name := ""
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "data: "):
			if !f(name, line[6:]) {
				return
			}
		}
	}
}

// finish follows an answer to its end.
func (d *desk) finish(message int64) (text string, final store.Message) {
	d.t.Helper()
	d.events(fmt.Sprintf("/app/messages/%d/stream", message), func(name, data string) bool {
		switch name {
		case "text":
			var p piece
			if err := json.Unmarshal([]byte(data), &p); err != nil {
				d.t.Fatal(err)
			}
			if p.Reset {
				text = ""
			}
			text += p.Text
		case "end":
			if err := json.Unmarshal([]byte(data), &final); err != nil {
				d.t.Fatal(err)
			}
			return false
		}
		return true
	})
	if final.ID != message {
		d.t.Fatalf("the stream of message %d ended with %d", message, final.ID)
	}
	return text, final
}

// newChat makes a chat with short, deterministic answers.
func (d *desk) newChat(tokens int) store.Chat {
	d.t.Helper()
	settings := fmt.Sprintf(`{"sampling":{"temperature":0},"max_tokens":%d}`, tokens)
	return ask[store.Chat](d, "POST", "/app/chats", map[string]any{"model": modelName, "settings": json.RawMessage(settings)})
}

func (d *desk) say(chat, parent int64, text string) (question, answer store.Message) {
	d.t.Helper()
	b := ask[begun](d, "POST", fmt.Sprintf("/app/chats/%d/messages", chat), asked{Parent: parent, Content: text, Model: modelName})
	if len(b.Messages) != 2 {
		d.t.Fatalf("%d messages begun, want the question and its answer", len(b.Messages))
	}
	return b.Messages[0], b.Messages[1]
}
