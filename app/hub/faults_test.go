package hub

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fault is a faulty response. It must not result in a model.
type fault struct {
	name string
	set  func(h *fakeHub)
	is   error
	says string
	part bool // the downloaded data is kept for another try
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

// lies are servers that send other bytes than they announced.
func lies(data []byte) []fault {
	return []fault{
		{"wrong bytes", func(h *fakeHub) {
			h.blob = func(w http.ResponseWriter, _ *http.Request, _ int, data []byte) bool {
				bad := bytes.Clone(data)
				bad[len(bad)/2] ^= 1
				send(w, bad)
				return true
			}
		}, ErrDigest, "the hub announced " + digest(data), false},
		{"two digests", func(h *fakeHub) { h.digests[file] = strings.Repeat("0", 64) }, ErrDigest, "for one file", false},
		{"no digest", func(h *fakeHub) {
			h.digests[file] = ""
			h.resolve = func(w http.ResponseWriter, r *http.Request) bool { send(w, data); return true }
		}, ErrDigest, "the hub lists no SHA-256", false},
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
					send(w, make([]byte, 64<<10)) // chunked, so no length is sent
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

// refusals are servers that send no data.
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
		{"redirect to mapped IPv6", func(h *fakeHub) { h.resolve = status(302, "Location", "https://[::ffff:192.168.0.1]/x") }, ErrBlocked, "not a public internet address", true},
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

// Temporary errors: the download waits and continues.
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

// A server that ignores ranges sends the whole file again.
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

// The data of an earlier try is wrong, so the download restarts automatically.
// Without a note nothing is resumed.
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
