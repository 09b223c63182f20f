package hub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"godwit/engine/fetch"
	"godwit/engine/gguf"
)

// Model is a model of the library.
type Model struct {
	Name    string    `json:"name"`
	Path    string    `json:"path"` // absolute path of the first file
	Paths   []string  `json:"paths"`
	Size    int64     `json:"size"`             // total size of all files
	SHA256  string    `json:"sha256,omitempty"` // SHA-256 of the first file; "" if it was never computed
	Licence string    `json:"licence,omitempty"`
	Ref     string    `json:"ref,omitempty"`    // pulled reference
	Source  string    `json:"source,omitempty"` // owner/repo@commit or package==version
	Linked  bool      `json:"linked"`           // whether the files are outside the model folder; such files are never deleted
	Added   time.Time `json:"added,omitzero"`
	Error   string    `json:"error,omitempty"`   // reason why the model cannot be used
	Profile *Profile  `json:"profile,omitempty"` // profile of a model that shares another model's files
	Info
}

// model builds a Model from an entry and its file.
func (l *Library) model(e entry, template bool) Model {
	m := Model{Name: e.Name, Licence: e.Licence, Ref: e.Ref, Source: e.Source, Linked: e.Linked, Added: e.Added, SHA256: e.Files[0].SHA256, Profile: e.Profile}
	for _, f := range e.Files {
		p := filepath.FromSlash(f.Path)
		if !filepath.IsAbs(p) {
			p = filepath.Join(l.dir, p)
		}
		m.Paths = append(m.Paths, p)
		m.Size += f.Size
	}
	m.Path = m.Paths[0]
	m.inspect(template)
	return m
}

// inspect sets Info from the file, or Error.
func (m *Model) inspect(template bool) {
	info, err := Describe(m.Path)
	if err != nil {
		m.Error = err.Error()
		return
	}
	m.Info = info
	m.Vision = projectorBeside(m.Path, info.Embedding)
	if !template {
		m.Template = ""
	}
	m.Licence = cmp.Or(m.Licence, info.Licence)
}

// List returns all models by name: the models in the index and other GGUF files in
// the model folder and in Options.Folders.
func (l *Library) List() ([]Model, error) {
	entries, err := l.entries()
	if err != nil {
		return nil, err
	}
	list := make([]Model, 0, len(entries))
	for _, e := range entries {
		list = append(list, l.model(e, false))
	}
	return list, nil
}

// entries returns the index plus entries for files that are not in it. All names
// are different.
func (l *Library) entries() ([]entry, error) {
	x, err := l.readIndex()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, e := range x.Models {
		for _, f := range e.Files {
			known[l.abs(f.Path)] = true
		}
	}
	list := x.Models
	for i, dir := range append([]string{l.dir}, l.from.Load().folders...) {
		found, err := scan(dir)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if known[p] {
				continue
			}
			known[p] = true
			list = append(list, l.unlisted(p, i > 0))
		}
	}
	slices.SortStableFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	used := map[string]bool{}
	for _, e := range x.Models {
		used[strings.ToLower(e.Name)] = true
	}
	for i := range list {
		if list[i].found { // names in the index are already unique
			base := list[i].Name
			for n := 2; used[strings.ToLower(list[i].Name)]; n++ {
				list[i].Name = fmt.Sprintf("%s-%d", base, n)
			}
			used[strings.ToLower(list[i].Name)] = true
		}
	}
	return list, nil
}

// abs returns the path of an entry's file.
func (l *Library) abs(p string) string {
	if p = filepath.FromSlash(p); filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(l.dir, p)
}

// unlisted makes an entry for a file that is not in the index.
func (l *Library) unlisted(p string, linked bool) entry {
	e := entry{Name: stem(p), Linked: linked, found: true}
	paths := []string{p}
	if parts, ok := gguf.SplitParts(p); ok {
		paths = parts
	}
	for _, p := range paths {
		f := entryFile{Path: p}
		if info, err := os.Stat(p); err == nil {
			f.Size = info.Size()
		}
		if rel, err := filepath.Rel(l.dir, p); err == nil && !linked {
			f.Path = filepath.ToSlash(rel)
		}
		e.Files = append(e.Files, f)
	}
	for _, demo := range fetch.Demos() { // an earlier version or a test has downloaded the file
		if filepath.Base(p) == demo.File && e.Files[0].Size == demo.Size && !linked {
			e.Name, e.Ref, e.Licence = demo.Name, demo.Name, demo.Licence
		}
	}
	return e
}

