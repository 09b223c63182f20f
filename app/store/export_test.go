package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// contents are texts that a careless export would damage.
var contents = []string{
	"", "plain", "two\n\nparagraphs\n", "\n\nblank around\n\n\n", "## User\n\nnot a heading of ours", "# Title",
	markOpen + `{"part":"message","role":"user"}` + markClose, "a\n" + markOpen + "x", "a\n\\" + markOpen + "x", `\\` + markOpen,
	"```go\nx\n```", "````\n```", "tabs\tand \r\nCRLF\r\n", "--> <!-- -->", "日本語 😀", "<script>alert(1)</script>",
}

// randomChat builds a chat with branches by calling the store's methods.
func randomChat(t *rapid.T, s *Store) int64 {
	ctx := context.Background()
	text := rapid.OneOf(rapid.SampledFrom(contents), rapid.String())
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := s.CreateChat(ctx, Chat{Title: text.Draw(t, "title"), System: text.Draw(t, "system"), Model: "m"})
	fail(err)
	var ids []int64
	for range rapid.IntRange(1, 12).Draw(t, "messages") {
		m := Message{Chat: c.ID, Role: rapid.SampledFrom(roles).Draw(t, "role"), Content: text.Draw(t, "content"), Reasoning: text.Draw(t, "reasoning")}
		if len(ids) > 0 {
			m.Parent = rapid.SampledFrom(append([]int64{0}, ids...)).Draw(t, "parent")
		}
		if rapid.Bool().Draw(t, "extras") {
			data, err := json.Marshal([]any{map[string]string{"arguments": text.Draw(t, "arguments")}})
			fail(err)
			m.ToolCalls, m.ToolCall, m.Model, m.Stats = data, "call_1", "demo", Stats{OutputTokens: 3, Finish: "stop"}
			m.Attachments = []Attachment{{"a.txt", "text/plain", text.Draw(t, "attachment")}}
			m.Status = rapid.SampledFrom([]Status{Done, Stopped, Failed}).Draw(t, "status")
		}
		m, err = s.Append(ctx, m)
		fail(err)
		ids = append(ids, m.ID)
	}
	fail(s.Choose(ctx, rapid.SampledFrom(ids).Draw(t, "shown")))
	return c.ID
}

// neutral clears the fields in which a chat and its copy differ.
func neutral(messages []Message) []Message {
	ids := map[int64]int64{}
	for i := range messages {
		ids[messages[i].ID] = int64(i + 1)
	}
	for i := range messages {
		m := &messages[i]
		m.ID, m.Parent, m.Chat, m.Branches = ids[m.ID], ids[m.Parent], 0, nil
	}
	return messages
}

// TestExport checks that a chat is restored byte for byte: with all branches from
// JSON, and with the visible branch from Markdown.
func TestExport(t *testing.T) {
	ctx := context.Background()
	s, _ := testStore(t, Options{})
	rapid.Check(t, func(t *rapid.T) {
		id := randomChat(t, s)
		var jsonText, again, markdown bytes.Buffer
		shown, _, err := s.Path(ctx, id, Page{})
		if err := errors.Join(err, s.ExportJSON(ctx, &jsonText, id), s.ExportMarkdown(ctx, &markdown, id)); err != nil {
			t.Fatal(err)
		}
		copies, err := s.Import(ctx, bytes.NewReader(jsonText.Bytes()), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := s.Path(ctx, copies[0].ID, Page{})
		if diff := cmp.Diff(neutral(shown), neutral(got)); diff != "" || err != nil {
			t.Fatalf("JSON: %v\n%s", err, diff)
		}
		if err := s.ExportJSON(ctx, &again, copies[0].ID); err != nil || strings.Count(again.String(), "\n") != strings.Count(jsonText.String(), "\n") {
			t.Fatalf("the copy exports other branches: %v", err)
		}
		copies, err = s.Import(ctx, bytes.NewReader(markdown.Bytes()), nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, markdown.String())
		}
		got, _, err = s.Path(ctx, copies[0].ID, Page{})
		for _, list := range [][]Message{shown, got} {
			for i := range list {
				list[i].Stats, list[i].Error, list[i].Updated = Stats{}, "", time.Time{}
			}
		}
		if diff := cmp.Diff(neutral(shown), neutral(got)); diff != "" || err != nil {
			t.Fatalf("Markdown: %v\n%s\n%s", err, diff, markdown.String())
		}
		old, err := s.Chat(ctx, id)
		if copies[0].System != old.System || copies[0].Model != old.Model || err != nil {
			t.Fatalf("Markdown: chat %+v, %v", copies[0], err)
		}
	})
}

