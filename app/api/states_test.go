package api

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit/app/api/llamaserver"
	"godwit/engine"
)

// Slots are saved, erased and restored, also in a new server, and restored slots
// are used.
func TestSlots(t *testing.T) {
	dir := t.TempDir()
	ask := object{"prompt": strings.Repeat("the sea and the sand, ", 30), "max_tokens": 8, "id_slot": 2}
	first := startModel(t, func(o *setup) { o.States = dir })
	text := at(first.post("/v1/completions", ask), "choices", 0, "text")
	saved := first.post("/slots/2?action=save", object{"filename": "sea.bin"})
	info, err := os.Stat(filepath.Join(dir, "sea.bin"))
	if err != nil || saved["n_written"] != float64(info.Size()) || saved["n_saved"].(float64) < 128 {
		t.Fatalf("saved %v, %v", saved, err)
	}
	if r := first.post("/slots/2?action=erase", object{}); r["n_erased"] != saved["n_saved"] {
		t.Errorf("erased %v of %v", r["n_erased"], saved["n_saved"])
	}
	if list := first.ask("GET", "/slots", nil).body; !bytes.Contains(list, []byte(`"id":2,"n_ctx":1024,"is_processing":false,"n_tokens":0`)) {
		t.Errorf("slots: %s", list)
	}
	first.end()
	v := startModel(t, func(o *setup) { o.States = dir })
	if r := v.post("/slots/1?action=restore", object{"filename": "sea.bin"}); r["n_restored"] != saved["n_saved"] || r["n_read"] != saved["n_written"] {
		t.Errorf("restored %v, saved %v", r, saved)
	}
	delete(ask, "id_slot")
	r := v.post("/v1/completions", ask)
	if n := at(r, "usage", "prompt_tokens_details", "cached_tokens").(float64); n < 128 || at(r, "choices", 0, "text") != text {
		t.Errorf("%v tokens of the restored slot were used; %v, want %v", n, at(r, "choices", 0, "text"), text)
	}
	// damaged files, invalid names, and missing files
	data, err := os.ReadFile(filepath.Join(dir, "sea.bin"))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(filepath.Join(dir, "torn.bin"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(filepath.Join(dir, "longer.bin"), append(data, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Mkdir(filepath.Join(dir, "folder"), 0o700), os.Symlink(t.TempDir(), filepath.Join(dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"folder", "link", "torn.bin", "longer.bin", "none.bin", "../sea.bin", ".sea.bin", "a/b", `a\b`, "x.part"}
	for _, name := range names {
		if r := v.ask("POST", "/slots/0?action=restore", object{"filename": name}); r.status != 400 {
			t.Errorf("restore of %s: %d %s", name, r.status, r.body)
		}
	}
	if r := v.ask("POST", "/slots/99?action=erase", nil); r.status != 400 {
		t.Errorf("a slot that is not there: %d %s", r.status, r.body)
	}
	v.post("/v1/completions", object{"prompt": "still there", "max_tokens": 1})
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The folder of saved slots stays within its budget. The oldest files are deleted
// first, and other files are kept.
func TestStateBudget(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	torn := map[string]bool{".killed.part": true, ".others.part": false, ".new.part": false, ".part": false} // false if the file is kept
	for name, ours := range torn {
		text, age := "of another program", 2*llamaserver.PartAge
		if ours || name == ".new.part" {
			text = engine.SlotMagic
		}
		if name == ".new.part" {
			age = 0
		}
		path, then := filepath.Join(dir, name), time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	v := startModel(t, func(o *setup) { o.States = dir; o.Settings.Server.StateBudget = 2 << 20 })
	v.post("/v1/completions", object{"prompt": strings.Repeat("sand ", 20), "max_tokens": 1, "id_slot": 0})
	var size float64
	for i := range 5 {
		size = v.post("/slots/0?action=save", object{"filename": fmt.Sprintf("s%d", i)})["n_written"].(float64)
		now := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, fmt.Sprintf("s%d", i)), now, now); err != nil {
			t.Fatal(err)
		}
	}
	fit := int(float64(2<<20) / size)
	for i := range 5 {
		_, err := os.Stat(filepath.Join(dir, fmt.Sprintf("s%d", i)))
		if kept := err == nil; kept != (i >= 5-fit) {
			t.Errorf("file %d of 5 is kept: %v; %d fit", i, kept, fit)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "notes.txt")); err != nil {
		t.Errorf("another file: %v", err)
	}
	for name, gone := range torn {
		if _, err := os.Stat(filepath.Join(dir, name)); gone != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want it gone: %v", name, err, gone)
		}
	}
	v.post("/v1/completions", object{"prompt": strings.Repeat("sand ", 150), "max_tokens": 1, "id_slot": 1})
	if r := v.ask("POST", "/slots/1?action=save", object{"filename": "large"}); r.status != http.StatusInsufficientStorage {
		t.Errorf("a state over the budget: %d %s", r.status, r.body)
	}
}
