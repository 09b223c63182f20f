package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit/app/store"
	"godwit/engine"
)

// slotTokens returns the number of tokens in every slot of the model.
func slotTokens(t *testing.T, d *desk) []int {
	t.Helper()
	m, err := d.modelFor(modelName)
	if err != nil {
		t.Fatal(err)
	}
	lease := d.models.Borrow(m.Path, nil)
	if lease == nil {
		t.Fatal("the model is not loaded, or in use")
	}
	defer lease.Release()
	slots, err := lease.Engine.Slots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, s := range slots {
		list = append(list, s.Tokens)
	}
	return list
}

// chatTitle returns the title of a chat.
func chatTitle(t *testing.T, d *desk, chat int64) string {
	t.Helper()
	c, err := d.o.Store.Chat(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	return c.Title
}

// TestTitle lets the model name chats. No chat may lose cached tokens.
func TestTitle(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	m, err := d.modelFor(modelName)
	if err != nil {
		t.Fatal(err)
	}
	var chats []store.Chat
	for full := false; !full; {
		question := fmt.Sprintf("%d birds sit on a wall and %d fly away. How many are left?", 90+7*len(chats), 11+len(chats))
		chat := d.newChat(12)
		_, answer := d.say(chat.ID, 0, question)
		d.finish(answer.ID)
		if chats = append(chats, chat); len(chats) > 8 {
			t.Fatal("eight chats leave two of four slots empty")
		}
		before := slotTokens(t, d)
		settled, err := d.title(m, chat.ID)
		if after := slotTokens(t, d); err != nil || !slices.Equal(after, before) {
			t.Errorf("slots of %v tokens hold %v after a title, %v", before, after, err)
		}
		// The last empty slot is kept for the next chat.
		full = len(slices.DeleteFunc(before, func(n int) bool { return n > 0 })) < 2
		got := chatTitle(t, d, chat.ID)
		if named := got != store.AutoTitle(question); settled == full || named == full {
			t.Errorf("chat %d is %q, settled %v; room for a title: %v", len(chats), got, settled, !full)
		}
		if words := len(strings.Fields(got)); !full && (words < 1 || words > 7) {
			t.Errorf("title %q", got)
		}
	}
	ask[any](d, "POST", fmt.Sprintf("/app/chats/%d", chats[0].ID), map[string]any{"title": "Mine"})
	if named, err := d.o.Store.Suggest(t.Context(), chats[0].ID, "Another"); named || err != nil {
		t.Errorf("a chat that a person has named: %v, %v", named, err)
	}
	if got := chatTitle(t, d, chats[0].ID); got != "Mine" {
		t.Errorf("title %q", got)
	}
}

// TestTitleByItself checks that a chat is named after its first answer, and that a new
// answer stops a title.
func TestTitleByItself(t *testing.T) {
	d := open(t, newFolder(t, true), nil)
	d.titles.wait = 10 * time.Millisecond
	chat := d.newChat(12)
	_, answer := d.say(chat.ID, 0, "What is the capital of France?")
	d.finish(answer.ID)
	first := store.AutoTitle("What is the capital of France?")
	for end := time.Now().Add(2 * time.Minute); chatTitle(t, d, chat.ID) == first; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the chat was not named")
		}
	}
	ctx, ended := d.titles.begin(t.Context())
	if again, _ := d.titles.begin(t.Context()); again != nil {
		t.Error("two titles at once")
	}
	gone := make(chan struct{})
	go func() {
		<-ctx.Done()
		ended()
		close(gone)
	}()
	d.titles.yield()
	<-gone
}

// TestTidy makes titles from the text of models.
func TestTidy(t *testing.T) {
	for _, c := range []struct {
		text string
		cut  bool
		want string
	}{
		{" Capital of France ", false, "Capital of France"},
		{"Title “Capital of France”", false, "Capital of France"},
		{"Capital of Fra", true, "Capital of"},
		{"- - -", false, ""},
		{"42", false, ""},
		{"", true, ""},
	} {
		if got := tidy(c.text, c.cut); got != c.want {
			t.Errorf("%q, cut %v: %q, want %q", c.text, c.cut, got, c.want)
		}
	}
	if _, err := engine.ParseGrammar(titleShape); err != nil {
		t.Error(err)
	}
}
