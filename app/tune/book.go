package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/fetch"
)

// FileName is the usual name of the file in the data folder.
const FileName = "model-settings.json"

// Limits of the file.
const (
	maxBytes  = 1 << 20
	maxModels = 2000
	version   = 1
)

// ErrFull is the error for more models than the file may hold.
var ErrFull = errors.New("too many models have settings of their own")

// ErrNewer is the error for a file of a newer program.
var ErrNewer = errors.New("the settings of models were written by a newer version of Godwit")

// Options of a Book. The zero value works.
type Options struct {
	Given  func(flags ...string) bool // reports whether the command line has one of these flags; nil for none
	Locked func(flag string) error    // returns an error if a policy locks the setting with a flag; nil for none
	Log    *slog.Logger               // nil for none
}

// Book is the file with the settings of all models, by the paths of their files. Its
// methods are safe for concurrent use, and several processes may share a file. A nil
// Book has no settings.
type Book struct {
	path string
	o    Options

	mu     sync.Mutex
	models map[string]Settings
	stamp  stamp
}

// stamp identifies a version of the file.
type stamp struct {
	time time.Time
	size int64
}

// content is the file.
type content struct {
	Version int                        `json:"version"`
	Models  map[string]json.RawMessage `json:"models"`
}

// Open returns the book in a file, which need not exist. It reads nothing yet.
func Open(path string, o Options) *Book {
	if o.Given == nil {
		o.Given = func(...string) bool { return false }
	}
	if o.Locked == nil {
		o.Locked = func(string) error { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Book{path: path, o: o}
}

// Of returns the settings of the model in a file.
func (b *Book) Of(path string) Settings {
	if b == nil || path == "" {
		return Settings{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read(); err != nil {
		b.o.Log.Warn("settings of models not read", "err", err, "path", b.path)
	}
	s := b.models[key(path)]
	s.Sampling = maps.Clone(s.Sampling)
	return s
}

// For returns the settings of a model without those that the command line sets or a
// policy locks.
func (b *Book) For(path string) Settings {
	if b == nil {
		return Settings{}
	}
	return b.Of(path).without(func(flags ...string) bool {
		return b.o.Given(flags...) || slices.ContainsFunc(flags, func(f string) bool { return b.o.Locked(f) != nil })
	})
}

// Load sets how the model in a file is loaded. It reports whether that differs from
// other models.
func (b *Book) Load(path string, e *config.Engine) bool {
	s := b.For(path)
	s.Over(e)
	return s.loads()
}

// Sample sets the sampling parameters of a model.
func (b *Book) Sample(path string, p *engine.Sampling) {
	s := b.For(path)
	_ = s.Apply(p) // the values were checked when they were read
}

// MaxTokens returns the maximum tokens of an answer of a model, or n if it has none of
// its own.
func (b *Book) MaxTokens(path string, n int) int {
	if s := b.For(path); s.MaxTokens > 0 {
		return s.MaxTokens
	}
	return n
}

// Put stores the settings of the model in a file. Empty settings remove it. Settings
// that a policy locks are an error.
func (b *Book) Put(ctx context.Context, path string, s Settings) error {
	if err := s.Check(); err != nil {
		return err
	}
	for _, flag := range s.flags() {
		if err := b.o.Locked(flag); err != nil {
			return err
		}
	}
	return b.change(ctx, func(models map[string]Settings) error {
		if s.Empty() {
			delete(models, key(path))
			return nil
		}
		models[key(path)] = s
		if len(models) > maxModels {
			prune(models)
		}
		if len(models) > maxModels {
			return fmt.Errorf("%w: %d; the limit is %d", ErrFull, len(models), maxModels)
		}
		return nil
	})
}

// Forget removes the settings of the model in a file.
func (b *Book) Forget(ctx context.Context, path string) error {
	if b == nil {
		return nil
	}
	return b.change(ctx, func(models map[string]Settings) error {
		delete(models, key(path))
		return nil
	})
}

// prune drops the models whose files are gone.
func prune(models map[string]Settings) {
	for path := range models {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			delete(models, path)
		}
	}
}

// key returns the name under which a model's settings are stored.
func key(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return filepath.Clean(path)
	}
	return abs
}

// change rewrites the file under a lock that excludes other processes.
func (b *Book) change(ctx context.Context, do func(map[string]Settings) error) error {
	if err := os.MkdirAll(filepath.Dir(b.path), 0o755); err != nil {
		return err
	}
	unlock, err := fetch.Lock(ctx, b.path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read(); err != nil {
		return err
	}
	models := maps.Clone(b.models)
	if models == nil {
		models = map[string]Settings{}
	}
	if err := do(models); err != nil {
		return err
	}
	data, err := json.MarshalIndent(map[string]any{"version": version, "models": models}, "", "\t")
	if err != nil {
		return err
	}
	if len(data) > maxBytes {
		return fmt.Errorf("%w: they take %d bytes; the limit is %d", ErrFull, len(data), maxBytes)
	}
	if err := replace(b.path, append(data, '\n')); err != nil {
		return err
	}
	b.models, b.stamp = models, b.now()
	return nil
}

// replace writes a file so that others see the old or the new one.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// now returns the stamp of the file; zero without a file.
func (b *Book) now() stamp {
	info, err := os.Stat(b.path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

// read reads the file if it has changed. The caller holds b.mu. A damaged file is set
// aside, and a model whose settings are not valid has none.
func (b *Book) read() error {
	now := b.now()
	if now == b.stamp {
		return nil
	}
	if now == (stamp{}) {
		b.models, b.stamp = nil, now
		return nil
	}
	data, err := b.bytes()
	if err != nil {
		return err
	}
	var c content
	if err := json.Unmarshal(data, &c); err != nil || len(data) > maxBytes || len(c.Models) > maxModels {
		aside := b.path + ".damaged"
		b.o.Log.Warn("settings of models are damaged and were renamed", "err", err, "path", aside)
		b.models, b.stamp = nil, stamp{}
		return os.Rename(b.path, aside)
	}
	if c.Version > version {
		b.models = nil
		return fmt.Errorf("%w: %s has version %d, but this Godwit supports only %d", ErrNewer, b.path, c.Version, version)
	}
	b.models = make(map[string]Settings, len(c.Models))
	for path, raw := range c.Models {
		var s Settings
		err := json.Unmarshal(raw, &s)
		if err == nil {
			err = s.Check()
		}
		if err == nil && !filepath.IsAbs(path) {
			err = fmt.Errorf("%w: %.200q is not a full path", ErrValue, path)
		}
		if err != nil {
			b.o.Log.Warn("settings of a model ignored", "model", path, "err", err)
			continue
		}
		b.models[path] = s
	}
	b.stamp = now
	return nil
}

// bytes reads the file, at most one byte more than allowed.
func (b *Book) bytes() ([]byte, error) {
	f, err := os.Open(b.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxBytes+1))
}
