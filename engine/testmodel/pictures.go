package testmodel

import (
	"os"
	"path/filepath"
	"testing"

	"godwit/engine/internal/golden"
)

// Pictures returns a folder with two small models and a picture. see.gguf reads
// pictures and has its projector beside it. blind.gguf has another width and does
// not read pictures.
func Pictures(t testing.TB) (dir string, picture []byte) {
	t.Helper()
	dir = t.TempDir()
	link := func(from, name string) {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range golden.Towers(t) {
		switch m.Name {
		case "gemma3":
			link(m.Path(t, m.Text), "see.gguf")
			link(m.Path(t, m.MMProj), "mmproj-see.gguf")
			picture = m.Picture(t, 1)
		case "qwen2vl":
			link(m.Path(t, m.Text), "blind.gguf")
		}
	}
	return dir, picture
}
