package prefix

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/engine/llm"
)

// text returns n tokens that depend on a seed.
func text(seed uint64, n int) []llm.Token {
	r := rand.New(rand.NewPCG(seed, 7))
	list := make([]llm.Token, n)
	for i := range list {
		list[i] = llm.Token(r.IntN(1000))
	}
	return list
}

// data returns the content of a part of a page in these tests. It depends on
// the tokens up to the page's end.
func data(tokens []llm.Token, part, size int) []byte {
	k := keyed([]byte("test"), byte(part), tokenBytes(tokens))
	b := bytes.Repeat(k[:], size/len(k)+1)
	return b[:size]
}

// keep stores all pages of a text, with two parts each, and a point at its end.
func keep(s *Store, root Key, tokens []llm.Token, size int) {
	at := root
	for i := 0; i+PageTokens <= len(tokens); i += PageTokens {
		page := tokens[i : i+PageTokens]
		next := s.Next(at, page)
		for part := range 2 {
			s.Put(Record{Key: next, Parent: at, Before: i / PageTokens, Tokens: page, Part: part, Data: data(tokens[:i+PageTokens], part, size)})
		}
		at = next
	}
	n := len(tokens) / PageTokens
	tail := tokens[n*PageTokens:]
	s.Put(Record{Key: s.PointKey(at, tail), Parent: at, Before: n, Tokens: tail, Point: true, Data: data(tokens, 5, size/2)})
}

// check reads everything that a store has of a text and fails on a wrong byte.
// It returns the number of whole pages and points.
func check(t testing.TB, s *Store, root Key, tokens []llm.Token, size int) (pages, points int) {
	t.Helper()
	m := s.Match(root, tokens)
	for i := range m.Pages() {
		all := true
		for part := range 2 {
			got, _, err := m.Read(i, part)
			if errors.Is(err, ErrGone) {
				all = false
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, data(tokens[:(i+1)*PageTokens], part, size)) {
				t.Fatalf("page %d part %d: wrong bytes", i, part)
			}
		}
		if all && pages == i {
			pages++
		}
	}
	for _, pos := range m.Points() {
		got, _, err := m.ReadPoint(pos)
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, data(tokens[:pos], 5, size/2)) {
			t.Fatalf("point at %d: wrong bytes", pos)
		}
		points++
	}
	return pages, points
}

// log collects warnings.
type log struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *log) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.Bytes(), []byte("\n"))
}

func open(t testing.TB, dir string, disk, mem int64) (*Store, *log) {
	t.Helper()
	l := &log{}
	s := Open(Options{Dir: dir, Disk: disk, Memory: mem, Log: slog.New(slog.NewTextHandler(l, nil))})
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // tests that check its error close it themselves
	return s, l
}

func want(t testing.TB, s *Store, root Key, tokens []llm.Token, size, pages, points int) {
	t.Helper()
	if p, q := check(t, s, root, tokens, size); p != pages || q != points {
		t.Fatalf("%d pages and %d points are there, want %d and %d", p, q, pages, points)
	}
}

// Stored records are found in memory, and on disk after a restart. Texts that
// diverge share their common beginning. Other roots share nothing.
func TestKeeps(t *testing.T) {
	dir := t.TempDir()
	a := text(1, 300)
	b := slices.Concat(a[:130], text(2, 200))
	s, _ := open(t, dir, 1<<30, 1<<30)
	root, other := s.Root([]byte("model"), []byte("key")), s.Root([]byte("mode"), []byte("lkey"))
	if root == other {
		t.Fatal("two roots are the same")
	}
	for range 2 {
		keep(s, root, a, 1000)
		keep(s, root, b, 1000)
	}
	for range 3 {
		want(t, s, root, a, 1000, 4, 1)
		want(t, s, root, b, 1000, 5, 1)
		want(t, s, root, b[:200], 1000, 3, 0)
		want(t, s, other, a, 1000, 0, 0)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s, _ = open(t, dir, 1<<30, 1<<30)
		if s.Root([]byte("model"), []byte("key")) != root {
			t.Fatal("another secret")
		}
	}
	if n := s.held.bytes; n != (2*7*1000+2*500)+16*overhead {
		t.Errorf("%d bytes on disk", n)
	}
	var size int64
	for _, f := range files(t, dir, chunkEnding) {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatal(info.Mode(), err)
		}
		size += info.Size()
	}
	if most := int64(15000 * 160 / 100); size > most { // in such small records a third is header
		t.Errorf("%d bytes of files, want at most %d", size, most)
	}
}

