package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// clock is a time that tests advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.UnixMilli(1_700_000_000_000)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// testStore opens a store in a folder whose name must be escaped in URLs.
func testStore(t *testing.T, o Options) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a b%41?#ü", "chats.db")
	return reopen(t, path, o), path
}

func reopen(t *testing.T, path string, o Options) *Store {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestChats(t *testing.T) {
	ctx, time := context.Background(), newClock()
	s, path := testStore(t, Options{Now: time.Now})
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the database is not where it was asked for: %v", err)
	}
	folder := must[Folder](t)(s.SaveFolder(ctx, Folder{Name: " Work\n"}))
	if folder.Name != "Work" || folder.Position != 1 {
		t.Errorf("folder %+v", folder)
	}
	var ids []int64
	for i := range 4 {
		time.add(1e9)
		c := must[Chat](t)(s.CreateChat(ctx, Chat{Title: fmt.Sprint("chat ", i), Model: "demo", Settings: json.RawMessage(`{"temperature":0}`)}))
		ids = append(ids, c.ID)
	}
	yes := true
	must[Chat](t)(s.ChangeChat(ctx, ids[1], ChatChange{Pinned: &yes, Folder: &folder.ID}))
	order := func(l List) string {
		var got []string
		for _, c := range must[[]Chat](t)(s.Chats(ctx, l)) {
			got = append(got, strings.TrimPrefix(c.Title, "chat "))
		}
		return strings.Join(got, " ")
	}
	none := int64(0)
	for _, c := range []struct {
		list List
		want string
	}{
		{List{}, "1 3 2 0"},
		{List{Skip: 1, Limit: 2}, "3 2"},
		{List{Folder: &folder.ID}, "1"},
		{List{Folder: &none}, "3 2 0"},
	} {
		if got := order(c.list); got != c.want {
			t.Errorf("%+v lists %s, want %s", c.list, got, c.want)
		}
	}
	if err := s.DeleteFolder(ctx, folder.ID); err != nil {
		t.Fatal(err)
	}
	if c := must[Chat](t)(s.Chat(ctx, ids[1])); c.Folder != 0 || !c.Pinned || string(c.Settings) != `{"temperature":0}` {
		t.Errorf("after its folder was deleted: %+v", c)
	}
	if err := s.DeleteChat(ctx, ids[1]); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"deleted chat":   s.DeleteChat(ctx, ids[1]),
		"no such folder": second(s.ChangeChat(ctx, ids[0], ChatChange{Folder: &folder.ID})),
		"no such chat":   second(s.Append(ctx, Message{Chat: 99, Role: User})),
		"message":        second(s.Message(ctx, 99)),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestTitles(t *testing.T) {
	ctx := context.Background()
	s, _ := testStore(t, Options{})
	c := must[Chat](t)(s.CreateChat(ctx, Chat{}))
	must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Role: System, Content: "be brief"}))
	must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Role: User, Content: "\n```\n# Why is the sky blue?\nreally"}))
	title := func() string { return must[Chat](t)(s.Chat(ctx, c.ID)).Title }
	if got := title(); got != "Why is the sky blue?" {
		t.Errorf("title %q", got)
	}
	mine, empty := "Mine\x00\n", ""
	must[Chat](t)(s.ChangeChat(ctx, c.ID, ChatChange{Title: &mine}))
	must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Role: User, Content: "more"}))
	if got := title(); got != "Mine" {
		t.Errorf("title %q after it was set", got)
	}
	if got := must[Chat](t)(s.ChangeChat(ctx, c.ID, ChatChange{Title: &empty})).Title; got != "Why is the sky blue?" {
		t.Errorf("title %q after it was taken back", got)
	}
	for text, want := range map[string]string{
		"":                              "",
		"---\n***":                      "",
		"- one  two":                    "one two",
		strings.Repeat("x", 70):         strings.Repeat("x", 60) + "…",
		strings.Repeat("ab, ", 20):      strings.TrimSuffix(strings.Repeat("ab, ", 15), ", ") + "…",
		"日本語の質問です":                      "日本語の質問です",
		"bad \xff byte \u202e and tabs": "bad \uFFFD byte \u202e and tabs",
	} {
		if got := AutoTitle(text); got != want {
			t.Errorf("AutoTitle(%q) = %q, want %q", text, got, want)
		}
	}
}

