package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/engine/dtype"
	"godwit/engine/gguf"
)

// fakeHub simulates a hub: its API, redirects to another host for the data, ranges,
// and a fault if the test sets one.
type fakeHub struct {
	*httptest.Server
	cdn *httptest.Server // a second host for the data

	mu       sync.Mutex
	files    map[string][]byte // owner/repo/name
	digests  map[string]string // digests that the API reports instead of the true ones; "" for none
	api      func(w http.ResponseWriter, r *http.Request) bool
	resolve  func(w http.ResponseWriter, r *http.Request) bool
	blob     func(w http.ResponseWriter, r *http.Request, n int, data []byte) bool
	ranges   []string // ranges of the requests for bytes, in order
	cdnToken []string // Authorization of the requests for bytes
	apiToken []string
}

const commit = "0123456789abcdef0123456789abcdef01234567"

func newHub(t *testing.T, files map[string][]byte) *fakeHub {
	t.Helper()
	h := &fakeHub{files: files, digests: map[string]string{}}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	h.cdn = httptest.NewServer(http.HandlerFunc(h.serveBlob))
	t.Cleanup(h.Close)
	t.Cleanup(h.cdn.Close)
	return h
}

func (h *fakeHub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.apiToken = append(h.apiToken, r.Header.Get("Authorization"))
	if strings.HasPrefix(r.URL.Path, "/api/models") {
		if h.api != nil && h.api(w, r) {
			return
		}
		h.serveAPI(w, strings.Trim(strings.TrimPrefix(r.URL.Path, "/api/models"), "/"), r)
		return
	}
	if h.resolve != nil && h.resolve(w, r) {
		return
	}
	name := strings.Replace(strings.TrimPrefix(r.URL.Path, "/"), "/resolve/"+commit+"/", "/", 1)
	data, ok := h.files[name]
	if !ok {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+digest(data)+`"`)
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(data)))
	http.Redirect(w, r, h.cdn.URL+"/blob/"+name+"?signature=secret", http.StatusFound)
}

func (h *fakeHub) serveAPI(w http.ResponseWriter, id string, r *http.Request) {
	repos := map[string]map[string]any{}
	for name, data := range h.files {
		parts := strings.SplitN(name, "/", 3)
		repo := parts[0] + "/" + parts[1]
		if repos[repo] == nil {
			repos[repo] = map[string]any{
				"id": repo, "sha": commit, "gated": false, "downloads": 7, "likes": 3,
				"lastModified": "2026-01-02T03:04:05.000Z", "tags": []string{"gguf", "license:apache-2.0"}, "siblings": []any{},
			}
		}
		sum, lies := h.digests[name]
		if !lies {
			sum = digest(data)
		}
		f := map[string]any{"rfilename": parts[2], "size": len(data)}
		if sum != "" {
			f["lfs"] = map[string]any{"sha256": sum, "size": len(data), "pointerSize": 130}
		}
		repos[repo]["siblings"] = append(repos[repo]["siblings"].([]any), f)
	}
	var out any
	if id == "" {
		list := []any{}
		for name, repo := range repos {
			if strings.Contains(name, r.URL.Query().Get("search")) {
				list = append(list, map[string]any{"id": repo["id"], "tags": repo["tags"], "downloads": 7})
			}
		}
		out = list
	} else if out = repos[id]; repos[id] == nil {
		w.WriteHeader(http.StatusUnauthorized) // as the real hub does for unknown repositories
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (h *fakeHub) serveBlob(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	data := h.files[strings.TrimPrefix(r.URL.Path, "/blob/")]
	h.ranges = append(h.ranges, r.Header.Get("Range"))
	h.cdnToken = append(h.cdnToken, r.Header.Get("Authorization"))
	n, fault := len(h.ranges), h.blob
	h.mu.Unlock()
	if fault != nil && fault(w, r, n, data) {
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// library opens a library on the hub with a folder of its own and short pauses.
func (h *fakeHub) library(t *testing.T, o Options) *Library {
	t.Helper()
	if o.Dir == "" {
		o.Dir = path.Join(t.TempDir(), "models")
	}
	if o.URL == "" {
		o.URL = h.URL
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	l.pause = time.Millisecond
	t.Cleanup(func() { l.Close() })
	return l
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// tinyModel is a GGUF file of about n bytes.
func tinyModel(t testing.TB, n int, seed byte, kv ...gguf.KV) []byte {
	t.Helper()
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i*i>>7) + seed
	}
	var out bytes.Buffer
	kv = append([]gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: fmt.Sprintf("Tiny %d", seed)},
		{Key: "general.file_type", Value: uint32(7)},
		{Key: "llama.context_length", Value: uint32(2048)},
		{Key: "llama.block_count", Value: uint32(2)},
		{Key: "llama.embedding_length", Value: uint32(64)},
		{Key: "llama.attention.head_count", Value: uint32(4)},
		{Key: "llama.attention.head_count_kv", Value: []uint32{1, 2}},
		{Key: "tokenizer.chat_template", Value: "{{ messages }}"},
	}, kv...)
	err := gguf.Write(&out, kv, []gguf.Tensor{{Name: "t", Type: dtype.I8, Shape: []int{n}, Data: data}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// brokenDisk is a part file that fails after some bytes.
type brokenDisk struct {
	partFile
	left int
	err  error
}

func (d *brokenDisk) Write(b []byte) (int, error) {
	n := min(len(b), d.left)
	d.left -= n
	n, err := d.partFile.Write(b[:n])
	if err == nil && n < len(b) {
		err = d.err
	}
	return n, err
}

// send writes a body. It ignores errors, because the client may have disconnected.
func send(w io.Writer, b []byte) { _, _ = w.Write(b) }