func files(t testing.TB, dir, ending string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Without a disk the store keeps its size limit and drops the ends of the least
// recently used texts.
func TestMemoryOnly(t *testing.T) {
	s, _ := open(t, "", 0, 100<<10)
	root := s.Root()
	for i := range 40 {
		keep(s, root, text(uint64(i), 640), 1000)
		want(t, s, root, text(uint64(i), 640), 1000, 10, 1)
		if s.mem.bytes > 100<<10 {
			t.Fatal("too many bytes", s.mem.bytes)
		}
	}
	if p, _ := check(t, s, root, text(0, 640), 1000); p != 0 {
		t.Error("the oldest text is still there:", p)
	}
	if len(s.nodes) > 60 {
		t.Error(len(s.nodes), "nodes are left")
	}
	s.Put(Record{Key: Key{1}, Parent: root, Tokens: text(1, 64), Data: make([]byte, 200<<10)})
	if s.Has(Key{1}, 0) {
		t.Error("a record larger than the memory was kept")
	}
}

// The files keep their size limit too, while texts are added and dropped.
func TestDiskBound(t *testing.T) {
	dir, most := t.TempDir(), int64(24<<20)
	s, _ := open(t, dir, most, 0)
	root := s.Root()
	var newest int
	for i := range 60 {
		keep(s, root, text(uint64(i), 640), 100<<10) // 2 MiB
		s.Sync()
		var size int64
		for _, f := range files(t, dir, "*") {
			if info, err := os.Stat(f); err == nil {
				size += info.Size()
			}
		}
		if size > most {
			t.Fatalf("after %d texts %d bytes on disk, want at most %d", i+1, size, most)
		}
		newest, _ = check(t, s, root, text(uint64(i), 640), 100<<10)
	}
	if newest != 10 {
		t.Error("of the newest text there are", newest)
	}
	kept := 0
	for i := range 60 {
		n, _ := check(t, s, root, text(uint64(i), 640), 100<<10)
		kept += n
	}
	if kept < 80 {
		t.Errorf("%d pages are kept, 120 would fit", kept)
	}
}

// A record without the page before it is not kept.
func TestOrphan(t *testing.T) {
	s, _ := open(t, "", 0, 1<<20)
	s.Put(Record{Key: Key{1}, Parent: Key{2}, Before: 1, Tokens: text(1, 64), Data: []byte{1}})
	if s.Has(Key{1}, 0) || len(s.nodes) > 0 {
		t.Error("an orphan was kept")
	}
}

// A second process does not use the folder, and logs one line.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	a, _ := open(t, dir, 1<<30, 1<<20)
	b, l := open(t, dir, 1<<30, 1<<20)
	if !a.OnDisk() || b.OnDisk() || l.lines() != 1 || !strings.Contains(l.String(), "another process") {
		t.Fatal(a.OnDisk(), b.OnDisk(), l.String())
	}
	keep(b, b.Root(), text(1, 300), 1000)
	want(t, b, b.Root(), text(1, 300), 1000, 4, 1)
	a.Close()
	if c, _ := open(t, dir, 1<<30, 1<<20); !c.OnDisk() {
		t.Error("the folder stays locked")
	}
}

// If a folder cannot be written, or the disk has too little room, only the
// files are lost.
func TestNoDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly := t.TempDir()
	if err := os.Chmod(readOnly, 0o500); err != nil {
		t.Fatal(err)
	}
	dirs := []string{filepath.Join(file, "below")}
	if os.Getuid() != 0 {
		dirs = append(dirs, readOnly)
	}
	for _, dir := range dirs {
		s, l := open(t, dir, 1<<30, 1<<20)
		keep(s, s.Root(), text(1, 300), 1000)
		s.Sync()
		want(t, s, s.Root(), text(1, 300), 1000, 4, 1)
		if s.OnDisk() || l.lines() != 1 {
			t.Errorf("%s: %v, %q", dir, s.OnDisk(), l.String())
		}
	}
	l := &log{}
	s := Open(Options{Dir: t.TempDir(), Disk: 1 << 30, Log: slog.New(slog.NewTextHandler(l, nil)), Space: func(string) (int64, int64, error) { return 1 << 30, 100 << 30, nil }})
	defer s.Close()
	if s.OnDisk() || l.lines() != 1 {
		t.Error("a full disk is used", l.String())
	}
}