// shape describes the active path of a chat by its contents, with position/branches
// where there are several branches.
func shape(t *testing.T, s *Store, chat int64, p Page) string {
	t.Helper()
	messages, total, err := s.Path(context.Background(), chat, p)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range messages {
		text := m.Content
		if n := len(m.Branches); n > 1 {
			text += fmt.Sprintf(":%d/%d", slices.Index(m.Branches, m.ID)+1, n)
		}
		out = append(out, text)
	}
	return fmt.Sprintf("%s (%d)", strings.Join(out, " "), total)
}

func TestBranches(t *testing.T) {
	ctx := context.Background()
	s, path := testStore(t, Options{})
	c := must[Chat](t)(s.CreateChat(ctx, Chat{}))
	add := func(parent int64, role Role, text string) int64 {
		return must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Parent: parent, Role: role, Content: text})).ID
	}
	want := func(shown string) {
		t.Helper()
		if got := shape(t, s, c.ID, Page{}); got != shown {
			t.Errorf("shown is %s, want %s", got, shown)
		}
	}
	q1 := add(0, User, "q1")
	a1 := add(q1, Assistant, "a1")
	q2 := add(a1, User, "q2")
	a2 := add(q2, Assistant, "a2")
	want("q1 a1 q2 a2 (4)")
	a2b := add(q2, Assistant, "a2b")
	want("q1 a1 q2 a2b:2/2 (4)")
	edited := must[Message](t)(s.Edit(ctx, q2, "q2x", []Attachment{{"f.go", "text/x-go", "package f"}}))
	want("q1 a1 q2x:2/2 (3)")
	if m := must[Message](t)(s.Message(ctx, edited.ID)); len(m.Attachments) != 1 || m.Attachments[0].Text != "package f" || m.Role != User {
		t.Errorf("edited message %+v", m)
	}
	for _, step := range []struct {
		choose int64
		want   string
	}{
		{q2, "q1 a1 q2:1/2 a2b:2/2 (4)"}, // the choice further down is remembered
		{a2, "q1 a1 q2:1/2 a2:1/2 (4)"},
		{edited.ID, "q1 a1 q2x:2/2 (3)"},
		{a2b, "q1 a1 q2:1/2 a2b:2/2 (4)"},
	} {
		if err := s.Choose(ctx, step.choose); err != nil {
			t.Fatal(err)
		}
		want(step.want)
	}
	must[Message](t)(s.Edit(ctx, q1, "other start", nil))
	want("other start:2/2 (1)")
	if err := s.Choose(ctx, q1); err != nil {
		t.Fatal(err)
	}
	if got := shape(t, s, c.ID, Page{Limit: 2}); got != "q2:1/2 a2b:2/2 (4)" {
		t.Errorf("last page %s", got)
	}
	if got := shape(t, s, c.ID, Page{Before: 2, Limit: 5}); got != "q1:1/2 a1 (4)" {
		t.Errorf("first page %s", got)
	}
	if err := s.DeleteMessage(ctx, a2b); err != nil {
		t.Fatal(err)
	}
	want("q1:1/2 a1 q2:1/2 a2 (4)")
	if err := s.DeleteMessage(ctx, q2); err != nil {
		t.Fatal(err)
	}
	want("q1:1/2 a1 q2x (3)")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path, Options{})
	want("q1:1/2 a1 q2x (3)")
	other := must[Chat](t)(s.CreateChat(ctx, Chat{}))
	if _, err := s.Append(ctx, Message{Chat: other.ID, Parent: q1, Role: User}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a parent in another chat: %v", err)
	}
}

