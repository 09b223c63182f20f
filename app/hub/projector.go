package hub

import (
	"os"
	"path/filepath"
	"strings"

	"godwit/engine/gguf"
)

// isProjector reports whether a file is named like a projector for pictures.
func isProjector(name string) bool {
	name = strings.ToLower(filepath.Base(name))
	return strings.HasPrefix(name, "mmproj") && filepath.Ext(name) == ".gguf"
}

// projectorBeside reports whether a projector for models of a width lies in a model's
// folder.
func projectorBeside(path string, width int) bool {
	dir := filepath.Dir(path)
	list, err := os.ReadDir(dir)
	if err != nil || width == 0 {
		return false
	}
	for _, e := range list {
		if !e.IsDir() && isProjector(e.Name()) && projects(filepath.Join(dir, e.Name()), width) {
			return true
		}
	}
	return false
}

// projects reports whether a projector makes rows of a width.
func projects(path string, width int) bool {
	f, err := gguf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	n, ok := f.KV.Uint("clip.vision.projection_dim")
	return ok && n == uint64(width)
}