// A store stops writing to a disk that becomes full. Records in memory stay.
func TestFillsUp(t *testing.T) {
	dir, l := t.TempDir(), &log{}
	var mu sync.Mutex
	free := int64(100 << 30)
	s := Open(Options{Dir: dir, Disk: 1 << 30, Memory: 1 << 30, Log: slog.New(slog.NewTextHandler(l, nil)), Space: func(string) (int64, int64, error) {
		mu.Lock()
		defer mu.Unlock()
		return free, 200 << 30, nil
	}})
	defer s.Close()
	root := s.Root()
	keep(s, root, text(1, 640), 1<<20)
	s.Sync()
	mu.Lock()
	free = 1 << 20
	mu.Unlock()
	for i := range 6 {
		keep(s, root, text(uint64(10+i), 640), 1<<20)
	}
	s.Sync()
	if l.lines() != 1 {
		t.Errorf("%q", l.String())
	}
	for i := range 6 {
		want(t, s, root, text(uint64(10+i), 640), 1<<20, 10, 1)
	}
	s.Close()
	s, _ = open(t, dir, 1<<30, 0)
	want(t, s, root, text(1, 640), 1<<20, 10, 1)
}

// Many goroutines use the store at once.
func TestConcurrent(t *testing.T) {
	s, _ := open(t, t.TempDir(), 20<<20, 2<<20)
	root := s.Root()
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for k := range 20 {
				tokens := slices.Concat(text(uint64(k%3), 200), text(uint64(i*100+k), 300))
				keep(s, root, tokens, 20<<10)
				m := s.Match(root, tokens)
				m.Use(400)
				check(t, s, root, tokens, 20<<10)
			}
		})
	}
	all.Wait()
	s.Sync()
	if s.dirty != 0 || s.held.bytes > 20<<20 {
		t.Error(s.dirty, s.held.bytes)
	}
}

// A folder can be listed while a store writes it, and then cleared. The store
// still works.
func TestInspectAndClear(t *testing.T) {
	dir := t.TempDir()
	if list, _, err := Inspect(dir); err != nil || len(list) > 0 {
		t.Fatal(list, err)
	}
	s, _ := open(t, dir, 1<<30, 1<<20)
	for i := range 3 {
		keep(s, s.Root([]byte{byte(i % 2)}), text(uint64(i), 300), 5000)
	}
	s.Sync()
	list, size, err := Inspect(dir)
	if err != nil || len(list) != 2 || list[0].Pages+list[1].Pages != 12 || list[0].PageBytes+list[1].PageBytes != 12*2*5000 ||
		list[0].Points+list[1].Points != 3 || list[0].PointBytes+list[1].PointBytes != 3*2500 || time.Since(list[0].Used) > time.Hour {
		t.Fatalf("%+v, %v", list, err)
	}
	if most := int64(12*2*5000+3*2500) * 112 / 100; size > most {
		t.Errorf("%d bytes of files, want at most %d", size, most)
	}
	if err := ClearFolder(dir); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Clear(); err != nil {
			t.Fatal(err)
		}
		if u := s.Usage(); u.Memory != 0 || u.Disk != 0 || len(s.nodes) > 0 || len(files(t, dir, chunkEnding)) > 0 {
			t.Fatalf("%+v, %d nodes", u, len(s.nodes))
		}
		keep(s, s.Root(), text(1, 300), 5000)
		want(t, s, s.Root(), text(1, 300), 5000, 4, 1)
	}
	s.Close()
	s, _ = open(t, dir, 1<<30, 0)
	want(t, s, s.Root(), text(1, 300), 5000, 4, 1)
	s.Close()
	if err := ClearFolder(dir); err != nil {
		t.Fatal(err)
	}
	if list := append(files(t, dir, chunkEnding), files(t, dir, secretFile)...); len(list) > 0 {
		t.Error(list)
	}
}

// Points before a new one become sparser towards the beginning. Points of other
// texts stay, and so does the last point before a branch.
func TestThin(t *testing.T) {
	s, _ := open(t, t.TempDir(), 1<<30, 1<<30)
	root := s.Root()
	long := text(1, 100*PageTokens)
	other := slices.Concat(long[:10*PageTokens], text(2, 5*PageTokens))
	keep(s, root, other, 100)
	for i := 1; i <= 100; i++ {
		keep(s, root, long[:i*PageTokens], 100)
	}
	s.Sync()
	var at []int
	for _, pos := range s.Match(root, long).Points() {
		at = append(at, pos/PageTokens)
	}
	if n := len(at); n < newestPoints+1 || n > newestPoints+8 || at[0] != 1 || !slices.Contains(at, 10) {
		t.Errorf("%d points: %v", n, at)
	}
	for i := range newestPoints {
		if want := 100 - i; at[len(at)-1-i] != want {
			t.Errorf("point %d from the end is at page %d, want %d", i, at[len(at)-1-i], want)
		}
	}
	if _, points := check(t, s, root, other, 100); points < 2 {
		t.Errorf("%d points of the other text", points)
	}
}
