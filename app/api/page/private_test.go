package page

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit/app/store"
	"godwit/engine"
)

// newPrivate makes a private chat with answers of at most 12 tokens.
func (d *desk) newPrivate(system string) store.Chat {
	d.t.Helper()
	return ask[store.Chat](d, "POST", "/app/chats", map[string]any{
		"private": true, "model": modelName, "system": system,
		"settings": map[string]any{"sampling": map[string]float64{"temperature": 0}, "max_tokens": 12},
	})
}

// TestPrivateChat has private chats and an ordinary chat in one folder. Files contain the
// code word of the ordinary chat. No file contains the code word of the private chats, and
// no slot or prefix cache contains their tokens.
func TestPrivateChat(t *testing.T) {
	const hidden, shown = "Quixotrezabel", "Mandrelvostok"
	folder := newFolder(t, true)
	d := open(t, folder, nil)
	text := func(word string) string {
		return fmt.Sprintf("The code word is %s. %s What is the code word?", word, strings.Repeat("Two birds sit on a wall. ", 40))
	}
	m, err := d.modelFor(modelName)
	if err != nil {
		t.Fatal(err)
	}
	chat := d.newPrivate("You guard the word " + hidden + ".")
	var last int64
	for range 2 {
		_, answer := d.say(chat.ID, last, text(hidden))
		_, final := d.finish(answer.ID)
		if last = final.ID; final.Status != store.Done || final.Stats.CachedTokens != 0 || final.Stats.PromptTokens < 200 {
			t.Errorf("an answer %+v with %+v", final.Status, final.Stats)
		}
		if slots := slotTokens(t, d); slices.Max(slots) > 0 {
			t.Errorf("slots hold %v tokens after an answer", slots)
		}
	}
	if settled, err := d.title(m, d.newPrivate("").ID); !settled || err != nil {
		t.Errorf("an empty chat: %v, %v", settled, err)
	}
	named := d.newPrivate("")
	_, answer := d.say(named.ID, 0, text(hidden))
	d.finish(answer.ID)
	// A slot may still be busy for a moment after the end of its answer.
	settled, err := d.title(m, named.ID)
	for end := time.Now().Add(time.Minute); !settled && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		settled, err = d.title(m, named.ID)
	}
	if !settled || err != nil {
		t.Errorf("a title: %v, %v", settled, err)
	}
	if slots := slotTokens(t, d); slices.Max(slots) > 0 {
		t.Errorf("slots hold %v tokens after a title", slots)
	}
	if n := stored(t, folder); n != 0 {
		t.Errorf("%d pages are stored of private chats", n)
	}
	hits := ask[[]store.Hit](d, "GET", "/app/search?q="+hidden, nil)
	if len(hits) == 0 || hits[0].Chat != chat.ID && hits[0].Chat != named.ID {
		t.Errorf("a search finds %v", hits)
	}
	if status, all := d.do("GET", "/app/export", nil); status == http.StatusOK || bytes.Contains(all, []byte(hidden)) {
		t.Errorf("the export of all chats is %d %s", status, all)
	}

	other := d.newChat(12)
	_, answer = d.say(other.ID, 0, text(shown))
	d.finish(answer.ID)
	list := ask[struct{ Chats []store.Chat }](d, "GET", "/app/chats", nil).Chats
	if got := slices.IndexFunc(list, func(c store.Chat) bool { return c.ID == other.ID }); got != 0 || len(list) != 4 || !list[1].Private || list[0].Private {
		t.Errorf("the list is %+v", list)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, folder); n == 0 {
		t.Error("nothing is stored of the other chat either")
	}
	if found := containing(t, folder, hidden); len(found) > 0 {
		t.Errorf("the private word is in %v", found)
	}
	if found := containing(t, folder, shown); len(found) == 0 {
		t.Error("the other word is in no file")
	}
	d = open(t, folder, nil)
	if status, _ := d.refused("GET", fmt.Sprintf("/app/chats/%d", chat.ID), nil); status != http.StatusNotFound {
		t.Errorf("after a restart, a private chat is %d", status)
	}
}

// stored returns the number of pages in a folder's prefix store.
func stored(t *testing.T, folder string) (n int) {
	t.Helper()
	list, _, err := engine.PrefixFolder(filepath.Join(folder, "prefixes")).List()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		n += list[i].Pages
	}
	return n
}

// containing returns the files below a folder that contain a word, except the model.
func containing(t *testing.T, folder, word string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(word)) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestPrivateChatEnds checks that a private chat is deleted with the last window, or at
// once on request. An open window keeps the chat.
func TestPrivateChatEnds(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	d.private.wait = 50 * time.Millisecond
	window := func() (shut func()) {
		ctx, cancel := context.WithCancel(t.Context())
		opened, closed := make(chan struct{}), make(chan struct{})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/app/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+d.token)
		go func() {
			defer close(closed)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
			} else {
				defer resp.Body.Close()
			}
			close(opened)
			<-ctx.Done()
		}()
		<-opened
		return func() { cancel(); <-closed }
	}
	status := func(c store.Chat) int {
		code, _ := d.do("GET", fmt.Sprintf("/app/chats/%d", c.ID), nil)
		return code
	}
	gone := func(c store.Chat) {
		t.Helper()
		for end := time.Now().Add(time.Minute); status(c) != http.StatusNotFound; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the chat is still there")
			}
		}
	}
	gone(d.newPrivate("")) // no window has opened

	first, second := window(), window()
	chat := d.newPrivate("")
	_, answer := d.say(chat.ID, 0, "Tell me a story.")
	first()
	time.Sleep(4 * d.private.wait)
	if got := status(chat); got != http.StatusOK {
		t.Errorf("with an open window, a private chat is %d", got)
	}
	ask[any](d, "DELETE", fmt.Sprintf("/app/chats/%d", chat.ID), nil)
	if got := status(chat); got != http.StatusNotFound || d.answers.of(answer.ID) != nil {
		t.Errorf("a deleted private chat is %d", got)
	}
	running, usual := d.newPrivate(""), d.newChat(4)
	d.say(running.ID, 0, "Tell me a story.")
	second()
	gone(running)
	if got := status(usual); got != http.StatusOK {
		t.Errorf("a chat that is not private is %d", got)
	}
	if d.answers.any() {
		t.Error("an answer of a private chat continues")
	}
}
