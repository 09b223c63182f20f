package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/app/api/wire"
	"godwit/engine"
)

// The server listens before its model is loaded, reports that, and serves early
// requests later. Streams get heartbeats in the meantime.
func TestLoading(t *testing.T) {
	hold := make(chan struct{})
	v := startModel(t, func(o *setup) {
		o.Engine.Progress = func(float64) error { <-hold; return nil }
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
	first, err := body.ReadString('\n') // arrives while the model is being loaded
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
	// A long prompt also takes time.
	r := v.ask("POST", "/v1/completions", object{"prompt": strings.Repeat("sand and water, ", 200), "max_tokens": 1, "stream": true})
	if before, _, _ := bytes.Cut(r.body, []byte("data: ")); r.status != 200 || bytes.Count(before, []byte(": ")) == 0 {
		t.Errorf("a stream whose prompt is read has no heartbeats: %d %.200s", r.status, r.body)
	}
}

// A model that cannot be loaded gives an error with the reason, also in a stream.
func TestBroken(t *testing.T) {
	var log buffer
	v := startModel(t, func(o *setup) {
		o.Engine.Progress = func(float64) error { return errors.New("the disk is on fire") }
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

// A server without a model of its own loads models of the library on demand and
// unloads idle ones.
func TestLibrary(t *testing.T) {
	v := start(t, func(o *setup) {
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
		"/v1/completions":      object{"model": filepath.Join(v.pool.Library().Dir(), "tiny-chat.gguf"), "prompt": "a"},
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
	// Unload by request, load by request, unload after a time.
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

// A client that disconnects frees its slot, while its answer is generated and while
// it waits.
func TestHangUp(t *testing.T) {
	seen := make(chan struct{})
	v := startModel(t, func(o *setup) {
		o.Engine.Parallel = 1
		o.Engine.Observe = func(engine.Step) { // slows the answer down until all requests have arrived
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
		l, err := v.lease(t.Context(), &wire.Head{AsLoaded: true})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		u, err := l.Engine.Usage(t.Context())
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

// When the server stops, open streams end with an error that gives the reason.
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

// A device in the middle of a step does not delay the shutdown: the stream ends
// with an error, and the server returns while the step continues.
func TestShutdownInStep(t *testing.T) {
	step, hold := make(chan struct{}), make(chan struct{})
	defer close(hold)
	var once sync.Once
	v := startModel(t, func(o *setup) {
		o.Engine.Observe = func(engine.Step) {
			once.Do(func() { close(step) })
			<-hold
		}
	})
	if e := v.ending; e.drain >= e.kill || e.kill >= e.leave || e.leave >= 3*time.Second {
		t.Errorf("a server ends within %+v, want less than 3 s", e)
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

// Sixteen clients each use their own words. Every answer is the one that the client
// gets alone, and contains no word of another client.
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