// TestLongChat reads the end of a chat of 5,000 messages, logs the time, and checks
// that deleting the chat does not recurse.
func TestLongChat(t *testing.T) {
	ctx := context.Background()
	n := 5000
	if testing.Short() {
		n = 1500 // still more than the nesting limit of SQLite's triggers
	}
	s, _ := testStore(t, Options{})
	c := longChat(t, s, n)
	start := time.Now()
	messages, total, err := s.Path(ctx, c.ID, Page{Limit: 100})
	if err != nil || total != n || len(messages) != 100 || messages[99].Content != fmt.Sprint("message ", n-1) || messages[0].Depth != n-100 {
		t.Fatalf("%d of %d messages, %v", len(messages), total, err)
	}
	t.Logf("last page of %d messages: %v", n, time.Since(start))
	start = time.Now()
	if err := s.DeleteChat(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	t.Logf("deleted in %v", time.Since(start))
	var left int
	if err := s.db.QueryRow("SELECT (SELECT count(*) FROM message) + (SELECT count(*) FROM message_search)").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows left, %v", left, err)
	}
}

// longChat imports a chat with n messages in one branch.
func longChat(t *testing.T, s *Store, n int) Chat {
	t.Helper()
	e := exportedChat{Chat: Chat{Title: "long"}}
	for i := range n {
		e.add(Message{Role: []Role{User, Assistant}[i%2], Content: fmt.Sprint("message ", i)})
	}
	data, err := json.Marshal(map[string]any{"format": format, "version": 1, "chats": []exportedChat{e}})
	if err != nil {
		t.Fatal(err)
	}
	return must[[]Chat](t)(s.Import(context.Background(), strings.NewReader(string(data)), nil))[0]
}

