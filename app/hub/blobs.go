package hub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"godwit/engine/gguf"
)

// blobAge is how long an uploaded file is kept if no model is made from it.
const blobAge = 24 * time.Hour

var digestForm = regexp.MustCompile(`^sha256[:-]([0-9a-f]{64})$`)

// blob returns the path of an uploaded file.
func (l *Library) blob(digest string) (path, sum string, err error) {
	m := digestForm.FindStringSubmatch(digest)
	if m == nil {
		return "", "", fmt.Errorf("%w: digest %.80q, want sha256: and 64 hexadecimal digits", ErrName, digest)
	}
	return filepath.Join(l.dir, ".blobs", "sha256-"+m[1]), m[1], nil
}

// HasBlob reports whether a file with this digest was uploaded or belongs to a model.
func (l *Library) HasBlob(digest string) (bool, error) {
	path, sum, err := l.blob(digest)
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(path); err == nil {
		return true, nil
	}
	_, found, err := l.holder(sum)
	return found, err
}

// holder returns the entry whose only file has the given SHA-256.
func (l *Library) holder(sum string) (entry, bool, error) {
	x, err := l.readIndex()
	if err != nil {
		return entry{}, false, err
	}
	for _, e := range x.Models {
		if len(e.Files) == 1 && e.Files[0].SHA256 == sum {
			return e, true, nil
		}
	}
	return entry{}, false, nil
}

// WriteBlob stores an upload. It discards the file if its digest is wrong.
func (l *Library) WriteBlob(ctx context.Context, digest string, r io.Reader, size int64) (err error) {
	path, sum, err := l.blob(digest)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	l.sweep(dir)
	if size > l.max {
		return fmt.Errorf("%w: the upload has %s; the limit is %s", ErrSize, Bytes(size), Bytes(l.max))
	}
	if free, err := l.free(dir); err == nil && size > free {
		return fmt.Errorf("%w: the upload has %d bytes, but only %d are free", ErrSpace, size, free)
	}
	f, err := os.CreateTemp(dir, "part-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // otherwise the next sweep removes it
		}
	}()
	hash := sha256.New()
	_, err = io.Copy(f, io.TeeReader(io.LimitReader(r, l.max+1), hash))
	err = cmp.Or(err, f.Close(), ctx.Err())
	if diskFull(err) {
		return fmt.Errorf("%w: %w", ErrSpace, err)
	}
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != sum {
		return fmt.Errorf("%w: the upload has sha256:%s", ErrDigest, got)
	}
	return os.Rename(f.Name(), path)
}

// sweep removes old uploads from which no model was made.
func (l *Library) sweep(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, d := range list {
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > blobAge {
			if err := os.Remove(filepath.Join(dir, d.Name())); err != nil {
				l.log.Warn("old upload not removed", "err", err)
			}
		}
	}
}

// Assemble makes a model from uploaded GGUF files. files maps file names to
// digests. If there is only one file and an existing model has it, the new
// model shares it.
func (l *Library) Assemble(ctx context.Context, name string, files map[string]string, p Profile) (Model, error) {
	if err := checkDerived(name); err != nil {
		return Model{}, err
	}
	if len(files) == 0 {
		return Model{}, fmt.Errorf("%w: no file is given", ErrFile)
	}
	if len(files) > 1 {
		return Model{}, fmt.Errorf("%w: %d files are given, but a model is made from one GGUF file (adapters are set with --lora)", ErrFile, len(files))
	}
	file := slices.Collect(maps.Keys(files))[0]
	path, sum, err := l.blob(files[file])
	if err != nil {
		return Model{}, err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		e, found, err := l.holder(sum)
		switch {
		case err != nil:
			return Model{}, err
		case !found:
			return Model{}, fmt.Errorf("%w: file %.64q has the digest %s, which was not uploaded", ErrNotFound, file, files[file])
		}
		m := l.model(e, false)
		m.Profile, p.From = nil, m.Name // the models share only the file
		return l.Derive(ctx, name, &m, p)
	}
	e, err := l.adopt(name, path, sum)
	if err != nil {
		return Model{}, err
	}
	m, err := l.add(ctx, e)
	if err != nil || p.empty() {
		return m, err
	}
	return l.profiled(ctx, m.Name, p)
}

// empty reports whether a profile has no settings.
func (p *Profile) empty() bool {
	return p.System == "" && p.Template == "" && p.Parameters == nil && p.Messages == nil && p.Licence == ""
}

// adopt moves an upload into the model folder.
func (l *Library) adopt(name, path, sum string) (entry, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", ErrFile, err)
	}
	info, size := describe(f), f.Size()
	if err := f.Close(); err != nil {
		return entry{}, err
	}
	entries, err := l.entries()
	if err != nil {
		return entry{}, err
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name, name) {
			return entry{}, fmt.Errorf("%w: %s", ErrTaken, e.Name)
		}
	}
	local := strings.NewReplacer("/", "-", ":", "-").Replace(name) + "-" + sum[:12] + ".gguf"
	if err := os.Rename(path, filepath.Join(l.dir, local)); err != nil {
		return entry{}, err
	}
	return entry{
		Name: name, Licence: info.Licence, Added: time.Now().UTC().Truncate(time.Second),
		Files: []entryFile{{Path: local, Size: size, SHA256: sum}},
	}, nil
}

// profiled adds a profile to a model that has its own files.
func (l *Library) profiled(ctx context.Context, name string, p Profile) (Model, error) {
	var e entry
	err := l.change(ctx, func(x *index) error {
		i := slices.IndexFunc(x.Models, func(e entry) bool { return e.Name == name })
		if i < 0 {
			return fmt.Errorf("%w: %q", ErrNotFound, name)
		}
		x.Models[i].Profile = &p
		e = x.Models[i]
		return nil
	})
	if err != nil {
		return Model{}, err
	}
	return l.model(e, true), nil
}
