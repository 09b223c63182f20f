package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestDamagedDatabase checks that each kind of damage is reported, that the damaged
// file is renamed and unchanged, and that the new database works.
func TestDamagedDatabase(t *testing.T) {
	ctx := context.Background()
	first, path := testStore(t, Options{})
	longChat(t, first, 500)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	healthy, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(data []byte) []byte{
		"not a database": func([]byte) []byte { return []byte(strings.Repeat("hello ", 1000)) },
		"header":         func(d []byte) []byte { d[20] = 0xff; return append([]byte("SQLite format 4\x00"), d[16:]...) },
		"cut":            func(d []byte) []byte { return d[:len(d)/2] },
		"zeroed pages":   func(d []byte) []byte { clear(d[len(d)/3 : len(d)/2]); return d },
		"schema":         func(d []byte) []byte { clear(d[100:2000]); return d },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "chats.db")
			bad := damage(bytes.Clone(healthy))
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(path, Options{})
			var report *Damage
			if !errors.As(err, &report) || !errors.Is(err, ErrDamaged) {
				t.Fatalf("got %v, want a report of damage", err)
			}
			defer s.Close()
			kept, err := os.ReadFile(report.Aside)
			if err != nil || len(kept) < len(bad)/2 || name != "cut" && name != "zeroed pages" && !bytes.Equal(kept, bad) {
				t.Errorf("set aside %d bytes of %d, %v", len(kept), len(bad), err)
			}
			c := must[Chat](t)(s.CreateChat(ctx, Chat{Title: "new"}))
			must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Role: User, Content: "hi"}))
			if chats := must[[]Chat](t)(s.Chats(ctx, List{})); len(chats) != 1 {
				t.Errorf("the new database lists %d chats", len(chats))
			}
		})
	}
}

// TestDamageWhileOpen checks that damage found by a read is reported as such, and
// that the next Open checks the whole file.
func TestDamageWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chats.db")
	s := reopen(t, path, Options{})
	if err := s.fault("read", fmt.Errorf("x: %w", ErrDamaged)); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	s.damaged.Store(true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + checkMark); err != nil {
		t.Errorf("no mark to check: %v", err)
	}
	reopen(t, path, Options{})
	if _, err := os.Stat(path + checkMark); !os.IsNotExist(err) {
		t.Errorf("the mark stays after the check: %v", err)
	}
}

// TestFullDisk fills the database to its last page. All stored data can still be
// read, and writing works again once there is space.
func TestFullDisk(t *testing.T) {
	ctx, clock := context.Background(), newClock()
	s, path := testStore(t, Options{maxPages: 100, Now: clock.Now})
	c := must[Chat](t)(s.CreateChat(ctx, Chat{Title: "full"}))
	d := must[*Draft](t)(s.Begin(ctx, Message{Chat: c.ID, Role: Assistant}))
	clock.add(2 * saveEvery)
	if err := d.Save(ctx, func() (string, string) { return "partial", "" }); err != nil {
		t.Fatal(err)
	}
	parent, stored := d.Message().ID, 1
	var err error
	for err == nil && stored < 1000 {
		var m Message
		if m, err = s.Append(ctx, Message{Chat: c.ID, Parent: parent, Role: User, Content: strings.Repeat("y", 4000)}); err == nil {
			parent = m.ID
			stored++
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("after %d messages: %v, want ErrFull", stored, err)
	}
	clock.add(2 * saveEvery)
	big := strings.Repeat("z", 500_000) // more than the whole database may hold
	if err := d.Save(ctx, func() (string, string) { return big, "" }); !errors.Is(err, ErrFull) {
		t.Errorf("save: %v, want ErrFull", err)
	}
	if _, err := s.Import(ctx, strings.NewReader("## User\n"+big), nil); !errors.Is(err, ErrFull) {
		t.Errorf("import: %v, want ErrFull", err)
	}
	check := func(s *Store) {
		t.Helper()
		messages, total, err := s.Path(ctx, c.ID, Page{})
		if err != nil || total != stored || messages[0].Content != "partial" {
			t.Errorf("%d messages of %d, %v", total, stored, err)
		}
		if chats := must[[]Chat](t)(s.Chats(ctx, List{})); len(chats) != 1 {
			t.Errorf("%d chats, want 1", len(chats))
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path, Options{Now: clock.Now})
	check(s)
	must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Parent: parent, Role: User, Content: big}))
}

func TestMigrations(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "chats.db")
	s := reopen(t, path, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// a database of every older schema is updated and keeps its rows
	for version := 1; version < len(migrations); version++ {
		path := filepath.Join(t.TempDir(), "old.db")
		old := reopenRaw(t, path)
		if err := old.migrateTo(ctx, version); err != nil {
			t.Fatal(err)
		}
		_, err := old.db.Exec(`INSERT INTO chat(id, title, auto, pinned, model, system, settings, created, updated) VALUES (7, 'old title', 0, 0, '', '', '{}', 1, 1);
			INSERT INTO message(chat, role, content, reasoning, tool_calls, tool_call, attachments, status, error, model, stats, created, updated)
			VALUES (7, 'user', 'old words', '', '', '', '', 'done', '', '', '{}', 1, 1)`)
		if err != nil {
			t.Fatal(err)
		}
		if err := old.db.Close(); err != nil {
			t.Fatal(err)
		}
		s := reopen(t, path, Options{})
		for _, query := range []string{"old title", "old words"} {
			if hits := must[[]Hit](t)(s.Search(ctx, query, 0)); len(hits) != 1 || hits[0].Chat != 7 {
				t.Errorf("from schema %d: %q finds %+v", version, query, hits)
			}
		}
	}
	newer := reopenRaw(t, path)
	if _, err := newer.db.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(migrations)+1)); err != nil {
		t.Fatal(err)
	}
	if err := newer.db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer schema: %v, want ErrNewer", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the newer database was moved: %v", err)
	}
}