// Limits of the search for models in a folder.
const (
	scanDepth = 5
	scanMost  = 10000 // maximum number of files and folders
)

// scan finds the GGUF files below dir. Of a split model, it finds the first
// part. It skips hidden files and folders, and files that are not complete
// models.
func scan(dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	seen := 0
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreUnreadable(err)
		}
		if seen++; seen > scanMost {
			return fs.SkipAll
		}
		rel, _ := filepath.Rel(dir, p)
		if d.IsDir() {
			if p != dir && strings.HasPrefix(d.Name(), ".") || strings.Count(rel, string(filepath.Separator)) >= scanDepth {
				return fs.SkipDir
			}
			return nil
		}
		base := strings.ToLower(d.Name())
		if filepath.Ext(base) != ".gguf" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "mmproj") {
			return nil
		}
		if _, no, _, ok := gguf.Part(p); ok && no > 1 {
			return nil
		}
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() { // links to files are followed
			found = append(found, p)
		}
		return nil
	})
	return found, err
}

func ignoreUnreadable(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	return ignoreMissing(err)
}

// Find returns the model with a name. The name may be one from List in any case, a
// pulled reference, the name of a file in the library, or the path of any file.
func (l *Library) Find(name string) (Model, error) {
	if strings.ContainsAny(name, `/\`) || strings.HasSuffix(strings.ToLower(name), ".gguf") {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			return l.atPath(name)
		}
	}
	entries, err := l.entries()
	if err != nil {
		return Model{}, err
	}
	tests := []func(e entry) bool{
		func(e entry) bool { return e.Name == name },
		func(e entry) bool { return strings.EqualFold(e.Name, name) },
		func(e entry) bool { return e.Ref != "" && strings.EqualFold(e.Ref, name) },
		func(e entry) bool {
			return e.Profile == nil && strings.EqualFold(stem(e.Files[0].Path), strings.TrimSuffix(name, ".gguf"))
		},
		func(e entry) bool { repo, _, ok := strings.Cut(e.Ref, ":"); return ok && strings.EqualFold(repo, name) },
	}
	for _, ok := range tests {
		for _, e := range entries {
			if ok(e) && name != "" {
				return l.model(e, true), nil
			}
		}
	}
	return Model{}, fmt.Errorf("%w: %q is neither a file nor in the library%s", ErrNotFound, name, hint(name, entries))
}

// hint suggests what the user may have meant.
func hint(name string, entries []entry) string {
	if _, ok := fetch.Demo(name); ok {
		return "; fetch it with: godwit pull " + name
	}
	if len(entries) == 0 {
		return ", which is empty; begin with: godwit pull demo"
	}
	var names []string
	for _, e := range entries[:min(len(entries), 10)] {
		names = append(names, e.Name)
	}
	if len(entries) > len(names) {
		names = append(names, "…")
	}
	return "; it has " + strings.Join(names, ", ")
}

// atPath returns the model in a file, with its index entry if there is one.
func (l *Library) atPath(p string) (Model, error) {
	p, err := filepath.Abs(p)
	if err != nil {
		return Model{}, err
	}
	entries, err := l.entries()
	if err != nil {
		return Model{}, err
	}
	for _, e := range entries {
		if e.Profile == nil && slices.ContainsFunc(e.Files, func(f entryFile) bool { return l.abs(f.Path) == p }) {
			return l.model(e, true), nil
		}
	}
	if parts, ok := gguf.SplitParts(p); ok {
		p = parts[0]
	}
	return l.model(l.unlisted(p, true), true), nil
}

// Import links a model into the library. The file, or all parts of a split model,
// stay where they are. Import reads them once to compute the SHA-256.
func (l *Library) Import(ctx context.Context, p string, progress func(Progress)) (Model, error) {
	p, err := filepath.Abs(p)
	if err != nil {
		return Model{}, err
	}
	f, err := gguf.Open(p)
	if err != nil {
		return Model{}, fmt.Errorf("%w: %w", ErrFile, err)
	}
	info, paths, total := describe(f), f.Paths(), f.Size()
	if err := f.Close(); err != nil {
		return Model{}, err
	}
	x, err := l.readIndex()
	if err != nil {
		return Model{}, err
	}
	for _, e := range x.Models {
		if e.Profile == nil && l.abs(e.Files[0].Path) == paths[0] {
			return l.model(e, true), fmt.Errorf("%w: %s, as %s", ErrExists, paths[0], e.Name)
		}
	}
	e := entry{Name: stem(paths[0]), Linked: true, Licence: info.Licence, Added: time.Now().UTC().Truncate(time.Second)}
	if rel, err := filepath.Rel(l.dir, paths[0]); err == nil && filepath.IsLocal(rel) {
		e.Linked = false
	}
	meter := &meter{f: progress, now: time.Now, p: Progress{Name: e.Name, Total: total}}
	for _, p := range paths {
		file, err := hashFile(ctx, p, meter)
		if err != nil {
			return Model{}, err
		}
		if rel, err := filepath.Rel(l.dir, p); err == nil && !e.Linked {
			file.Path = filepath.ToSlash(rel)
		}
		e.Files = append(e.Files, file)
	}
	meter.done()
	return l.add(ctx, e)
}

func hashFile(ctx context.Context, p string, m *meter) (entryFile, error) {
	f, err := os.Open(p)
	if err != nil {
		return entryFile{}, err
	}
	defer f.Close()
	m.p.File = filepath.Base(p)
	t := &transfer{sum: sha256.New(), report: m.report}
	if err := t.read(ctx, f); err != nil {
		return entryFile{}, err
	}
	m.base += t.n
	return entryFile{Path: p, Size: t.n, SHA256: hex.EncodeToString(t.sum.Sum(nil))}, nil
}

// Verify compares a model's files with the SHA-256 recorded when they were added.
// It accepts a model without a recorded SHA-256.
func (l *Library) Verify(ctx context.Context, name string, progress func(Progress)) error {
	m, err := l.Find(name)
	if err != nil {
		return err
	}
	x, err := l.readIndex()
	if err != nil {
		return err
	}
	meter := &meter{f: progress, now: time.Now, p: Progress{Name: m.Name, Total: m.Size}}
	for _, e := range x.Models {
		if e.Name != m.Name {
			continue
		}
		for _, f := range e.Files {
			got, err := hashFile(ctx, l.abs(f.Path), meter)
			if err != nil {
				return err
			}
			if f.SHA256 != "" && got.SHA256 != f.SHA256 {
				return fmt.Errorf("%w: %s has %s, but had %s when it was downloaded; remove it and pull it again", ErrDigest, f.Path, got.SHA256, f.SHA256)
			}
		}
	}
	meter.done()
	return nil
}

// Remove removes a model from the library. Files in the model folder are deleted
// unless a derived model shares them. Linked files are never deleted. Models in
// Options.Folders cannot be removed.
func (l *Library) Remove(ctx context.Context, name string) error {
	m, err := l.Find(name)
	if err != nil {
		return err
	}
	entries, err := l.entries()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(entries, func(e entry) bool { return e.Name == m.Name && l.abs(e.Files[0].Path) == m.Path })
	if i < 0 || entries[i].Linked && entries[i].found {
		return fmt.Errorf("%w: %s is outside of %s; delete the file yourself", ErrNotFound, m.Path, l.dir)
	}
	e := entries[i]
	entries = slices.Delete(entries, i, i+1)
	shared := slices.ContainsFunc(entries, func(o entry) bool { return o.Files[0].Path == e.Files[0].Path })
	if e.Profile != nil {
		err = l.forget(ctx, &e)
	} else {
		err = l.drop(ctx, &e, shared)
	}
	if err == nil && !shared && l.o.Removed != nil {
		err = l.o.Removed(ctx, m.Path)
	}
	return err
}

// drop removes a model from the index. It also removes the model's files,
// unless they are linked or derived models share them.
func (l *Library) drop(ctx context.Context, e *entry, shared bool) error {
	if shared {
		return l.change(ctx, func(x *index) error { // models that are derived from it keep the files
			x.Models = slices.DeleteFunc(x.Models, func(old entry) bool { return old.Name == e.Name && old.Profile == nil })
			return nil
		})
	}
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a folder opened for reading
	if !e.Linked {
		for _, f := range e.Files {
			if err := ignoreMissing(root.Remove(filepath.FromSlash(f.Path))); err != nil {
				return fmt.Errorf("could not remove %s (is the model in use?): %w", f.Path, err)
			}
		}
		if err := dropProjectors(root, path.Dir(e.Files[0].Path)); err != nil {
			return err
		}
		if err := prune(root, path.Dir(e.Files[0].Path)); err != nil {
			return err
		}
	}
	return l.change(ctx, func(x *index) error {
		x.Models = slices.DeleteFunc(x.Models, func(old entry) bool { return old.Files[0].Path == e.Files[0].Path })
		return nil
	})
}
