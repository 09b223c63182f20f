package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"godwit/engine/fetch"
	"godwit/engine/gguf"
)

const (
	indexName    = "index.json"
	indexVersion = 1
)

// index is the file that records where models came from. It may be incomplete
// or missing, because models are also found by their files.
type index struct {
	Version int     `json:"version"`
	Models  []entry `json:"models"`
}

type entry struct {
	Name    string      `json:"name"`
	Ref     string      `json:"ref,omitempty"`    // pulled reference
	Source  string      `json:"source,omitempty"` // owner/repo@commit or package==version
	Licence string      `json:"licence,omitempty"`
	Files   []entryFile `json:"files"`
	Linked  bool        `json:"linked,omitempty"` // whether the files are outside the model folder; such files are never deleted
	Added   time.Time   `json:"added"`
	Profile *Profile    `json:"profile,omitempty"` // profile of a model that shares another model's files

	found bool // whether the entry comes from a file and not from the index
}

type entryFile struct {
	Path   string `json:"path"` // path relative to the model folder, with slashes; absolute if the model is linked
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// readIndex returns the entries. It renames a damaged index and reports it.
func (l *Library) readIndex() (index, error) {
	empty := index{Version: indexVersion}
	b, err := os.ReadFile(filepath.Join(l.dir, indexName))
	if errors.Is(err, os.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, err
	}
	var x index
	err = json.Unmarshal(b, &x)
	switch {
	case err == nil && x.Version > indexVersion:
		return empty, fmt.Errorf("%s has version %d, but this Godwit supports only %d; use a newer Godwit", filepath.Join(l.dir, indexName), x.Version, indexVersion)
	case err != nil:
		aside := filepath.Join(l.dir, indexName+".damaged")
		l.log.Warn("damaged model index renamed", "err", err, "path", aside)
		return empty, os.Rename(filepath.Join(l.dir, indexName), aside)
	}
	x.Models = slices.DeleteFunc(x.Models, func(e entry) bool { return !e.valid() })
	return x, nil
}

// valid rejects entries with files outside the model folder.
func (e *entry) valid() bool {
	for _, f := range e.Files {
		if e.Linked != filepath.IsAbs(f.Path) || !e.Linked && !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return false
		}
	}
	return e.Name != "" && len(e.Files) > 0
}

// change rewrites the index under a lock that excludes other processes.
func (l *Library) change(ctx context.Context, do func(x *index) error) error {
	unlock, err := fetch.Lock(ctx, filepath.Join(l.dir, ".locks", "index"))
	if err != nil {
		return err
	}
	defer unlock()
	x, err := l.readIndex()
	if err != nil {
		return err
	}
	if err := do(&x); err != nil {
		return err
	}
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return err
	}
	return errors.Join(writeJSON(root, indexName, x), root.Close())
}

// add puts an entry into the index, replacing an entry for the same files, and
// gives it a name that no other model has.
func (l *Library) add(ctx context.Context, e entry) (Model, error) {
	err := l.change(ctx, func(x *index) error {
		x.Models = slices.DeleteFunc(x.Models, func(old entry) bool { return old.Profile == nil && old.Files[0].Path == e.Files[0].Path })
		taken := func(name string) bool {
			return slices.ContainsFunc(x.Models, func(old entry) bool { return strings.EqualFold(old.Name, name) })
		}
		base := e.Name
		if owner, _, ok := strings.Cut(e.Ref, "/"); ok && taken(e.Name) {
			e.Name, base = owner+"-"+base, owner+"-"+base
		}
		for i := 2; taken(e.Name); i++ {
			e.Name = fmt.Sprintf("%s-%d", base, i)
		}
		x.Models = append(x.Models, e)
		return nil
	})
	if err != nil {
		return Model{}, err
	}
	return l.model(e, true), nil
}

// pulled finds a model that was pulled with ref and has all its files.
func (l *Library) pulled(ref Ref) (Model, error) {
	x, err := l.readIndex()
	if err != nil {
		return Model{}, err
	}
	for _, e := range x.Models {
		if strings.EqualFold(e.Ref, ref.String()) {
			if m := l.model(e, true); m.Error == "" {
				return m, nil
			}
		}
	}
	return Model{}, fmt.Errorf("%w: %s was not pulled", ErrNotFound, ref)
}

// stem returns a file's name as a model name, without folder, extension and part
// number.
func stem(file string) string {
	base := path.Base(filepath.ToSlash(file))
	if stem, no, _, ok := gguf.Part(base); ok && no == 1 {
		return stem
	}
	return strings.TrimSuffix(base, path.Ext(base))
}
