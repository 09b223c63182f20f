package page

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/app/pool"
	"godwit/app/store"
)

// TestRough sends every endpoint requests that no page sends. None may cause a
// server error.
func TestRough(t *testing.T) {
	d := open(t, newFolder(t, false), nil)
	ids := []string{"1", "0", "-1", "1e3", "x", "%00", "%2e%2e", "1%2f2", "9223372036854775807", "99999999999999999999"}
	bodies := []string{
		"", "{", "null", "[]", `""`, "7", "\xff", strings.Repeat("[", 20_000), `{"content":1}`, `{"content":"x","parent":-5,"model":"none"}`,
		`{"content":"\ud800","attachments":[{}]}`, `{"title":[]}`, `{"settings":5}`, `{"settings":{"sampling":{"temperature":1e300}}}`,
		`{"folder":-1}`, `{"name":"n","id":-3}`, `{"path":"/"}`, `{"path":"/dev/zero"}`, `{"path":"/x\u0000y"}`, `{"ref":"x\u0000demo"}`,
		`{"changes":{"":1}}`, `{"changes":{"engine.ctx_size":{"a":1}}}`, `{"changes":{"app.theme":"pink"}}`, `{"model":"none","changes":{"engine.parallel":-1}}`,
	}
	queries := []string{"", "?before=-1", "?limit=9223372036854775807&before=9223372036854775807", "?around=999", "?q=%22AND(", "?q=%00", "?as=x", "?name=..", "?model=%00", "?%zz"}
	for pattern := range d.endpoints() {
		method, path, _ := strings.Cut(pattern, " ")
		if path == "/app/events" {
			continue // the stream does not end
		}
		for _, id := range ids {
			at := strings.NewReplacer("{id}", id, "{name}", id).Replace(path)
			tails := queries
			if method == "POST" {
				tails = bodies
			}
			for _, tail := range tails {
				r := httptest.NewRequest(method, "/", nil)
				if method == "POST" {
					r = httptest.NewRequest(method, at, strings.NewReader(tail))
				} else if u, err := r.URL.Parse(at + tail); err == nil {
					r.URL = u
				}
				r.Header.Set("Authorization", "Bearer "+d.token)
				w := httptest.NewRecorder()
				d.ServeHTTP(w, r)
				if w.Code == http.StatusInternalServerError || w.Code >= 400 && !strings.Contains(w.Body.String(), `"message":"`) {
					t.Errorf("%s %s %.60q: %d %s", method, at, tail, w.Code, w.Body)
				}
			}
			if at == path {
				break
			}
		}
	}
}

// TestBrokenOff sends fewer bytes than announced.
func TestBrokenOff(t *testing.T) {
	d := open(t, newFolder(t, false), nil)
	for _, path := range []string{"/app/chats", "/app/import", "/app/library/upload?name=x.gguf"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", path, d.token)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			t.Errorf("%s: %v, %.100q", path, err, answer)
		}
		conn.Close()
	}
	left, err := os.ReadDir(filepath.Join(d.dir, "models", "imported"))
	if err != nil || len(left) > 0 {
		t.Errorf("an upload that broke off leaves %v, %v", left, err)
	}
}

// TestDeleteWhileAsked deletes chats while answers are requested.
func TestDeleteWhileAsked(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	for range 20 {
		chat := d.newChat(900)
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				d.do("POST", fmt.Sprintf("/app/chats/%d/messages", chat.ID), asked{Content: "Hello", Model: modelName})
			})
		}
		wait.Go(func() {
			if status, text := d.do("DELETE", fmt.Sprintf("/app/chats/%d", chat.ID), nil); status != http.StatusNoContent {
				t.Errorf("delete: %d %s", status, text)
			}
		})
		wait.Wait()
		if status, _ := d.do("GET", fmt.Sprintf("/app/chats/%d", chat.ID), nil); status != http.StatusNotFound {
			t.Errorf("the chat is there: %d", status)
		}
	}
	d.answers.mu.Lock()
	defer d.answers.mu.Unlock()
	if len(d.answers.list) > 0 || len(d.answers.taken) > 0 || len(d.notices.all()) > 0 {
		t.Errorf("%d answers continue in deleted chats, %d are taken; notices %v", len(d.answers.list), len(d.answers.taken), d.notices.all())
	}
}

