package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/engine"
)

// The server listens before its model is there, says so, and serves requests
// that came early. Streams hear heartbeats meanwhile.
func TestLoading(t *testing.T) {
	hold := make(chan struct{})
	v := startModel(t, func(o *Options) {
		o.Progress = func(string, float64) error { <-hold; return nil }
	})
	v.beat = time.Millisecond
	if r := v.ask("GET", "/health", nil); r.status != 503 || at(r.json(t), "error", "type") != "unavailable_error" {
		t.Errorf("health while loading: %d %s", r.status, r.body)
	}
	if list := v.ask("GET", "/v1/models", nil).json(t); at(list, "data", 0, "state") != "loading" {
		t.Errorf("state while loading: %v", at(list, "data", 0, "state"))
	}
	early, err := v.request(t.Context(), "POST", "/v1/chat/completions", object{"messages": user("a"), "max_tokens": 2, "stream": true})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(early)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	first, err := body.ReadString('\n') // comes while the model is held up
	if resp.StatusCode != http.StatusOK || err != nil || !strings.HasPrefix(first, ": ") {
		t.Errorf("a stream while loading begins with %q, %d, %v", first, resp.StatusCode, err)
	}
	close(hold)
	rest, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	if list := readEvents(t, rest); list[len(list)-1].data != "[DONE]" {
		t.Errorf("the early stream ends with %v", list[len(list)-1])
	}
	wait(t, "health", func() bool { return v.ask("GET", "/health", nil).status == 200 })
	if r := v.ask("GET", "/health", nil).json(t); r["status"] != "ok" {
		t.Errorf("health: %v", r)
	}
	// A long prompt takes its time too.
	r := v.ask("POST", "/v1/completions", object{"prompt": strings.Repeat("sand and water, ", 200), "max_tokens": 1, "stream": true})
	if before, _, _ := bytes.Cut(r.body, []byte("data: ")); r.status != 200 || bytes.Count(before, []byte(": ")) == 0 {
		t.Errorf("a stream whose prompt is read has no heartbeats: %d %.200s", r.status, r.body)
	}
}

