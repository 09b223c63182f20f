package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/engine"
	"godwit/engine/testmodel"
)

// live is a running server.
type live struct {
	*Server
	t    testing.TB
	url  string
	end  context.CancelFunc
	done chan error
}

// library makes a folder with the real model.
func library(t testing.TB) *hub.Library {
	t.Helper()
	path := testmodel.SmolLM2(t)
	dir := t.TempDir()
	if err := os.Symlink(path, filepath.Join(dir, "tiny-chat.gguf")); err != nil {
		t.Fatal(err)
	}
	l, err := hub.Open(hub.Options{Dir: dir, URL: "https://hub.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// setup is the configuration of a server that a test can change.
type setup struct {
	Options
	Engine  engine.Options
	Library *hub.Library
	Model   *hub.Model
	Free    func(string, *engine.Options) int64
}

// newSetup returns a configuration for short tests.
func newSetup() *setup {
	o := &setup{Options: Options{Settings: config.Default(), Version: "1.2.3"}}
	o.Settings.Server.Port = 0
	o.Settings.Sampling.Temperature = 0
	o.Engine = engine.Options{Context: 1024, Cells: 4096, Parallel: 4, UBatch: 128}
	return o
}

// run starts the server of a configuration.
func (o *setup) run(t testing.TB) *live {
	t.Helper()
	models, err := pool.New(pool.Options{
		Library: o.Library, Model: o.Model, Engine: pool.Fixed(o.Engine), Free: o.Free, Log: o.Log,
		KeepAlive: time.Duration(o.Settings.Server.KeepAlive),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(models, o.Options)
	if err != nil {
		t.Fatal(err)
	}
	models.Preload()
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	v := &live{Server: s, t: t, url: s.URL(l), end: end, done: make(chan error, 1)}
	go func() { v.done <- s.Serve(ctx, l, models.Close) }()
	return v
}

// model returns the name of the only model.
func (v *live) model(t testing.TB) string {
	t.Helper()
	m, err := v.pool.Find("")
	if err != nil {
		t.Fatal(err)
	}
	return m.Name
}

// start starts a server. change adapts its options.
func start(t testing.TB, change func(o *setup)) *live {
	t.Helper()
	o := newSetup()
	o.States = t.TempDir()
	if change != nil {
		change(o)
	}
	v := o.run(t)
	t.Cleanup(func() {
		v.end()
		if err := <-v.done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return v
}

// startModel starts a server with the real model.
func startModel(t testing.TB, change func(o *setup)) *live {
	t.Helper()
	lib := library(t)
	m, err := lib.Find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	return start(t, func(o *setup) {
		o.Library, o.Model = lib, &m
		if change != nil {
			change(o)
		}
	})
}

// common is a server with the real model that tests share and must not change.
var common struct {
	sync.Mutex
	*live
	owner testing.TB
}

func TestMain(m *testing.M) {
	code := m.Run()
	if common.live != nil {
		common.end()
		<-common.done
	}
	os.Exit(code)
}

// shared returns the common server.
func shared(t testing.TB) *live {
	t.Helper()
	common.Lock()
	defer common.Unlock()
	if common.live == nil {
		common.live = startShared(t)
	}
	v := *common.live
	v.t = t
	return &v
}

// startShared is startModel for a server that outlives the test.
func startShared(t testing.TB) *live {
	t.Helper()
	path := testmodel.SmolLM2(t)
	lib, err := hub.Open(hub.Options{Dir: filepath.Dir(path), URL: "https://hub.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := lib.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	o := newSetup()
	o.Library, o.Model = lib, &m
	return o.run(t)
}

// reply is a response.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// json parses the body.
func (r reply) json(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("%v: %.300s", err, r.body)
	}
	return v
}

// at returns a value in parsed JSON by keys and indices.
func at(v any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			v = m[key]
		case int:
			l, ok := v.([]any)
			if !ok || key >= len(l) {
				return nil
			}
			v = l[key]
		}
	}
	return v
}

// ask sends a request. A body that is not a string is sent as JSON. edits change
// the request before it is sent.
func (v *live) ask(method, path string, body any, edits ...func(*http.Request)) reply {
	v.t.Helper()
	r, err := v.try(v.t.Context(), method, path, body, edits...)
	if err != nil {
		v.t.Fatal(err)
	}
	return r
}

func (v *live) request(ctx context.Context, method, path string, body any, edits ...func(*http.Request)) (*http.Request, error) {
	var data io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		data = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		data = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, v.url+path, data)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, edit := range edits {
		edit(r)
	}
	return r, nil
}

func (v *live) try(ctx context.Context, method, path string, body any, edits ...func(*http.Request)) (reply, error) {
	r, err := v.request(ctx, method, path, body, edits...)
	if err != nil {
		return reply{}, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, all}, err
}

// post sends a request that must succeed.
func (v *live) post(path string, body any) map[string]any {
	v.t.Helper()
	r := v.ask("POST", path, body)
	if r.status != http.StatusOK {
		v.t.Fatalf("POST %s: %d %s", path, r.status, r.body)
	}
	return r.json(v.t)
}

// event is a message in a stream.
type event struct {
	name, data string
}

func (e event) json(t testing.TB) map[string]any {
	t.Helper()
	return reply{body: []byte(e.data)}.json(t)
}

// events reads a whole stream of events or JSON lines.
func (v *live) events(path string, body any) []event {
	v.t.Helper()
	r := v.ask("POST", path, body)
	if r.status != http.StatusOK {
		v.t.Fatalf("POST %s: %d %s", path, r.status, r.body)
	}
	return readEvents(v.t, r.body)
}

func readEvents(t testing.TB, stream []byte) (list []event) {
	t.Helper()
	var e event
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			e.name = strings.TrimPrefix(line, "event: ")
		case strings.HasPrefix(line, "data: "):
			e.data = strings.TrimPrefix(line, "data: ")
		case strings.HasPrefix(line, "{"):
			list = append(list, event{data: line})
		case line == "" && e.data != "":
			list = append(list, e)
			e = event{}
		case line == "" || strings.HasPrefix(line, ":"):
		default:
			t.Fatalf("stream has the line %q", line)
		}
	}
	return list
}

// wait polls until ok, and fails only after a time that nothing but a hang takes.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

type object = map[string]any

// user returns a conversation with one message.
func user(text string) []object { return []object{{"role": "user", "content": text}} }

// open sends a request and returns the body of the response.
func (v *live) open(t testing.TB, path string, body any) io.ReadCloser {
	t.Helper()
	r, err := v.request(t.Context(), "POST", path, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Body
}

// follow passes on the lines of a response as they arrive, until it ends.
func follow(t testing.TB, r *http.Request, out chan<- string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		select {
		case out <- s.Text():
		case <-r.Context().Done():
			return
		}
	}
}
