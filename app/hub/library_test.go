package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/fetch"
	"godwit/engine/gguf"
)

// splitPart returns part i of a split model.
func splitPart(t testing.TB, i, n int) []byte {
	t.Helper()
	kv := []gguf.KV{{Key: "split.no", Value: uint16(i)}, {Key: "split.count", Value: uint16(n)}, {Key: "split.tensors.count", Value: int32(n)}}
	var out bytes.Buffer
	err := gguf.Write(&out, kv, []gguf.Tensor{{Name: string(rune('a' + i)), Type: dtype.I8, Shape: []int{1000}, Data: make([]byte, 1000)}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func names(list []Model) []string {
	var out []string
	for _, m := range list {
		out = append(out, m.Name)
	}
	return out
}

// Files that were not pulled are found in the model folder, in other folders, once
// per split model, and through links. Hidden files and incomplete models are not
// found.
func TestListFindsFiles(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	model := tinyModel(t, 1000, 1)
	write(t, filepath.Join(dir, "b.gguf"), model)
	write(t, filepath.Join(dir, "sub", "A.GGUF"), model)
	write(t, filepath.Join(dir, "half.gguf.part"), model)
	write(t, filepath.Join(dir, ".fetch-x", "c.gguf"), model)
	write(t, filepath.Join(dir, "mmproj-b.gguf"), model)
	write(t, filepath.Join(dir, "broken.gguf"), []byte("no"))
	write(t, filepath.Join(other, "b.gguf"), model)
	for i := range 2 {
		write(t, filepath.Join(other, []string{"s-00001-of-00002.gguf", "s-00002-of-00002.gguf"}[i]), splitPart(t, i, 2))
	}
	want := []string{"A", "b", "b-2", "broken", "s"}
	if runtime.GOOS != "windows" {
		write(t, filepath.Join(other, ".blobs", "0123"), model)
		if err := os.Symlink(filepath.Join(other, ".blobs", "0123"), filepath.Join(other, "link.gguf")); err != nil {
			t.Fatal(err)
		}
		want = []string{"A", "b", "b-2", "broken", "link", "s"}
	}
	l, err := Open(Options{Dir: dir, Folders: []string{other, filepath.Join(other, "missing")}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := l.List()
	if err != nil || !slices.Equal(names(list), want) {
		t.Fatalf("the list is %v, %v, want %v", names(list), err, want)
	}
	for _, m := range list {
		if (m.Error != "") != (m.Name == "broken") || m.Linked != (filepath.Dir(m.Path) == other) || m.Template != "" {
			t.Errorf("%+v", m)
		}
	}
	s, err := l.Find("S")
	if err != nil || len(s.Paths) != 2 || s.Size != int64(2*len(splitPart(t, 0, 2))) {
		t.Errorf("the split model is %+v, %v", s, err)
	}
	if err := l.Remove(t.Context(), "s"); err == nil {
		t.Error("a model of another folder is removed")
	}
	if err := l.Remove(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(other, "b.gguf")); err != nil {
		t.Errorf("the wrong file is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b.gguf")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestFind(t *testing.T) {
	h := newHub(t, map[string][]byte{file: tinyModel(t, 1000, 1), "two/tiny/tiny-Q8_0.gguf": tinyModel(t, 1000, 2)})
	l := h.library(t, Options{})
	if _, err := l.Find("x"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "godwit pull demo") {
		t.Errorf("error is %v", err)
	}
	for _, ref := range []string{"own/tiny-GGUF", "two/tiny"} {
		if _, err := l.Pull(t.Context(), ref, nil); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "free.gguf")
	write(t, elsewhere, tinyModel(t, 1000, 3))
	one := filepath.Join(l.Dir(), filepath.FromSlash(file))
	for name, want := range map[string]string{
		"tiny-Q8_0":           "Tiny 1",
		"TINY-q8_0":           "Tiny 1",
		"tiny-Q8_0.gguf":      "Tiny 1",
		"own/tiny-GGUF":       "Tiny 1",
		"own/tiny-GGUF:Q8_0":  "Tiny 1",
		one:                   "Tiny 1",
		"two-tiny-Q8_0":       "Tiny 2",
		"two/tiny":            "Tiny 2",
		elsewhere:             "Tiny 3",
		"../../../etc/passwd": "",
		"":                    "",
		"tiny":                "",
		filepath.Dir(one):     "",
		elsewhere + ".gguf":   "",
	} {
		m, err := l.Find(name)
		if want == "" && !errors.Is(err, ErrNotFound) || want != "" && (err != nil || m.Title != want) {
			t.Errorf("%q is %q at %s, %v, want %q", name, m.Title, m.Path, err, want)
		}
	}
	if _, err := l.Find("gemma-demo"); err == nil || !strings.Contains(err.Error(), "godwit pull gemma-demo") {
		t.Errorf("error is %v", err)
	}
	if _, err := l.Find("nope"); err == nil || !strings.Contains(err.Error(), "it has tiny-Q8_0, two-tiny-Q8_0") {
		t.Errorf("error is %v", err)
	}
}

func TestImport(t *testing.T) {
	l, err := Open(Options{Dir: filepath.Join(t.TempDir(), "models")})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(l.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	data := tinyModel(t, 1000, 1, gguf.KV{Key: "general.license", Value: "mit\n"})
	place := filepath.Join(t.TempDir(), "mine.gguf")
	write(t, place, data)
	m, err := l.Import(t.Context(), place, nil)
	if err != nil || m.Name != "mine" || !m.Linked || m.SHA256 != digest(data) || m.Licence != "mit" || m.Path != place {
		t.Fatalf("the model is %+v, %v", m, err)
	}
	if _, err := l.Import(t.Context(), place, nil); !errors.Is(err, ErrExists) {
		t.Errorf("error is %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad.gguf")
	write(t, bad, []byte("<html>"))
	if _, err := l.Import(t.Context(), bad, nil); !errors.Is(err, gguf.ErrNotGGUF) {
		t.Errorf("error is %v", err)
	}
	if err := l.Verify(t.Context(), "mine", nil); err != nil {
		t.Error(err)
	}
	data[len(data)-40]++
	write(t, place, data)
	if err := l.Verify(t.Context(), "mine", nil); !errors.Is(err, ErrDigest) {
		t.Errorf("error is %v", err)
	}
	if err := l.Remove(t.Context(), "mine"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(place); err != nil {
		t.Errorf("a linked file was deleted: %v", err)
	}
	if list, err := l.List(); err != nil || len(list) > 0 {
		t.Errorf("the list is %v, %v", names(list), err)
	}
	inside := filepath.Join(l.Dir(), "in.gguf")
	write(t, inside, data)
	if m, err := l.Import(t.Context(), inside, nil); err != nil || m.Linked {
		t.Errorf("a file of the model folder becomes %+v, %v", m, err)
	}
}

// A damaged index is renamed. Entries that point out of the folder are dropped, and
// removing such an entry deletes nothing.
func TestHostileIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "models")
	victim := filepath.Join(filepath.Dir(dir), "victim.gguf")
	write(t, victim, tinyModel(t, 1000, 1))
	l, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, indexName), []byte(`{"version":1,"models":[`))
	write(t, filepath.Join(dir, "kept.gguf"), tinyModel(t, 1000, 2))
	if list, err := l.List(); err != nil || !slices.Equal(names(list), []string{"kept"}) {
		t.Errorf("the list is %v, %v", names(list), err)
	}
	if _, err := os.Stat(filepath.Join(dir, indexName+".damaged")); err != nil {
		t.Error(err)
	}
	b, err := json.Marshal(index{Version: 1, Models: []entry{
		{Name: "v", Files: []entryFile{{Path: "../victim.gguf"}}},
		{Name: "w", Files: []entryFile{{Path: victim}}},
		{Name: "x", Linked: true, Files: []entryFile{{Path: "kept.gguf"}}},
		{Name: "", Files: []entryFile{{Path: "kept.gguf"}}},
		{Name: "z"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, indexName), b)
	if list, err := l.List(); err != nil || !slices.Equal(names(list), []string{"kept"}) {
		t.Errorf("the list is %v, %v", names(list), err)
	}
	write(t, filepath.Join(dir, indexName), []byte(`{"version":99}`))
	if _, err := l.List(); err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("error is %v", err)
	}
}

// If a subfolder of the model folder links to another place, writing and deleting
// do not follow the link.
func TestLinkedFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	h := newHub(t, map[string][]byte{file: tinyModel(t, 1000, 1)})
	l := h.library(t, Options{})
	outside := t.TempDir()
	if err := errors.Join(os.MkdirAll(l.Dir(), 0o755), os.Symlink(outside, filepath.Join(l.Dir(), "own"))); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Pull(t.Context(), "own/tiny-GGUF", nil); err == nil {
		t.Error("a pull goes through a link out of the folder")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("written outside: %v, %v", entries, err)
	}
}

func TestDemoFileWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	demo, _ := fetch.Demo("demo")
	place := filepath.Join(dir, demo.File)
	write(t, place, tinyModel(t, 1000, 1))
	if err := os.Truncate(place, demo.Size); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := l.Find("demo"); err != nil || m.Path != place || m.Licence != "apache-2.0" {
		t.Errorf("found %+v, %v", m, err)
	}
}

func TestSearch(t *testing.T) {
	h := newHub(t, map[string][]byte{
		file:                                 tinyModel(t, 1000, 1),
		"own/tiny-GGUF/tiny-Q4_K_M.gguf":     tinyModel(t, 500, 1),
		"own/tiny-GGUF/mmproj-tiny-f16.gguf": tinyModel(t, 500, 1),
		"two/tiny-b/b.gguf":                  tinyModel(t, 1000, 2),
		"two/other/c.gguf":                   tinyModel(t, 1000, 2),
	})
	h.api = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/api/models/two/tiny-b" {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	}
	l := h.library(t, Options{})
	repos, err := l.Search(t.Context(), "tiny", 0)
	if err != nil || len(repos) != 2 {
		t.Fatalf("found %+v, %v", repos, err)
	}
	slices.SortFunc(repos, func(a, b Repo) int { return strings.Compare(a.ID, b.ID) })
	a, b := repos[0], repos[1]
	if a.ID != "own/tiny-GGUF" || a.Licence != "apache-2.0" || a.Downloads != 7 || a.Likes != 3 || a.Gated || a.Error != "" || len(a.Models) != 2 ||
		a.Models[0].Ref != "own/tiny-GGUF:Q4_K_M" || a.Models[1].Quant != "Q8_0" || a.Models[1].Size != int64(len(h.files[file])) {
		t.Errorf("the first is %+v", a)
	}
	if b.ID != "two/tiny-b" || !strings.Contains(b.Error, "403") {
		t.Errorf("the second is %+v", b)
	}
}

func TestChange(t *testing.T) {
	l, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"not an address", "ftp://x.example", "https://", "https://u:p@x.example", "https://x.example?q"} {
		if err := l.Change(nil, bad, ""); err == nil {
			t.Errorf("%q is taken for a hub", bad)
		}
	}
	if err := l.Change(nil, "https://other.example", ""); err != nil || l.hub().base.Host != "other.example" {
		t.Errorf("the hub is %v, %v", l.hub().base, err)
	}
	if err := l.Change(nil, "", ""); err != nil || l.hub().base.String() != DefaultURL {
		t.Errorf("the hub is %v, %v", l.hub().base, err)
	}
}
