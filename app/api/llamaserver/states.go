package llamaserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/app/api/wire"
	"godwit/engine"
)

// States is the folder of saved slots. Its size is limited. The least recently used
// files are deleted first.
type States struct {
	dir    string
	budget int64
	mu     sync.Mutex
}

// stateFile matches valid names of saved slots, which are neither paths nor hidden
// files.
var stateFile = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)

// partSuffix marks an incomplete file.
const partSuffix = ".part"

// NewStates returns a store for slots in a folder. If folder is empty, nothing is
// saved.
func NewStates(dir string, budget int64) (*States, error) {
	if dir == "" {
		return &States{}, nil
	}
	dir, err := filepath.Abs(dir)
	return &States{dir: dir, budget: budget}, err
}

// Budget changes the size limit of the folder.
func (s *States) Budget(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget = bytes
}

// root opens the folder and creates it if it is missing.
func (s *States) root() (*os.Root, error) {
	if s.dir == "" || s.budget <= 0 {
		e := wire.Fault(http.StatusNotImplemented, wire.Unsupported, "saving states is disabled; set --slot-save-path and a --state-budget above 0")
		return nil, e
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(s.dir)
}

func checkStateName(name string) error {
	if !stateFile.MatchString(name) || strings.HasSuffix(name, partSuffix) {
		return wire.Bad("filename", "%.64q: want a file name of letters, digits, dots, dashes and underscores, and no folder", name)
	}
	return nil
}

// save writes a slot to a temporary file, and renames it when it is complete.
func (s *States) save(ctx context.Context, e *engine.Engine, slot int, name string) (tokens int, size int64, err error) {
	if err := checkStateName(name); err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := s.root()
	if err != nil {
		return 0, 0, err
	}
	defer root.Close() //nolint:errcheck // a folder opened for reading
	part := "." + name + partSuffix
	f, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, 0, err
	}
	w := &counted{w: f, left: s.budget}
	tokens, err = e.SaveSlot(ctx, slot, w)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		return 0, 0, errors.Join(err, root.Remove(part))
	}
	return tokens, w.n, s.trim(root, name)
}

// counted stops writing once a state is larger than the whole budget.
type counted struct {
	w       io.Writer
	n, left int64
}

func (c *counted) Write(b []byte) (int, error) {
	if int64(len(b)) > c.left {
		e := wire.Fault(http.StatusInsufficientStorage, wire.Invalid, "the state is larger than the limit of %d bytes (--state-budget)", c.n+c.left)
		return 0, e
	}
	n, err := c.w.Write(b)
	c.n, c.left = c.n+int64(n), c.left-int64(n)
	return n, err
}

// saved reports whether a file is a saved slot. Other files in the folder are
// ignored.
func saved(root *os.Root, name string) bool {
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // opened for reading
	head := make([]byte, len(engine.SlotMagic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == engine.SlotMagic
}

// PartAge is the age from which an incomplete file is considered abandoned.
const PartAge = time.Hour

// left reports whether a file may be left over from an interrupted save.
func left(info fs.FileInfo) bool {
	name, ok := strings.CutSuffix(strings.TrimPrefix(info.Name(), "."), partSuffix)
	return ok && "."+name+partSuffix == info.Name() && checkStateName(name) == nil && time.Since(info.ModTime()) > PartAge
}

// trim deletes the remains of interrupted saves, and the least recently used files
// until the rest fits the budget.
func (s *States) trim(root *os.Root, keep string) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	type file struct {
		name string
		size int64
		used time.Time
	}
	var files []file
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if left(info) && saved(root, e.Name()) {
			if err := root.Remove(e.Name()); err != nil {
				return err
			}
			continue
		}
		if checkStateName(e.Name()) != nil || !saved(root, e.Name()) {
			continue
		}
		total += info.Size()
		if e.Name() != keep {
			files = append(files, file{e.Name(), info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.name, b.name)) })
	for _, f := range files {
		if total <= s.budget {
			return nil
		}
		if err := root.Remove(f.name); err != nil {
			return err
		}
		total -= f.size
	}
	return nil
}

// restore fills a slot from a file and marks the file as used.
func (s *States) restore(ctx context.Context, e *engine.Engine, slot int, salt, name string) (tokens int, size int64, err error) {
	if err := checkStateName(name); err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	root, err := s.root()
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()            //nolint:errcheck // a folder opened for reading
	info, err := root.Lstat(name) // checked before the file is opened, because opening a pipe would block
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, wire.Bad("filename", "there is no saved slot %q", name)
	}
	if err != nil {
		return 0, 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, 0, wire.Bad("filename", "%q is not a saved slot: it is not an ordinary file (%s)", name, info.Mode().Type())
	}
	f, err := root.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	if tokens, err = e.RestoreSlot(ctx, slot, salt, f); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", name, err)
	}
	now := time.Now()
	return tokens, info.Size(), root.Chtimes(name, now, now)
}