func TestDraft(t *testing.T) {
	ctx, clock := context.Background(), newClock()
	s, path := testStore(t, Options{Now: clock.Now})
	c := must[Chat](t)(s.CreateChat(ctx, Chat{}))
	q := must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Role: User, Content: "q"}))
	d := must[*Draft](t)(s.Begin(ctx, Message{Chat: c.ID, Parent: q.ID, Role: Assistant}))
	text, calls := "", 0
	for i := range 100 {
		text += fmt.Sprint("word", i, " ")
		clock.add(50 * time.Millisecond)
		if err := d.Save(ctx, func() (string, string) { calls++; return text, "because" }); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 5 {
		t.Errorf("saved %d times in 5 s, want 5", calls)
	}
	id := d.Message().ID
	if m := must[Message](t)(s.Message(ctx, id)); m.Status != Running || m.Content != text || m.Reasoning != "because" {
		t.Errorf("while writing: %+v", m)
	}
	if hits := must[[]Hit](t)(s.Search(ctx, "word99", 0)); len(hits) != 0 {
		t.Errorf("a running answer is found: %+v", hits)
	}
	// Another process reads the answer. At first, the status is running.
	other := reopen(t, path, Options{Now: clock.Now})
	if m := must[Message](t)(other.Message(ctx, id)); m.Status != Running {
		t.Errorf("in another process: %s", m.Status)
	}
	clock.add(silence + time.Second)
	if m := must[Message](t)(other.Message(ctx, id)); m.Status != Stopped || m.Content != text {
		t.Errorf("in another process after a silence: %+v", m)
	}
	// The program ends. After a restart, the partial answer is stopped, and search
	// finds it.
	again := reopen(t, path, Options{Now: clock.Now})
	if hits := must[[]Hit](t)(again.Search(ctx, "WORD99", 0)); len(hits) != 1 || hits[0].Message != id {
		t.Errorf("the partial answer is not found: %+v", hits)
	}
	d = must[*Draft](t)(again.Resume(ctx, id))
	m := d.Message()
	m.Content += "and the end"
	m.Stats = Stats{OutputTokens: 7, Finish: "stop"}
	m = must[Message](t)(d.Finish(ctx, m))
	if got := must[Message](t)(again.Message(ctx, id)); got.Status != Done || got.Content != text+"and the end" || got.Stats.OutputTokens != 7 || m.Status != Done {
		t.Errorf("finished: %+v", got)
	}
	for query, want := range map[string]int{"word99": 1, "and the end": 1, "word100": 0} {
		if hits := must[[]Hit](t)(again.Search(ctx, query, 0)); len(hits) != want {
			t.Errorf("%q: %d hits, want %d", query, len(hits), want)
		}
	}
	// an answer that cannot be stored no longer counts as running
	d = must[*Draft](t)(again.Begin(ctx, Message{Chat: c.ID, Parent: q.ID, Role: Assistant}))
	if err := again.DeleteMessage(ctx, d.Message().ID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Finish(ctx, d.Message()); !errors.Is(err, ErrNotFound) || len(again.drafts.ids) > 0 {
		t.Errorf("a deleted answer: %v, %d are being written", err, len(again.drafts.ids))
	}
	if _, err := again.Resume(ctx, q.ID); !errors.Is(err, ErrInput) {
		t.Errorf("resume of a question: %v", err)
	}
}

func TestPresets(t *testing.T) {
	ctx := context.Background()
	s, _ := testStore(t, Options{})
	p := must[Preset](t)(s.SavePreset(ctx, Preset{Name: "Code", System: "Be exact.", Settings: json.RawMessage(`{"temperature":0.1}`)}))
	p.Name = "Coder"
	must[Preset](t)(s.SavePreset(ctx, p))
	must[Preset](t)(s.SavePreset(ctx, Preset{Name: "brainstorm"}))
	got := must[[]Preset](t)(s.Presets(ctx))
	if len(got) != 2 || got[0].Name != "brainstorm" || got[1].Name != "Coder" || string(got[1].Settings) != `{"temperature":0.1}` || string(got[0].Settings) != "{}" {
		t.Errorf("presets %+v", got)
	}
	for _, bad := range []Preset{{}, {Name: "Coder"}, {Name: "x", Settings: json.RawMessage(`[1]`)}, {Name: "x", System: strings.Repeat("x", maxText+1)}} {
		if _, err := s.SavePreset(ctx, bad); !errors.Is(err, ErrInput) {
			t.Errorf("%.40q: %v, want ErrInput", bad.Name, err)
		}
	}
	put := []Preset{{Name: "Coder", System: "Be brief.", Model: "owl"}, {Name: "x", Settings: json.RawMessage(`[1]`)}}
	if err := s.PutPresets(ctx, put); !errors.Is(err, ErrInput) {
		t.Errorf("a preset without an object: %v, want ErrInput", err)
	}
	if got := must[[]Preset](t)(s.Presets(ctx)); len(got) != 2 || got[1].System != "Be exact." || got[1].ID != p.ID {
		t.Errorf("presets after a refusal: %+v", got)
	}
	if err := s.PutPresets(ctx, put[:1]); err != nil {
		t.Fatal(err)
	}
	if got := must[[]Preset](t)(s.Presets(ctx)); len(got) != 2 || got[1].System != "Be brief." || got[1].Model != "owl" {
		t.Errorf("presets after another of the name: %+v", got)
	} else {
		p.ID = got[1].ID
	}
	if err := s.DeletePreset(ctx, p.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.DeletePreset(ctx, p.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
}

// TestBadMessages checks that invalid messages are rejected completely and that
// unusual text is preserved.
func TestBadMessages(t *testing.T) {
	ctx := context.Background()
	s, _ := testStore(t, Options{})
	c := must[Chat](t)(s.CreateChat(ctx, Chat{}))
	for name, m := range map[string]Message{
		"role":        {Role: "robot"},
		"no role":     {},
		"status":      {Role: User, Status: "maybe"},
		"tool calls":  {Role: Assistant, ToolCalls: json.RawMessage(`{"a":1}`)},
		"long":        {Role: User, Content: strings.Repeat("x", maxText+1)},
		"attachments": {Role: User, Attachments: []Attachment{{Text: strings.Repeat("x", maxText)}, {Text: "y"}}},
	} {
		m.Chat = c.ID
		if _, err := s.Append(ctx, m); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v, want ErrInput", name, err)
		}
	}
	if got := shape(t, s, c.ID, Page{}); got != " (0)" {
		t.Errorf("stored after all: %s", got)
	}
	m := must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Role: User, Content: "a\x00b\xffc'; DROP TABLE message; --"}))
	if got := must[Message](t)(s.Message(ctx, m.ID)).Content; got != "a\uFFFDb\uFFFDc'; DROP TABLE message; --" {
		t.Errorf("came back as %q", got)
	}
}
