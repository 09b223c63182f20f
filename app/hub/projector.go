package hub

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"godwit/engine/gguf"
)

// isProjector reports whether a file has the name of a picture projector.
func isProjector(name string) bool {
	name = strings.ToLower(filepath.Base(name))
	return strings.HasPrefix(name, "mmproj") && filepath.Ext(name) == ".gguf"
}

// projectorTypes lists the types of projectors in order of preference. 16 bits
// come first, then 8 bits. Full precision is last, because it costs memory and
// gains nothing.
var projectorTypes = []string{"F16", "BF16", "Q8_0", "F32"}

// projectorOf picks one of a repository's projectors, or returns nil if there is
// none.
func projectorOf(files []RepoFile) *RepoFile {
	var best *RepoFile
	rank := func(f *RepoFile) int {
		if i := slices.Index(projectorTypes, strings.ReplaceAll(quantOf(f.Name), "FP", "F")); i >= 0 {
			return i
		}
		return len(projectorTypes)
	}
	for i := range files {
		f := &files[i]
		if isProjector(f.Name) && (best == nil || rank(f) < rank(best)) {
			best = f
		}
	}
	return best
}

// dropProjectors removes the projectors in a folder without models.
func dropProjectors(root *os.Root, dir string) error {
	list, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range list {
		if strings.EqualFold(path.Ext(e.Name()), ".gguf") && !isProjector(e.Name()) {
			return nil
		}
	}
	for _, e := range list {
		if isProjector(e.Name()) {
			if err := ignoreMissing(root.Remove(filepath.Join(filepath.FromSlash(dir), e.Name()))); err != nil {
				return err
			}
		}
	}
	return nil
}

// projectorBeside reports whether a model's folder contains a projector for models
// of the given width.
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

// projects reports whether a projector's rows have the given width.
func projects(path string, width int) bool {
	f, err := gguf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	n, ok := f.KV.Uint("clip.vision.projection_dim")
	return ok && n == uint64(width)
}
