package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/app/store"
)

func TestToken(t *testing.T) {
	d := open(t, newFolder(t, false), nil)
	get := func(path, token string, header map[string]string) int {
		r, err := http.NewRequest(http.MethodGet, d.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		for k, v := range header {
			r.Header.Set(k, v)
			if k == "Host" {
				r.Host = v
			}
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, path := range []string{"/app/state", "/app/chats", "/app/events", "/app/settings", "/app/diagnostics", "/app/none", "/app/messages/1/stream"} {
		for _, token := range []string{"", "wrong", d.token[:len(d.token)-1], d.token + "x"} {
			if got := get(path, token, nil); got != http.StatusForbidden {
				t.Errorf("%s with the token %q: %d, want 403", path, token, got)
			}
		}
	}
	if got := get("/app/state", d.token, nil); got != http.StatusOK {
		t.Errorf("with the token: %d", got)
	}
	if got := get("/app/none", d.token, nil); got != http.StatusNotFound {
		t.Errorf("an endpoint that is not there: %d", got)
	}
	for _, header := range []map[string]string{
		{"Origin": "http://evil.example"}, {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"},
	} {
		for _, path := range []string{configPath, "/app/state"} {
			if got := get(path, d.token, header); got != http.StatusForbidden {
				t.Errorf("%s with %v: %d, want 403", path, header, got)
			}
		}
	}
	var c Config
	resp, err := http.Get(d.url + configPath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil || c != (Config{Token: d.token, Version: "1.2.3"}) {
		t.Errorf("config.json is %+v, %v", c, err)
	}
	other := open(t, newFolder(t, false), nil)
	if other.token == d.token {
		t.Error("two runs have one token")
	}
}

// An answer that ended because of a full context differs from one that reached its
// length limit.
func TestFullContext(t *testing.T) {
	dir := newFolder(t, true)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("[engine]\nctx_size = 64\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir, nil)
	for tokens, full := range map[int]bool{0: true, 4: false} {
		_, answer := d.say(d.newChat(tokens).ID, 0, "Tell me a long story about a bird.")
		if _, final := d.finish(answer.ID); final.Stats.Finish != "length" || final.Stats.Full != full {
			t.Errorf("an answer of at most %d tokens: %+v", tokens, final.Stats)
		}
	}
}

func TestChat(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	chat := d.newChat(24)
	question, answer := d.say(chat.ID, 0, "What is the capital of France? "+strings.Repeat("It lies on a river. ", 20))
	text, final := d.finish(answer.ID)
	if final.Status != store.Done || final.Content == "" || text != final.Content || final.Model != modelName {
		t.Fatalf("answer %+v, streamed %q", final, text)
	}
	if s := final.Stats; s.OutputTokens == 0 || s.OutputTokens > 24 || s.PromptTokens == 0 || s.TokensPerS <= 0 || s.FirstMS <= 0 || s.Finish == "" {
		t.Errorf("figures %+v", s)
	}
	type listed struct {
		Unseen []int64 `json:"unseen"`
	}
	if l := ask[listed](d, "GET", "/app/chats", nil); len(l.Unseen) != 1 || l.Unseen[0] != chat.ID {
		t.Errorf("unseen: %v", l.Unseen)
	}
	ask[any](d, "POST", fmt.Sprintf("/app/chats/%d/seen", chat.ID), nil)
	if l := ask[listed](d, "GET", "/app/chats", nil); len(l.Unseen) != 0 {
		t.Errorf("seen, and still unseen: %v", l.Unseen)
	}
	// The same question in another branch has the same answer at temperature 0.
	again := ask[begun](d, "POST", fmt.Sprintf("/app/messages/%d/regenerate", answer.ID), asked{Model: modelName}).Messages[1]
	if _, second := d.finish(again.ID); second.Content != final.Content || second.Stats.CachedTokens == 0 {
		t.Errorf("asked again: %q with %d tokens reused, want %q", second.Content, second.Stats.CachedTokens, final.Content)
	}
	o := ask[opened](d, "GET", fmt.Sprintf("/app/chats/%d", chat.ID), nil)
	if o.Total != 2 || len(o.Messages[1].Branches) != 2 || o.Messages[1].ID != again.ID || !strings.HasPrefix(o.Chat.Title, "What is the capital") {
		t.Errorf("chat %+v", o)
	}
	// Continuing adds to the answer and keeps its text.
	longer := ask[begun](d, "POST", fmt.Sprintf("/app/messages/%d/continue", again.ID), asked{Model: modelName}).Messages[1]
	if _, rest := d.finish(longer.ID); longer.ID != again.ID || !strings.HasPrefix(rest.Content, final.Content) {
		t.Errorf("continued: %q after %q", rest.Content, final.Content)
	}
	edited := ask[begun](d, "POST", fmt.Sprintf("/app/messages/%d/edit", question.ID), asked{Content: "And of Italy?", Model: modelName})
	d.finish(edited.Messages[1].ID)
	o = ask[opened](d, "GET", fmt.Sprintf("/app/chats/%d", chat.ID), nil)
	if o.Messages[0].Content != "And of Italy?" || len(o.Messages[0].Branches) != 2 {
		t.Errorf("edited: %+v", o.Messages)
	}
	ask[any](d, "POST", fmt.Sprintf("/app/messages/%d/choose", answer.ID), nil)
	o = ask[opened](d, "GET", fmt.Sprintf("/app/chats/%d?around=%d", chat.ID, answer.ID), nil)
	if o.Messages[1].ID != answer.ID {
		t.Errorf("chosen: message %d is shown, want %d", o.Messages[1].ID, answer.ID)
	}
	u := ask[usage](d, "GET", fmt.Sprintf("/app/chats/%d/usage", chat.ID), nil)
	if u.Used != final.Stats.PromptTokens+final.Stats.OutputTokens || u.Context != 1024 || u.BytesUsed <= 0 || u.BytesUsed > u.Bytes || u.Reserved != 24 {
		t.Errorf("usage %+v", u)
	}
	ask[any](d, "DELETE", fmt.Sprintf("/app/messages/%d", answer.ID), nil)
	ask[any](d, "DELETE", fmt.Sprintf("/app/chats/%d", chat.ID), nil)
	if status, _ := d.refused("GET", fmt.Sprintf("/app/chats/%d", chat.ID), nil); status != http.StatusNotFound {
		t.Errorf("a deleted chat: %d", status)
	}
}

func TestStop(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	chat := d.newChat(900)
	_, answer := d.say(chat.ID, 0, "Tell a very long story about a bird.")
	// Only one answer at a time can be generated in a chat.
	if status, _ := d.refused("POST", fmt.Sprintf("/app/chats/%d/messages", chat.ID), asked{Content: "x", Model: modelName}); status != http.StatusConflict {
		t.Errorf("a second question: %d, want 409", status)
	}
	if status, _ := d.refused("DELETE", fmt.Sprintf("/app/messages/%d", answer.ID), nil); status != http.StatusConflict {
		t.Errorf("deleting while answering: %d, want 409", status)
	}
	words := 0
	d.events(fmt.Sprintf("/app/messages/%d/stream", answer.ID), func(name, _ string) bool {
		if name == "text" {
			words++
		}
		return words < 5
	})
	// Two windows see the same.
	o := ask[opened](d, "GET", fmt.Sprintf("/app/chats/%d", chat.ID), nil)
	if m := o.Messages[1]; m.Status != store.Running || m.Content == "" {
		t.Errorf("while it runs: %+v", m)
	}
	ask[any](d, "POST", fmt.Sprintf("/app/messages/%d/stop", answer.ID), nil)
	_, final := d.finish(answer.ID)
	if final.Status != store.Stopped || final.Content == "" || final.Stats.OutputTokens < 5 || final.Error != "" {
		t.Errorf("stopped: %+v", final)
	}
	// Stopping an answer that has already ended is not an error.
	ask[any](d, "POST", fmt.Sprintf("/app/messages/%d/stop", answer.ID), nil)
}

// TestTake checks that only one request at a time can start an answer in a chat.
func TestTake(t *testing.T) {
	var l answers
	writing := &answer{chat: 1, message: 9}
	l.add(writing)
	for i, x := range []struct{ got, want bool }{
		{l.reserve(1), false}, {l.reserve(2), true}, {l.reserve(2), false}, {l.reserve(3), true},
	} {
		if x.got != x.want {
			t.Errorf("request %d: %t, want %t", i, x.got, x.want)
		}
	}
	l.remove(writing, false)
	l.give(2)
	if !l.reserve(1) || !l.reserve(2) || l.reserve(3) {
		t.Error("chats are free when their answers have ended, and no others")
	}
}

// TestRestart closes the program in the middle of an answer. The next run continues a
// chat with the tokens that were kept on disk. Deleting the chat erases them.
func TestRestart(t *testing.T) {
	dir := newFolder(t, true)
	d := open(t, dir, nil)
	chat := d.newChat(48)
	_, answer := d.say(chat.ID, 0, strings.Repeat("The godwit flies over the sea without a rest. ", 20)+"What does it do?")
	_, first := d.finish(answer.ID)
	long := d.newChat(900)
	_, cut := d.say(long.ID, 0, "Tell a very long story about a bird.")
	words := 0
	d.events(fmt.Sprintf("/app/messages/%d/stream", cut.ID), func(name, _ string) bool {
		if name == "text" {
			words++
		}
		return words < 5
	})
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, nil)
	o := ask[opened](d, "GET", fmt.Sprintf("/app/chats/%d", long.ID), nil)
	if m := o.Messages[1]; m.Status != store.Stopped || m.Content == "" {
		t.Errorf("after the restart: %s, %q", m.Status, m.Content)
	}
	_, next := d.say(chat.ID, first.ID, "And then?")
	_, final := d.finish(next.ID)
	if final.Status != store.Done || final.Stats.ResumedFrom < 128 || final.Stats.ResumedFrom > final.Stats.CachedTokens {
		t.Errorf("resumed %d of %d tokens: %+v", final.Stats.ResumedFrom, final.Stats.PromptTokens, final.Stats)
	}
	ask[any](d, "DELETE", fmt.Sprintf("/app/chats/%d", chat.ID), nil)
	if err := d.stop(); err != nil { // waits for the erasure in the background
		t.Fatal(err)
	}
	d = open(t, dir, nil)
	chat = d.newChat(8)
	_, again := d.say(chat.ID, 0, strings.Repeat("The godwit flies over the sea without a rest. ", 20)+"What does it do?")
	if _, m := d.finish(again.ID); m.Stats.CachedTokens > 64 {
		t.Errorf("%d tokens of a deleted chat are left", m.Stats.CachedTokens)
	}
}

func TestBadRequests(t *testing.T) {
	d := open(t, newFolder(t, false), nil)
	chat := ask[store.Chat](d, "POST", "/app/chats", map[string]any{})
	for _, c := range []struct {
		method, path string
		body         any
		status       int
	}{
		{"POST", fmt.Sprintf("/app/chats/%d/messages", chat.ID), asked{Content: "x"}, 400},
		{"POST", fmt.Sprintf("/app/chats/%d/messages", chat.ID), asked{Content: "x", Model: "none"}, 404},
		{"POST", fmt.Sprintf("/app/chats/%d/messages", chat.ID), asked{Content: " \n", Model: "none"}, 400},
		{"POST", "/app/chats/99/messages", asked{Content: "x", Model: "none"}, 404},
		{"GET", "/app/chats/0", nil, 400},
		{"GET", "/app/chats/x", nil, 400},
		{"GET", "/app/chats/99", nil, 404},
		{"GET", fmt.Sprintf("/app/chats/%d/messages?before=-1", chat.ID), nil, 400},
		{"GET", fmt.Sprintf("/app/chats/%d/export?as=pdf", chat.ID), nil, 400},
		{"POST", "/app/chats", "text", 400},
		{"POST", "/app/presets", map[string]any{"name": "x", "settings": map[string]any{"sampling": map[string]any{"temperature": 99}}}, 400},
		{"POST", "/app/presets", map[string]any{"name": "x", "settings": map[string]any{"sampling": map[string]any{"heat": 1}}}, 400},
		{"POST", "/app/presets", map[string]any{"name": ""}, 400},
		{"POST", "/app/import", "neither JSON of ours nor Markdown", 400},
		{"POST", "/app/library/import", map[string]string{"path": ""}, 400},
		{"POST", "/app/library/import", map[string]string{"path": "models/x.gguf"}, 400},
		{"POST", "/app/library/import", map[string]string{"path": filepath.Join(d.dir, "none.gguf")}, 400},
		{"POST", "/app/library/import", map[string]string{"path": d.dir}, 400},
		{"POST", "/app/library/upload?name=..%2Fx.gguf", "x", 400},
		{"POST", "/app/library/upload?name=x.exe", "x", 400},
		{"POST", "/app/library/upload?name=a%00.gguf", "x", 400},
		{"POST", "/app/library/upload?name=" + strings.Repeat("a", 300) + ".gguf", "x", 400},
		{"POST", "/app/library/upload?name=x.gguf", "x", 400},
		{"POST", "/app/library/import", map[string]string{"path": os.Args[0]}, 400},
		{"POST", "/app/import", json.RawMessage(`{"format":"godwit-chats","version":99}`), 400},
		{"POST", "/app/chats", map[string]any{"settings": map[string]any{"sampling": "x"}}, 400},
		{"POST", fmt.Sprintf("/app/chats/%d", chat.ID), map[string]any{"settings": map[string]any{"max_tokens": -1}}, 400},
		{"POST", "/app/chats/99", map[string]any{"title": "x"}, 404},
		{"POST", "/app/settings", strings.Repeat("x", smallBody), 413},
		{"POST", "/app/settings", map[string]any{"changes": map[string]any{"engine.cache_type_k": "none"}}, 400},
		{"POST", "/app/downloads", map[string]string{"ref": "../demo"}, 400},
		{"POST", "/app/library/pick", nil, 501},
		{"POST", "/app/native/open", map[string]string{"url": "https://example.com"}, 501},
		{"POST", "/app/native/save", nil, 501},
		{"POST", "/app/native/folder", nil, 501},
		{"POST", "/app/native/focus", nil, 501},
		{"POST", "/app/models/none/load", nil, 404},
		{"DELETE", "/app/models/none", nil, 404},
		{"GET", "/app/kv/types?model=none", nil, 404},
		{"POST", "/app/kv/plan", map[string]string{"model": "none"}, 404},
		{"GET", "/app/hub/search?q=", nil, 400},
		{"POST", "/app/downloads", map[string]string{"ref": ""}, 400},
		{"POST", "/app/downloads", map[string]string{"ref": "../x"}, 400},
		{"POST", "/app/downloads/pause", map[string]string{"ref": "o/r"}, 404},
		{"POST", "/app/settings", map[string]any{"changes": map[string]any{"engine.ctx_size": -1}}, 400},
		{"POST", "/app/settings", map[string]any{"changes": map[string]any{"engine.none": 1}}, 400},
		{"GET", "/app/messages/99/stream", nil, 404},
	} {
		status, text := d.refused(c.method, c.path, c.body)
		if status != c.status || !strings.Contains(text, `"message":"`) || strings.Contains(text, "chats: ") {
			t.Errorf("%s %s: %d %s, want %d with words", c.method, c.path, status, text, c.status)
		}
	}
}