// reopenRaw opens a database without migrating it.
func reopenRaw(t *testing.T, path string) *Store {
	t.Helper()
	raw, err := openDB(dsn(path, 0))
	if err != nil {
		t.Fatal(err)
	}
	return &Store{path: path, db: raw, now: time.Now}
}

// The keys of a chat's texts are deleted with their messages. Chat files of older
// versions are removed, and other files stay.
func TestPrefixes(t *testing.T) {
	ctx := context.Background()
	s, path := testStore(t, Options{})
	c := must[Chat](t)(s.CreateChat(ctx, Chat{}))
	var last Message
	for i := range 3 {
		last = must[Message](t)(s.Append(ctx, Message{Chat: c.ID, Parent: last.ID, Role: Assistant, Content: "x"}))
		for _, key := range []byte{9, byte(i)} { // the second replaces the first
			if err := s.KeepPrefix(ctx, last.ID, []byte{key}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := must[[][]byte](t)(s.Prefixes(ctx, c.ID)); !slices.EqualFunc(got, [][]byte{{2}, {1}, {0}}, bytes.Equal) {
		t.Errorf("keys %v", got)
	}
	if err := s.DeleteMessage(ctx, last.ID); err != nil {
		t.Fatal(err)
	}
	if got := must[[][]byte](t)(s.Prefixes(ctx, c.ID)); len(got) != 2 {
		t.Errorf("keys %v", got)
	}
	if err := s.KeepPrefix(ctx, last.ID, []byte{1}); err == nil {
		t.Error("a deleted message has a key")
	}
	if err := errors.Join(s.DeleteChat(ctx, c.ID), s.Close()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(path), "states")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"chat-9-1.kv": true, "mine.kv": false, "chat-9-2.kv.txt": false}
	for name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reopen(t, path, Options{})
	for name, gone := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); os.IsNotExist(err) != gone {
			t.Errorf("%s: %v, want it gone: %v", name, err, gone)
		}
	}
}

// TestConcurrent runs readers and writers of two stores on one database. It is for
// the race detector.
func TestConcurrent(t *testing.T) {
	ctx := context.Background()
	a, path := testStore(t, Options{})
	b := reopen(t, path, Options{})
	c := must[Chat](t)(a.CreateChat(ctx, Chat{}))
	const writers, each = 6, 8
	var stop atomic.Bool
	var group, readers sync.WaitGroup
	for i, s := range []*Store{a, b, a, b} {
		readers.Go(func() {
			for !stop.Load() {
				if _, _, err := s.Path(ctx, c.ID, Page{Limit: 10}); err != nil {
					t.Error(err)
				}
				if _, err := s.Search(ctx, "word", 5); err != nil && i%2 == 0 {
					t.Error(err)
				}
			}
		})
	}
	for i := range writers {
		s := []*Store{a, b}[i%2]
		group.Go(func() { converse(t, s, c.ID, each) })
	}
	group.Wait()
	stop.Store(true)
	readers.Wait()
	var n int
	if err := a.db.QueryRow("SELECT count(*) FROM message WHERE status = 'done'").Scan(&n); err != nil || n != 2*writers*each {
		t.Errorf("%d messages, %v, want %d", n, err, 2*writers*each)
	}
	if _, err := a.db.Exec("INSERT INTO message_search(message_search, rank) VALUES ('integrity-check', 1)"); err != nil {
		t.Errorf("the index does not match the messages: %v", err)
	}
}

// converse appends questions with answers that are saved as they grow.
func converse(t *testing.T, s *Store, chat int64, n int) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for range n {
		q, err := s.Append(ctx, Message{Chat: chat, Role: User, Content: "word"})
		if err != nil {
			t.Error(err)
			return
		}
		d, err := s.Begin(ctx, Message{Chat: chat, Parent: q.ID, Role: Assistant})
		if err != nil {
			t.Error(err)
			return
		}
		d.saved = time.Time{}
		if err := d.Save(ctx, func() (string, string) { return "some words", "" }); err != nil {
			t.Error(err)
		}
		m := d.Message()
		m.Content = strings.Repeat("word ", r.IntN(50))
		if _, err := d.Finish(ctx, m); err != nil {
			t.Error(err)
		}
	}
}

// TestCancelled checks that a cancelled request changes nothing and frees the
// store.
func TestCancelled(t *testing.T) {
	s, _ := testStore(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	c := must[Chat](t)(s.CreateChat(ctx, Chat{}))
	cancel()
	if _, err := s.Append(ctx, Message{Chat: c.ID, Role: User}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if got := shape(t, s, c.ID, Page{}); got != " (0)" {
		t.Errorf("stored after all: %s", got)
	}
}
