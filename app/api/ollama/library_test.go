package ollama

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"godwit/app/hub"
)

// A file that was copied into the folder is described as completely as a pulled
// one.
func TestModelOfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.gguf")
	if err := os.WriteFile(path, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	m := hub.Model{Name: "a", Path: path, Size: 4}
	got := NewModel(&m)
	if got.Modified != "2024-05-06T07:08:09Z" || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(got.Digest) || got.Digest != NewModel(&m).Digest {
		t.Errorf("%+v", got)
	}
	m.SHA256, m.Added = "ab", old.AddDate(1, 0, 0)
	if got := NewModel(&m); got.Digest != "ab" || got.Modified != "2025-05-06T07:08:09Z" {
		t.Errorf("%+v", got)
	}
}
