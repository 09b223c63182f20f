package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestLevels(t *testing.T) {
	var out bytes.Buffer
	log, err := OpenLog(LogOptions{Terminal: &out})
	if err != nil {
		t.Fatal(err)
	}
	derived := log.With("backend", "cpu")
	log.Debug("quiet")
	log.Info("model loaded", "arch", "llama", "ms", 12)
	if err := log.SetLevel("debug"); err != nil {
		t.Fatal(err)
	}
	derived.Debug("loud")
	if err := log.SetLevel("error"); err != nil {
		t.Fatal(err)
	}
	derived.Warn("silenced")
	got := out.String()
	for word, want := range map[string]bool{"quiet": false, "model loaded": true, "arch=llama": true, "ms=12": true, "loud": true, "silenced": false} {
		if strings.Contains(got, word) != want {
			t.Errorf("%q in the log: %v, want %v\n%s", word, !want, want, got)
		}
	}
	for _, bad := range []string{"verbose", "fatal", "INFO "} {
		if err := log.SetLevel(bad); !errors.Is(err, ErrLevel) {
			t.Errorf("SetLevel(%q) = %v, want ErrLevel", bad, err)
		}
	}
}

// TestNothingPrivate writes a secret to the log in every possible way and
// searches for it.
func TestNothingPrivate(t *testing.T) {
	const secret, prompt = "sk-0123456789", "what the user asked"
	var out bytes.Buffer
	path := filepath.Join(t.TempDir(), "godwit.log")
	log, err := OpenLog(LogOptions{Level: "debug", Terminal: &out, File: path})
	if err != nil {
		t.Fatal(err)
	}
	log.Hide(secret)
	log.Hide("ok")
	log.Info("bad key "+secret, "err", fmt.Errorf("refused %s", secret))
	log.With("url", "http://x/?k="+secret).WithGroup("g").Info("ok", "prompt", prompt, "Content", prompt)
	log.Info("request", slog.Group("req", "path", "/v1/"+secret, "text", prompt))
	log.Info("struct", "v", struct{ K string }{secret})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"terminal": out.String(), "file": string(file)} {
		if strings.Contains(text, secret) || strings.Contains(text, prompt) {
			t.Errorf("%s holds what it must not:\n%s", name, text)
		}
		if n := strings.Count(text, hidden); n != 8 {
			t.Errorf("%s hides %d values, want 8:\n%s", name, n, text)
		}
		if n := strings.Count(text, "\n"); n != 4 {
			t.Errorf("%s has %d lines, want 4:\n%s", name, n, text)
		}
	}
}

func TestRotation(t *testing.T) {
	const limit, keep, lines, goroutines = 1000, 2, 200, 4
	path := filepath.Join(t.TempDir(), "below", "godwit.log")
	w, err := openRotating(path, limit, keep)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 99) + "\n")
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for range lines {
				if n, err := w.Write(line); n != len(line) || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			}
		})
	}
	group.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != limit {
			t.Errorf("%s has %d bytes, want %d", e.Name(), info.Size(), limit)
		}
	}
	if got := strings.Join(names, " "); got != "godwit.log godwit.log.1 godwit.log.2" {
		t.Errorf("files are %s", got)
	}
}

// TestReopen checks that a file of an earlier run counts towards the limit, and
// that one line over the limit is still written whole.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "godwit.log")
	for i, text := range []string{"12345678", "abcdef", strings.Repeat("z", 30)} {
		w, err := openRotating(path, 10, 3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(i, err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"": strings.Repeat("z", 30), ".1": "abcdef", ".2": "12345678"} {
		got, err := os.ReadFile(path + name)
		if err != nil || string(got) != want {
			t.Errorf("%s%s = %q, %v, want %q", filepath.Base(path), name, got, err, want)
		}
	}
}

func TestLogFileRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log, err := OpenLog(LogOptions{Terminal: &out, File: filepath.Join(file, "godwit.log")})
	if err == nil {
		t.Fatal("a log below a file was opened")
	}
	log.Info("still here")
	if !strings.Contains(out.String(), "still here") {
		t.Error("the terminal was lost with the file")
	}
}

func TestMetrics(t *testing.T) {
	set := NewMetrics()
	set.NewCounter(`godwit_requests_total{path="/v1/models"}`).Add(3)
	var out bytes.Buffer
	set.WritePrometheus(&out)
	for _, want := range []string{`godwit_requests_total{path="/v1/models"} 3`, "go_goroutines"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	other := NewMetrics()
	out.Reset()
	other.WritePrometheus(&out)
	if strings.Contains(out.String(), "godwit_requests_total") {
		t.Error("two sets share a counter")
	}
}