// A model that cannot be loaded is an error with the reason, in the stream too.
func TestBroken(t *testing.T) {
	var log buffer
	v := startModel(t, func(o *Options) {
		o.Progress = func(string, float64) error { return errors.New("the disk is on fire") }
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	wait(t, "failure", func() bool {
		return v.ask("GET", "/v1/models", nil).json(t)["data"].([]any)[0].(map[string]any)["state"] == "failed"
	})
	for _, stream := range []bool{false, true} {
		r := v.ask("POST", "/v1/chat/completions", object{"messages": user("a"), "stream": stream})
		if r.status != 500 || !strings.Contains(string(r.body), "the disk is on fire") {
			t.Errorf("stream %v: %d %s", stream, r.status, r.body)
		}
	}
	said := log.String()
	if r := v.ask("GET", "/health", nil); r.status != 503 {
		t.Errorf("health: %d", r.status)
	}
	if strings.Count(said, "request failed") == 0 || log.String() != said {
		t.Errorf("requests are logged, questions about the health are not: %q, then %q", said, log.String())
	}
}

// Without a model of its own the server loads those of the library when they
// are asked for and unloads them when nobody does.
func TestLibrary(t *testing.T) {
	v := start(t, func(o *Options) {
		o.Library = library(t)
		o.Settings.Server.KeepAlive = -1
	})
	state := func() any { return at(v.ask("GET", "/v1/models/tiny-chat", nil).json(t), "state") }
	if r := v.ask("GET", "/health", nil); r.status != 200 {
		t.Errorf("health: %d", r.status)
	}
	if got := state(); got != "unloaded" {
		t.Errorf("state at first: %v", got)
	}
	if r := v.ask("GET", "/api/kv", nil); r.status != 404 || at(r.json(t), "error", "code") != "model_not_loaded" {
		t.Errorf("cache of a model that is not loaded: %d %s", r.status, r.body)
	}
	if plan := v.ask("GET", "/api/kv/plan?model=tiny-chat&ctx=256&k=q8_0&v=q4_0", nil).json(t); plan["ctx"] != 256.0 || at(plan, "layers", 3, "v", "active") != "q4_0" {
		t.Errorf("plan before a load: %v", plan)
	}
	for path, body := range map[string]any{
		"/v1/chat/completions": object{"model": "nope", "messages": user("a")},
		"/v1/messages":         object{"model": "nope", "messages": user("a"), "max_tokens": 1},
		"/api/chat":            object{"model": "nope", "messages": user("a")},
		"/completion":          object{"model": "../../tiny-chat.gguf", "prompt": "a"},
		"/v1/completions":      object{"model": filepath.Join(v.o.Library.Dir(), "tiny-chat.gguf"), "prompt": "a"},
	} {
		r := v.ask("POST", path, body)
		if r.status != 404 || !strings.Contains(string(r.body), "model_not_found") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if state() != "unloaded" {
		t.Error("an unknown name loaded the model")
	}
	for _, name := range []string{"tiny-chat", "TINY-chat:latest", ""} {
		if r := v.post("/v1/chat/completions", object{"model": name, "messages": user("a"), "max_tokens": 1}); r["model"] != "tiny-chat" {
			t.Errorf("%q was answered by %v", name, r["model"])
		}
	}
	if got := at(v.ask("GET", "/api/ps", nil).json(t), "models", 0, "name"); got != "tiny-chat" || state() != "loaded" {
		t.Errorf("running: %v, state %v", got, state())
	}
	// Unload by request, load by request, unload by time.
	if r := v.post("/api/generate", object{"model": "tiny-chat", "keep_alive": 0}); r["done_reason"] != "unload" || state() != "unloaded" {
		t.Errorf("unload: %v, state %v", r, state())
	}
	r := v.events("/api/generate", object{"model": "tiny-chat", "keep_alive": "150ms"})
	if len(r) != 1 || r[0].json(t)["done_reason"] != "load" {
		t.Errorf("load: %v", r)
	}
	wait(t, "unload after keep-alive", func() bool { return state() == "unloaded" })
	if r := v.ask("DELETE", "/api/delete", object{"model": "nope"}); r.status != 404 {
		t.Errorf("delete of nothing: %d", r.status)
	}
	if r := v.ask("DELETE", "/api/delete", object{"name": "tiny-chat"}); r.status != 200 {
		t.Errorf("delete: %d %s", r.status, r.body)
	}
	if list := v.ask("GET", "/api/tags", nil).json(t)["models"].([]any); len(list) != 0 {
		t.Errorf("after delete: %v", list)
	}
}

// An unload waits for a user who is leaving, and refuses one who stays.
func TestParting(t *testing.T) {
	v := start(t, func(o *Options) {
		o.Library = library(t)
		o.Settings.Server.KeepAlive = -1
	})
	m, err := v.pool.find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	lease, err := v.Acquire(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	v.pool.parting = time.Millisecond
	if err := v.Unload(m.Path); !errors.Is(err, ErrBusy) || v.Standing(m.Path).State != Loaded {
		t.Errorf("unloaded while in use: %v, %s", err, v.Standing(m.Path).State)
	}
	v.pool.parting = time.Hour
	done := make(chan error)
	for range 3 {
		go func() { done <- v.Unload(m.Path) }()
	}
	time.Sleep(20 * time.Millisecond)
	lease.Release()
	for range 3 {
		if err := <-done; err != nil || v.Standing(m.Path).State != Unloaded {
			t.Errorf("unloaded while its last user left: %v, %s", err, v.Standing(m.Path).State)
		}
	}
}

// Who waits for a load gets its model before anybody unloads it, and who has left
// meanwhile counts as a user who left when it came.
func TestWaitForLoad(t *testing.T) {
	reading, goOn := make(chan struct{}), make(chan struct{})
	v := start(t, func(o *Options) {
		o.Library = library(t)
		o.Settings.Server.KeepAlive = -1
		var once sync.Once
		o.Progress = func(string, float64) error {
			once.Do(func() { close(reading) })
			<-goOn
			return nil
		}
	})
	v.pool.parting = time.Hour
	m, err := v.pool.find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := v.Acquire(ctx, m)
		gone <- err
	}()
	<-reading
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("hung up during a load: %v", err)
	}
	// The changes of state are those of the first load, however late its users come.
	v.pool.mu.Lock()
	var states []State
	v.pool.changed = func() { states = append(states, v.pool.entries[m.Path].state) }
	v.pool.mu.Unlock()
	const users = 5
	var clients sync.WaitGroup
	for range users {
		clients.Go(func() {
			l, err := v.Acquire(t.Context(), m)
			if err != nil {
				t.Error(err)
				return
			}
			l.Release()
		})
	}
	waiting := func() int {
		v.pool.mu.Lock()
		defer v.pool.mu.Unlock()
		return v.pool.entries[m.Path].users
	}
	wait(t, "users of the load", func() bool { return waiting() == users+1 }) // and the one who hung up
	close(goOn)
	wait(t, "the load", func() bool { return v.Standing(m.Path).State != Loading })
	if err := v.Unload(m.Path); err != nil {
		t.Error(err)
	}
	clients.Wait()
	v.pool.mu.Lock()
	defer v.pool.mu.Unlock()
	if !slices.Equal(states, []State{Loaded, Unloading, Unloaded}) || v.pool.entries[m.Path].users != 0 {
		t.Errorf("the model went through %v, %d users are left", states, v.pool.entries[m.Path].users)
	}
}

// An unload waits for a load that nobody waits for any more, and refuses one that
// takes long.
func TestUnloadInLoad(t *testing.T) {
	goOn := make(chan struct{})
	v := start(t, func(o *Options) {
		o.Library = library(t)
		o.Settings.Server.KeepAlive = -1
		o.Progress = func(string, float64) error { <-goOn; return nil }
	})
	m, err := v.pool.find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := v.Acquire(gone, m); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("loaded: %v", err)
	}
	v.pool.parting = time.Millisecond
	if r := v.ask("POST", "/api/generate", object{"model": "tiny-chat", "keep_alive": 0}); r.status != 409 {
		t.Errorf("during the load: %d %s", r.status, r.body)
	}
	v.pool.parting = time.Hour
	done := make(chan error)
	go func() { done <- v.Unload(m.Path) }()
	time.Sleep(10 * time.Millisecond)
	close(goOn)
	if err := <-done; err != nil || v.Standing(m.Path).State != Unloaded {
		t.Errorf("unload: %v, %s", err, v.Standing(m.Path).State)
	}
}

// Who waits for a load while the server closes is told so, and gets no model.
func TestCloseInLoad(t *testing.T) {
	reading, goOn := make(chan struct{}), make(chan struct{})
	v := start(t, func(o *Options) {
		o.Library = library(t)
		var once sync.Once
		o.Progress = func(string, float64) error {
			once.Do(func() { close(reading) })
			<-goOn
			return nil
		}
	})
	m, err := v.pool.find("tiny-chat")
	if err != nil {
		t.Fatal(err)
	}
	l, loaded, err := v.pool.try(m, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	<-reading
	done := make(chan error)
	go func() { done <- v.pool.close() }()
	wait(t, "the close", func() bool {
		v.pool.mu.Lock()
		defer v.pool.mu.Unlock()
		return v.pool.closed
	})
	close(goOn)
	<-loaded
	if err := <-done; err != nil || v.Standing(m.Path).State != Unloaded {
		t.Errorf("closed: %v, %s", err, v.Standing(m.Path).State)
	}
	if _, err := v.pool.arrived(l); !errors.Is(err, errStopping) || l.Engine != nil || l.entry.users != 0 {
		t.Errorf("after the close: %v, %v, %d users", err, l.Engine, l.entry.users)
	}
}

// Slots are saved, erased and restored, in a new server too, and what was
// restored is used.
func TestSlots(t *testing.T) {
	dir := t.TempDir()
	ask := object{"prompt": strings.Repeat("the sea and the sand, ", 30), "max_tokens": 8, "id_slot": 2}
	first := startModel(t, func(o *Options) { o.States = dir })
	text := at(first.post("/v1/completions", ask), "choices", 0, "text")
	saved := first.post("/slots/2?action=save", object{"filename": "sea.bin"})
	info, err := os.Stat(filepath.Join(dir, "sea.bin"))
	if err != nil || saved["n_written"] != float64(info.Size()) || saved["n_saved"].(float64) < 128 {
		t.Fatalf("saved %v, %v", saved, err)
	}
	if r := first.post("/slots/2?action=erase", object{}); r["n_erased"] != saved["n_saved"] {
		t.Errorf("erased %v of %v", r["n_erased"], saved["n_saved"])
	}
	if list := first.ask("GET", "/slots", nil).body; !bytes.Contains(list, []byte(`"id":2,"n_ctx":1024,"is_processing":false,"n_tokens":0`)) {
		t.Errorf("slots: %s", list)
	}
	first.end()
	v := startModel(t, func(o *Options) { o.States = dir })
	if r := v.post("/slots/1?action=restore", object{"filename": "sea.bin"}); r["n_restored"] != saved["n_saved"] || r["n_read"] != saved["n_written"] {
		t.Errorf("restored %v, saved %v", r, saved)
	}
	delete(ask, "id_slot")
	r := v.post("/v1/completions", ask)
	if n := at(r, "usage", "prompt_tokens_details", "cached_tokens").(float64); n < 128 || at(r, "choices", 0, "text") != text {
		t.Errorf("%v tokens of the restored slot were used; %v, want %v", n, at(r, "choices", 0, "text"), text)
	}
	// Damage, other names, nothing there.
	data, err := os.ReadFile(filepath.Join(dir, "sea.bin"))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(filepath.Join(dir, "torn.bin"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(filepath.Join(dir, "longer.bin"), append(data, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o700), os.Symlink(t.TempDir(), filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"folder", "link", "torn.bin", "longer.bin", "none.bin", "../sea.bin", ".sea.bin", "a/b", `a\b`, "x.part"}
	for _, name := range names {
		if r := v.ask("POST", "/slots/0?action=restore", object{"filename": name}); r.status != 400 {
			t.Errorf("restore of %s: %d %s", name, r.status, r.body)
		}
	}
	if r := v.ask("POST", "/slots/99?action=erase", nil); r.status != 400 {
		t.Errorf("a slot that is not there: %d %s", r.status, r.body)
	}
	v.post("/v1/completions", object{"prompt": "still there", "max_tokens": 1})
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The folder of saved slots stays within its budget, oldest first, and files
// that are something else stay.
func TestStateBudget(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	torn := map[string]bool{".killed.part": true, ".others.part": false, ".new.part": false, ".part": false} // false: they stay
	for name, ours := range torn {
		text, age := "of another program", 2*partAge
		if ours || name == ".new.part" {
			text = engine.SlotMagic
		}
		if name == ".new.part" {
			age = 0
		}
		path, then := filepath.Join(dir, name), time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	v := startModel(t, func(o *Options) { o.States = dir; o.Settings.Server.StateBudget = 2 << 20 })
	v.post("/v1/completions", object{"prompt": strings.Repeat("sand ", 20), "max_tokens": 1, "id_slot": 0})
	var size float64
	for i := range 5 {
		size = v.post("/slots/0?action=save", object{"filename": fmt.Sprintf("s%d", i)})["n_written"].(float64)
		now := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, fmt.Sprintf("s%d", i)), now, now); err != nil {
			t.Fatal(err)
		}
	}
	fit := int(float64(2<<20) / size)
	for i := range 5 {
		_, err := os.Stat(filepath.Join(dir, fmt.Sprintf("s%d", i)))
		if kept := err == nil; kept != (i >= 5-fit) {
			t.Errorf("file %d of 5 is kept: %v; %d fit", i, kept, fit)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Errorf("another file: %v", err)
	}
	for name, gone := range torn {
		if _, err := os.Stat(filepath.Join(dir, name)); gone != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want it gone: %v", name, err, gone)
		}
	}
	v.post("/v1/completions", object{"prompt": strings.Repeat("sand ", 150), "max_tokens": 1, "id_slot": 1})
	if r := v.ask("POST", "/slots/1?action=save", object{"filename": "large"}); r.status != http.StatusInsufficientStorage {
		t.Errorf("a state over the budget: %d %s", r.status, r.body)
	}
}

// A client that hangs up frees its work, while it is generated and while it
// waits.
func TestHangUp(t *testing.T) {
	seen := make(chan struct{})
	v := startModel(t, func(o *Options) {
		o.Engine.Parallel = 1
		o.Engine.Observe = func(engine.Step) { // the answer takes its time until all have come
			select {
			case <-seen:
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	var all []context.CancelFunc
	for range 3 { // one runs, two wait
		ctx, cancel := context.WithCancel(t.Context())
		all = append(all, cancel)
		r, err := v.request(ctx, "POST", "/v1/completions", object{"prompt": "a", "stream": true, "ignore_eos": true})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if resp, err := http.DefaultClient.Do(r); err == nil {
				_, _ = bufio.NewReader(resp.Body).ReadString('\n')
				<-ctx.Done()
				resp.Body.Close()
			}
		}()
	}
	use := func() engine.Usage {
		l, err := v.pool.acquire(t.Context(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.release()
		u, err := l.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	busy := func() bool { return bytes.Contains(v.ask("GET", "/slots", nil).body, []byte(`"is_processing":true`)) }
	wait(t, "one answer and two in the queue", func() bool { return use().Queued == 2 && busy() })
	close(seen)
	for _, cancel := range all {
		cancel()
	}
	wait(t, "an idle server", func() bool { return use().Queued == 0 && !busy() })
	v.post("/slots/0?action=erase", nil)
	if free := use().Free; free != 4096 {
		t.Errorf("%d cells are free, want all 4096", free)
	}
}

// An end of the server ends open streams, with an error that says why.
func TestShutdown(t *testing.T) {
	v := startModel(t, nil)
	v.ending = ending{drain: 100 * time.Millisecond, kill: time.Hour, leave: time.Hour}
	v.post("/v1/completions", object{"prompt": "a", "max_tokens": 1})
	type ended struct {
		body []byte
		err  error
	}
	var open []chan ended
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/api/chat"} {
		body := object{
			"model": "m", "messages": user("Count to a million."), "max_tokens": 100000, "stream": true, "ignore_eos": true,
			"logit_bias": object{"2": -100, "0": -100}, "options": object{"num_predict": -1, "logit_bias": object{"2": -100, "0": -100}},
		}
		r, err := v.request(context.Background(), "POST", path, body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r) //nolint:bodyclose // closed by the reader below
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan ended, 1)
		go func() {
			all, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			done <- ended{all, err}
		}()
		open = append(open, done)
	}
	v.end()
	err := <-v.done
	v.done <- err
	if err != nil {
		t.Error(err)
	}
	for i, done := range open {
		e := <-done
		list := readEvents(t, e.body)
		if last := list[len(list)-1].data; e.err != nil || !strings.Contains(last, "shutting down") && !strings.Contains(last, "[DONE]") && !strings.Contains(last, "message_stop") && !strings.Contains(last, `"done":true`) {
			t.Errorf("stream %d ends with %.200s, %v", i, last, e.err)
		}
	}
	if _, err := v.try(context.Background(), "GET", "/health", nil); err == nil {
		t.Error("the server still answers")
	}
}

// A device in the middle of a step does not hold up the end: the stream is told,
// and the server returns while the step goes on.
func TestShutdownInStep(t *testing.T) {
	step, hold := make(chan struct{}), make(chan struct{})
	defer close(hold)
	var once sync.Once
	v := startModel(t, func(o *Options) {
		o.Engine.Observe = func(engine.Step) {
			once.Do(func() { close(step) })
			<-hold
		}
	})
	if e := v.ending; e.drain >= e.kill || e.kill >= e.leave || e.leave >= 5*time.Second {
		t.Errorf("a server ends within %+v, want less than 5 s", e)
	}
	v.ending = ending{drain: time.Millisecond, kill: time.Hour, leave: time.Millisecond}
	answers := make(chan reply, 2)
	for _, stream := range []bool{true, false} {
		go func() {
			r, err := v.try(context.Background(), "POST", "/v1/chat/completions", object{"messages": user("a"), "stream": stream, "max_tokens": 2})
			if err != nil {
				t.Errorf("stream %v: %v", stream, err)
			}
			answers <- r
		}()
	}
	<-step
	wait(t, "two requests", func() bool { return len(v.flight) == 2 })
	v.end()
	err := <-v.done
	v.done <- err
	if err != nil {
		t.Error(err)
	}
	for range 2 {
		if r := <-answers; !strings.Contains(string(r.body), "shutting down") {
			t.Errorf("an open request ends with %d %.200s", r.status, r.body)
		}
	}
}

// Sixteen clients, each with words of its own: every answer is the one that
// the client gets alone, and no word gets into another's.
func TestPlantedWords(t *testing.T) {
	v := shared(t)
	words := strings.Fields("amber basil cedar dahlia ebony fennel ginger hazel indigo jasmine kelp lotus maple nettle olive poppy")
	ask := func(i, turn int) object {
		text := fmt.Sprintf("My secret word is %s. %s Repeat my secret word.", words[i], strings.Repeat("It is nice weather today. ", 2*turn))
		return object{"messages": user(text), "max_tokens": 6, "cache_prompt": turn != 1}
	}
	turns := 3
	if testing.Short() {
		turns = 2
	}
	alone := make([][]string, len(words))
	for i := range words {
		for turn := range turns {
			alone[i] = append(alone[i], at(v.post("/v1/chat/completions", ask(i, turn)), "choices", 0, "message", "content").(string))
		}
	}
	var clients sync.WaitGroup
	for i := range words {
		clients.Go(func() {
			for turn := range turns {
				r, err := v.try(t.Context(), "POST", "/v1/chat/completions", ask(i, turn))
				if err != nil || r.status != 200 {
					t.Errorf("client %d: %v %d %s", i, err, r.status, r.body)
					return
				}
				var got any
				if err := json.Unmarshal(r.body, &got); err != nil {
					t.Error(err)
					return
				}
				text := at(got, "choices", 0, "message", "content").(string)
				if text != alone[i][turn] {
					t.Errorf("client %d, turn %d: %q among others, %q alone", i, turn, text, alone[i][turn])
				}
				for j, w := range words {
					if j != i && strings.Contains(strings.ToLower(text), w) {
						t.Errorf("client %d hears the word of client %d: %q", i, j, text)
					}
				}
			}
		})
	}
	clients.Wait()
}
