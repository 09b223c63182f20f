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
	Path    string    `json:"path"` // path of the first file, absolute
	Paths   []string  `json:"paths"`
	Size    int64     `json:"size"`             // bytes of all files
	SHA256  string    `json:"sha256,omitempty"` // SHA-256 of the first file; "" where nobody computed it
	Licence string    `json:"licence,omitempty"`
	Ref     string    `json:"ref,omitempty"`    // what was pulled
	Source  string    `json:"source,omitempty"` // owner/repo@commit, or package==version
	Linked  bool      `json:"linked"`           // lies elsewhere and is never deleted
	Added   time.Time `json:"added,omitzero"`
	Error   string    `json:"error,omitempty"`   // why it cannot be used
	Profile *Profile  `json:"profile,omitempty"` // profile of a model that shares the files of another one
	Info
}

// model completes an entry from its file.
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

// inspect fills Info from the file, or Error.
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

// List returns all models by name: those of the index, and the other GGUF
// files of the model folder and of Options.Folders.
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

// entries is the index completed by the files that are not in it, with
// different names.
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
		if list[i].found { // names of the index differ already
			base := list[i].Name
			for n := 2; used[strings.ToLower(list[i].Name)]; n++ {
				list[i].Name = fmt.Sprintf("%s-%d", base, n)
			}
			used[strings.ToLower(list[i].Name)] = true
		}
	}
	return list, nil
}

// abs is the path of an entry's file.
func (l *Library) abs(p string) string {
	if p = filepath.FromSlash(p); filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(l.dir, p)
}

// unlisted makes an entry of a file that the index does not know.
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
	for _, demo := range fetch.Demos() { // fetched by a test or an earlier version
		if filepath.Base(p) == demo.File && e.Files[0].Size == demo.Size && !linked {
			e.Name, e.Ref, e.Licence = demo.Name, demo.Name, demo.Licence
		}
	}
	return e
}

// Limits on looking for models in a folder.
const (
	scanDepth = 5
	scanMost  = 10000 // files and folders
)

// scan finds the GGUF files below dir: of a split model the first part. Hidden
// folders and files that are not models of their own are left out.
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
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() { // a link to a file counts
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

// Find returns the model of that name: a name of List in any case, what was
// pulled, the name of a file in the library, or the path of a file anywhere.
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

// hint says what could have been meant.
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

// atPath returns the model of a file, with its entry where there is one.
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

// Import links a model into the library: the file, or all parts of a split
// one, stays where it is. It is read once for its SHA-256.
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

// Verify reads the files of a model and compares them with the SHA-256 that
// they had when they came. A model without one passes.
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
				return fmt.Errorf("%w: %s has %s, it came with %s; remove it and pull it again", ErrDigest, f.Path, got.SHA256, f.SHA256)
			}
		}
	}
	meter.done()
	return nil
}

// Remove takes a model out of the library. Files in the model folder are
// deleted unless a model made of it shares them, linked ones stay. Models in Options.Folders are not ours to remove.
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
		return fmt.Errorf("%w: %s lies outside of %s; delete the file yourself", ErrNotFound, m.Path, l.dir)
	}
	e := entries[i]
	if e.Profile != nil {
		return l.forget(ctx, &e)
	}
	if entries = slices.Delete(entries, i, i+1); slices.ContainsFunc(entries, func(o entry) bool { return o.Files[0].Path == e.Files[0].Path }) {
		return l.change(ctx, func(x *index) error { // models made of it keep the files
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
				return fmt.Errorf("%s is not removed (is the model in use?): %w", f.Path, err)
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
