package ledger

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestOthers(t *testing.T) {
	dir := t.TempDir()
	a, b, c := New(dir), New(dir), New(dir)
	if n := a.Others(); n != 0 {
		t.Errorf("an empty folder has %d bytes", n)
	}
	a.Publish(100)
	b.Alone(func(others int64) {
		if others != 100 {
			t.Errorf("%d bytes of others, want 100", others)
		}
		b.Publish(20)
	})
	if x, y, z := a.Others(), b.Others(), c.Others(); x != 20 || y != 100 || z != 120 {
		t.Errorf("others have %d, %d and %d bytes, want 20, 100 and 120", x, y, z)
	}
	a.Close()
	if n := c.Others(); n != 20 {
		t.Errorf("%d bytes after one has closed, want 20", n)
	}
	a.Close()
	a.Publish(7)
	if n := c.Others(); n != 27 {
		t.Errorf("%d bytes after it has come back, want 27", n)
	}
}

// Of several processes that reserve at the same time, each sees the earlier
// ones.
func TestTogether(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 8 {
		wg.Go(func() {
			l := New(dir)
			l.Alone(func(others int64) {
				if others < 3 {
					l.Publish(1)
					mu.Lock()
					granted++
					mu.Unlock()
				}
			})
		})
	}
	wg.Wait()
	if granted != 3 {
		t.Errorf("%d reservations were granted, want 3", granted)
	}
}

// The entry of a process that was killed does not count, and is removed.
func TestKilled(t *testing.T) {
	const env = "GODWIT_TEST_LEDGER"
	if dir := os.Getenv(env); dir != "" {
		New(dir).Publish(1 << 40)
		os.Exit(0) // without Close
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), env+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if list, _ := os.ReadDir(dir); len(list) != 2 {
		t.Fatalf("%d files after a process ended, want 2", len(list))
	}
	list, _ := filepath.Glob(filepath.Join(dir, "*"+lockSuffix))
	unfinished := strings.TrimSuffix(list[0], lockSuffix) + partSuffix // it was killed during a write
	if err := os.WriteFile(unfinished, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := New(dir).Others(); n != 0 {
		t.Errorf("an ended process holds %d bytes", n)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("%d files are left of an ended process", len(list))
	}
}

func TestDamagedEntries(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "x", "-5", "9223372036854775808", "9223372036854775807", strings.Repeat("1", 1<<20)} {
		l := New(dir)
		l.Publish(0)
		if err := os.WriteFile(filepath.Join(dir, l.name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if n := New(dir).Others(); n != 1<<63-1 {
		t.Errorf("%d bytes, want those of the one valid number", n)
	}
}

// A load continues if the folder cannot be used.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	called := false
	New(filepath.Join(file, "x")).Alone(func(others int64) { called = others == 0 })
	if !called {
		t.Error("Alone did not call its function with 0")
	}
}