// TestUnanswerable sends a message in a chat with invalid settings. The question is
// kept together with the error.
func TestUnanswerable(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	chat := d.newChat(8)
	unknown := json.RawMessage(`{"sampling":{"heat":1}}`)
	if _, err := d.o.Store.ChangeChat(t.Context(), chat.ID, store.ChatChange{Settings: &unknown}); err != nil {
		t.Fatal(err)
	}
	question, answer := d.say(chat.ID, 0, "Hello")
	if question.Content != "Hello" || answer.Status != store.Failed || !strings.Contains(answer.Error, "does not exist") {
		t.Errorf("question %+v, answer %+v", question, answer)
	}
	ask[store.Chat](d, "POST", fmt.Sprintf("/app/chats/%d", chat.ID), map[string]any{"settings": map[string]any{"max_tokens": 8}})
	again := ask[begun](d, "POST", fmt.Sprintf("/app/messages/%d/regenerate", answer.ID), asked{Model: modelName}).Messages[1]
	if _, final := d.finish(again.ID); final.Status != store.Done {
		t.Errorf("put right: %+v", final)
	}
	// An import leaves such settings out and reports that once.
	var file strings.Builder
	other := d.newChat(8)
	for _, id := range []int64{chat.ID, other.ID} {
		if _, err := d.o.Store.ChangeChat(t.Context(), id, store.ChatChange{Settings: &unknown}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.o.Store.ExportJSON(t.Context(), &file, chat.ID, other.ID); err != nil {
		t.Fatal(err)
	}
	made := ask[struct{ Chats []store.Chat }](d, "POST", "/app/import", json.RawMessage(file.String())).Chats
	if len(made) != 2 || string(made[0].Settings) != "{}" || string(made[1].Settings) != "{}" {
		t.Errorf("imported %+v", made)
	}
	if said := d.notices.all(); len(said) != 1 || !strings.Contains(said[0].Text, "left out: 1.") {
		t.Errorf("notices %v", said)
	}
}

// TestGone sends requests from a window that disconnects, and for a model whose
// file was deleted.
func TestGone(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	chat := d.newChat(8)
	path := fmt.Sprintf("/app/chats/%d/messages", chat.ID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(`{"content":"Hello","model":"`+modelName+`"}`))
	r.Header.Set("Authorization", "Bearer "+d.token)
	d.ServeHTTP(httptest.NewRecorder(), r)
	o := ask[opened](d, "GET", fmt.Sprintf("/app/chats/%d", chat.ID), nil)
	if len(o.Messages) != 2 {
		t.Fatalf("%d messages, want the question and its answer", len(o.Messages))
	}
	if _, final := d.finish(o.Messages[1].ID); final.Status != store.Done {
		t.Errorf("the answer: %+v", final)
	}
	ask[any](d, "POST", "/app/models/"+modelName+"/unload", nil)
	if err := os.Remove(filepath.Join(d.dir, "models", modelName+".gguf")); err != nil {
		t.Fatal(err)
	}
	if status, text := d.refused("POST", path, asked{Content: "Hello", Model: modelName}); status != http.StatusNotFound {
		t.Errorf("a model that has gone: %d %s", status, text)
	}
	if list := d.list(); len(list) != 0 {
		t.Errorf("it is still listed: %+v", list)
	}
}

// TestUnloadTogether unloads a model from several windows. A chat then continues with the
// tokens that were kept.
func TestUnloadTogether(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	chat := d.newChat(8)
	_, answer := d.say(chat.ID, 0, strings.Repeat("The godwit flies over the sea. ", 12))
	d.finish(answer.ID)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { d.do("POST", "/app/models/"+modelName+"/unload", nil) })
	}
	wait.Wait()
	ask[any](d, "POST", "/app/models/"+modelName+"/unload", nil)
	_, next := d.say(chat.ID, answer.ID, "And then?")
	if _, m := d.finish(next.ID); m.Stats.CachedTokens < 64 {
		t.Errorf("%d tokens are left after the unload", m.Stats.CachedTokens)
	}
}

// TestLate stops a load that has ended, and uploads a file that is already being
// uploaded.
func TestLate(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	if err := d.refresh(); err != nil {
		t.Fatal(err)
	}
	ask[any](d, "POST", "/app/models/"+modelName+"/cancel", nil)
	// The early cancel request does not stop the next load.
	m, _ := d.lookUp(modelName)
	lease, err := d.models.Acquire(t.Context(), m, pool.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	lease.Release()
	ask[any](d, "POST", "/app/models/"+modelName+"/cancel", nil)
	for d.models.Standing(m.Path).State != pool.Unloaded {
		time.Sleep(time.Millisecond)
	}
	if !d.library.copy("x.gguf") {
		t.Fatal("nothing is being copied")
	}
	if status, _ := d.refused("POST", "/app/library/upload?name=x.gguf", "x"); status != http.StatusConflict {
		t.Errorf("a second copy: %d, want 409", status)
	}
	d.library.copied("x.gguf")
	if status, _ := d.refused("POST", "/app/library/upload?name=x.gguf", "x"); status != http.StatusBadRequest {
		t.Errorf("a file that is not a model: %d, want 400", status)
	}
}

// TestTooLate requests an answer while the page is closing. Waiting clients get an
// error.
func TestTooLate(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	chat := d.newChat(8)
	d.closing.Lock() // prevents starting goroutines
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		d.do("POST", fmt.Sprintf("/app/chats/%d/messages", chat.ID), asked{Content: "a", Model: modelName})
	}()
	var a *answer
	for a == nil {
		time.Sleep(time.Millisecond)
		d.answers.mu.Lock()
		for _, x := range d.answers.list {
			a = x
		}
		d.answers.mu.Unlock()
	}
	d.Page.stop()
	d.closing.Unlock()
	<-a.done
	<-sent
	if a.final.Status != store.Failed || a.final.Error != errClosing.Error() {
		t.Errorf("ended as %s %q", a.final.Status, a.final.Error)
	}
	if m, err := d.o.Store.Message(t.Context(), a.message); err != nil || m.Status != store.Failed {
		t.Errorf("stored as %s, %v", m.Status, err)
	}
}