func TestExportAll(t *testing.T) {
	ctx := context.Background()
	s, _ := testStore(t, Options{})
	folder := must[Folder](t)(s.SaveFolder(ctx, Folder{Name: "Work"}))
	for _, title := range []string{"one", "two"} {
		must[Chat](t)(s.CreateChat(ctx, Chat{Title: title, Folder: folder.ID, Pinned: true}))
	}
	var out bytes.Buffer
	if err := s.ExportJSON(ctx, &out); err != nil {
		t.Fatal(err)
	}
	other, _ := testStore(t, Options{})
	chats := must[[]Chat](t)(other.Import(ctx, &out, nil))
	folders := must[[]Folder](t)(other.Folders(ctx))
	if len(chats) != 2 || len(folders) != 1 || folders[0].Name != "Work" || chats[0].Folder != folders[0].ID || !chats[1].Pinned {
		t.Errorf("chats %+v, folders %+v", chats, folders)
	}
	if err := s.ExportMarkdown(ctx, &out, 99); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such chat: %v", err)
	}
}

func TestImportMarkdown(t *testing.T) {
	ctx := context.Background()
	s, _ := testStore(t, Options{})
	for name, c := range map[string]struct{ text, title, want string }{
		"headings":   {"# My talk\n\n## User\n\nHi\n\n## Assistant:\n\nHello\n\nthere\n", "My talk", "user:Hi|assistant:Hello\n\nthere"},
		"bold":       {"**You:**\nHi\r\n\r\n**ChatGPT:**\r\nHello\r\n", "Hi", "user:Hi|assistant:Hello"},
		"system":     {"### System\nBe brief\n### Human\nHi", "Hi", "system:Be brief|user:Hi"},
		"not a name": {"## User\nThe\n## Users guide\nis here", "The", "user:The\n## Users guide\nis here"},
	} {
		chats, err := s.Import(ctx, strings.NewReader("\xef\xbb\xbf"+c.text), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		messages, _, err := s.Path(ctx, chats[0].ID, Page{})
		var got []string
		for _, m := range messages {
			got = append(got, string(m.Role)+":"+m.Content)
		}
		if strings.Join(got, "|") != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
		if title := must[Chat](t)(s.Chat(ctx, chats[0].ID)).Title; title != c.title {
			t.Errorf("%s: title %q, want %q", name, title, c.title)
		}
	}
}

// hostile are imports that must be rejected completely.
var hostile = []string{
	"", "hello", "{", "[]", "{}", `{"format":"other"}`, `{"format":"godwit-chats","version":1,"chats":[]}`,
	`{"format":"godwit-chats","version":1,"chats":[{"messages":[{"id":1,"parent":1,"role":"user"}]}]}`,
	`{"format":"godwit-chats","version":1,"chats":[{"messages":[{"id":1,"parent":2,"role":"user"},{"id":2,"parent":1,"role":"user"}]}]}`,
	`{"format":"godwit-chats","version":1,"chats":[{"messages":[{"id":1,"role":"user"},{"id":1,"role":"user"}]}]}`,
	`{"format":"godwit-chats","version":1,"chats":[{"messages":[{"id":0,"role":"user"}]}]}`,
	`{"format":"godwit-chats","version":1,"chats":[{"title":"kept?","messages":[]},{"messages":[{"id":1,"role":"robot"}]}]}`,
	`{"format":"godwit-chats","version":1,"chats":[{"settings":[1],"messages":[]}]}`,
	`{"format":"godwit-chats","version":1,"chats":[{"messages":[{"id":"x"}]}]}`,
	`{"format":"godwit-chats","version":1,"chats":[{"created":"never"}]}`,
	markOpen + "{" + markClose + "\n## User\n\nx", markOpen + `{"part":"reasoning"}` + markClose + "\n### R\n\nx",
	markOpen + `{"part":"message","role":"robot"}` + markClose + "\n## X\n\nx", markOpen + `{"part":"chat"}` + markClose,
	"## User\n\xff",
}

func TestImportRefused(t *testing.T) {
	ctx := context.Background()
	s, _ := testStore(t, Options{})
	for _, text := range hostile {
		if _, err := s.Import(ctx, strings.NewReader(text), nil); !errors.Is(err, ErrInput) {
			t.Errorf("%.90q: %v, want ErrInput", text, err)
		}
	}
	if _, err := s.Import(ctx, strings.NewReader(`{"format":"godwit-chats","version":2}`), nil); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer export: %v, want ErrNewer", err)
	}
	if chats := must[[]Chat](t)(s.Chats(ctx, List{})); len(chats) != 0 {
		t.Errorf("stored after all: %+v", chats)
	}
}

