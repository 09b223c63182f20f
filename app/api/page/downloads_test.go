package page

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"godwit/app/hub"
	"godwit/engine/testmodel"
)

// fakeHub simulates a model hub with one repository.
type fakeHub struct {
	*httptest.Server
	data   []byte
	digest string
	status atomic.Int64 // response status for the file; 0 for the normal one
	held   atomic.Bool  // whether a transfer pauses halfway until the reader disconnects
	ranges atomic.Int64 // number of range requests
}

func newHub(t *testing.T) *fakeHub {
	data, err := os.ReadFile(testmodel.SmolLM2(t))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	h := &fakeHub{data: data, digest: hex.EncodeToString(sum[:])}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/models", h.search)
	mux.HandleFunc("GET /api/models/{owner}/{repo}", h.repo)
	mux.HandleFunc("/{owner}/{repo}/resolve/{rev}/{file}", h.file)
	h.Server = httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h
}

func (h *fakeHub) describe() map[string]any {
	return map[string]any{
		"id": "birds/godwit-GGUF", "sha": strings.Repeat("a", 40), "downloads": 1234, "likes": 5, "tags": []string{"gguf", "license:mit"},
		"siblings": []any{map[string]any{
			"rfilename": "godwit-Q4_1.gguf", "size": len(h.data), "lfs": map[string]any{"sha256": h.digest, "size": len(h.data)},
		}},
	}
}

func (h *fakeHub) search(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode([]any{h.describe()})
}

func (h *fakeHub) repo(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("owner") != "birds" {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(h.describe())
}

func (h *fakeHub) file(w http.ResponseWriter, r *http.Request) {
	if status := int(h.status.Load()); status != 0 {
		http.Error(w, "no", status)
		return
	}
	from := 0
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
		h.ranges.Add(1)
	}
	w.Header().Set("ETag", `"one"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(h.data)-from))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(h.data)-1, len(h.data)))
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodHead {
		return
	}
	for at := from; at < len(h.data); at += 1 << 20 {
		if _, err := w.Write(h.data[at:min(at+1<<20, len(h.data))]); err != nil {
			return
		}
		if h.held.Load() && at >= len(h.data)/2 {
			_ = http.NewResponseController(w).Flush() // otherwise the reader does not notice the end
			<-r.Context().Done()
			return
		}
	}
}

const ref = "birds/godwit-GGUF:Q4_1"

// until waits until ok accepts the list of downloads. what describes the expected state.
func (d *desk) until(what string, ok func(list []download) bool) {
	d.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok(d.downloads.list()) {
			return
		}
	}
	d.t.Fatalf("no download %s: %+v", what, d.downloads.list())
}

func TestDownload(t *testing.T) {
	h := newHub(t)
	dir := newFolder(t, false)
	use := func(_ *Options, l *hub.Options) { l.URL, l.AllowHTTP, l.AllowPrivate = h.URL, true, true }
	d := open(t, dir, use)
	type answer struct {
		Repos []found `json:"repos"`
	}
	for _, query := range []string{"godwit", "birds/godwit-GGUF", "nobody/nothing"} {
		if got := ask[answer](d, "GET", "/app/hub/search?q="+query, nil); len(got.Repos) != 1 || got.Repos[0].ID != "birds/godwit-GGUF" {
			t.Errorf("%s: found %+v", query, got)
		}
	}
	got := ask[answer](d, "GET", "/app/hub/search?q=godwit", nil)
	if len(got.Repos) != 1 || len(got.Repos[0].Models) != 1 || got.Repos[0].Models[0].Ref != ref || got.Repos[0].Models[0].Fit != "fits" {
		t.Fatalf("found %+v", got)
	}
	h.held.Store(true)
	ask[any](d, "POST", "/app/downloads", map[string]string{"ref": ref})
	d.until("on its way", func(l []download) bool { return len(l) == 1 && l[0].Done > 3<<20 })
	ask[any](d, "POST", "/app/downloads", map[string]string{"ref": ref}) // a second click changes nothing
	ask[any](d, "POST", "/app/downloads/pause", map[string]string{"ref": ref})
	if l := d.downloads.list(); len(l) != 1 || l[0].State != paused || l[0].Error != "" {
		t.Fatalf("paused: %+v", l)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	// The next run finds the download and continues it.
	d = open(t, dir, use)
	if l := d.downloads.list(); len(l) != 1 || l[0].State != paused || l[0].Done < 3<<20 || l[0].Total != int64(len(h.data)) {
		t.Fatalf("after the restart: %+v", l)
	}
	h.held.Store(false)
	ask[any](d, "POST", "/app/downloads", map[string]string{"ref": ref})
	d.until("finished", func(l []download) bool { return len(l) == 0 })
	if h.ranges.Load() == 0 {
		t.Error("it began from the start again")
	}
	if m, ok := d.library.find("godwit-Q4_1"); !ok || m.SHA256 != h.digest || m.Ref != ref {
		t.Errorf("in the library: %+v", m)
	}
}

func TestDownloadFails(t *testing.T) {
	h := newHub(t)
	d := open(t, newFolder(t, false), func(_ *Options, l *hub.Options) { l.URL, l.AllowHTTP, l.AllowPrivate = h.URL, true, true })
	for status, words := range map[int]string{401: "refused access", 404: "no such model"} {
		h.status.Store(int64(status))
		ask[any](d, "POST", "/app/downloads", map[string]string{"ref": ref})
		d.until("failed", func(l []download) bool { return len(l) == 1 && l[0].State == failed })
		if l := d.downloads.list(); !strings.Contains(l[0].Error, words) {
			t.Errorf("%d: %q, want %q", status, l[0].Error, words)
		}
		ask[any](d, "POST", "/app/downloads/discard", map[string]string{"ref": ref})
		if l := d.downloads.list(); len(l) != 0 {
			t.Errorf("discarded: %+v", l)
		}
	}
	h.status.Store(0)
	h.digest = strings.Repeat("0", 64)
	ask[any](d, "POST", "/app/downloads", map[string]string{"ref": ref})
	d.until("refused", func(l []download) bool { return len(l) == 1 && l[0].State == failed })
	if _, ok := d.library.find("godwit-Q4_1"); ok {
		t.Error("a file with a wrong digest is in the library")
	}
}