// TestImportLate imports a year that has five digits in some time zone, which JSON
// times cannot express.
func TestImportLate(t *testing.T) {
	s, _ := testStore(t, Options{})
	late := `{"format":"godwit-chats","version":1,"chats":[{"created":"9999-12-31T23:59:59-23:00","updated":"9999-12-31T23:59:59-23:00"}]}`
	chats := must[[]Chat](t)(s.Import(context.Background(), strings.NewReader(late), nil))
	if _, err := json.Marshal(chats); err != nil || chats[0].Created.Year() > 9998 {
		t.Errorf("%v, %v", chats[0].Created, err)
	}
}

// FuzzImport checks that no file makes an import panic or leaves a partial import,
// and that imported chats can be exported.
func FuzzImport(f *testing.F) {
	for _, seed := range hostile {
		f.Add([]byte(seed))
	}
	f.Add([]byte(`{"format":"godwit-chats","version":1,"chats":[{"title":"t","chosen":2,"created":"2020-01-01T00:00:00Z","messages":[{"id":2,"role":"user","content":"x","chosen":3},{"id":3,"parent":2,"role":"assistant"}]}]}`))
	f.Add([]byte("# T\n## User\nhi\n## Assistant\nhello"))
	ctx := context.Background()
	s, err := Open(f.TempDir()+"/chats.db", Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		chats, err := s.Import(ctx, bytes.NewReader(data), nil)
		if err != nil {
			if !errors.Is(err, ErrInput) && !errors.Is(err, ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		for _, c := range chats {
			var out bytes.Buffer
			if err := errors.Join(s.ExportJSON(ctx, &out, c.ID), s.ExportMarkdown(ctx, &out, c.ID), s.DeleteChat(ctx, c.ID)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestImportMany imports files of a few megabytes that would need a hundred times
// as much memory. Lists of empty elements are rejected before they are in memory.
func TestImportMany(t *testing.T) {
	s, _ := testStore(t, Options{})
	var folders strings.Builder
	for i := range maxFolders + 1 {
		fmt.Fprintf(&folders, `{"folder":"%d"},`, i)
	}
	const n = 2 << 20
	for name, c := range map[string][3]string{
		"chats":       {`{"format":"godwit-chats","version":1,"chats":[`, "{},", `{}]}`},
		"folders":     {`{"format":"godwit-chats","version":1,"chats":[` + folders.String(), "", "{}]}"},
		"messages":    {`{"format":"godwit-chats","version":1,"chats":[{"messages":[`, "{},", `{}]}]}`},
		"attachments": {`{"format":"godwit-chats","version":1,"chats":[{"messages":[{"id":1,"role":"user","attachments":[`, "{},", `{}]}]}]}`},
		"headings":    {"", "## User\n", ""},
		"marks":       {"", markOpen + `{"part":"message","role":"user"}` + markClose + "\n", ""},
	} {
		text := c[0] + strings.Repeat(c[1], min(n, 24<<20/max(len(c[1]), 1))) + c[2]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.Import(context.Background(), strings.NewReader(text), nil)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
			t.Errorf("%s: %d bytes were taken for a file of %d", name, n, len(text))
		}
	}
	if chats := must[[]Chat](t)(s.Chats(context.Background(), List{})); len(chats) != 0 {
		t.Errorf("%d chats stored after all", len(chats))
	}
}

// TestImportSettings checks that settings which the caller rejects are left out in
// the same transaction, and that fits is called once per chat.
func TestImportSettings(t *testing.T) {
	ctx := context.Background()
	s, _ := testStore(t, Options{})
	text := `{"chats":[{"settings":{"bad":1}},{"settings":{"good":1}},{}],"other":[[]],"format":"godwit-chats","version":1}`
	asked := 0
	chats := must[[]Chat](t)(s.Import(ctx, strings.NewReader(text), func(settings json.RawMessage) error {
		asked++
		if strings.Contains(string(settings), "bad") {
			return errors.New("no")
		}
		return nil
	}))
	if len(chats) != 3 || asked != 3 {
		t.Fatalf("%d chats, asked about %d", len(chats), asked)
	}
	for i, want := range []string{"{}", `{"good":1}`, "{}"} {
		if c := must[Chat](t)(s.Chat(ctx, chats[i].ID)); string(c.Settings) != want || string(chats[i].Settings) != want {
			t.Errorf("chat %d: settings %s, %s returned, want %s", i, c.Settings, chats[i].Settings, want)
		}
	}
}
