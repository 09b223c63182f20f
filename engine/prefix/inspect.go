package prefix

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/engine/fetch"
)

// ErrBusy means that another process uses a folder.
var ErrBusy = errors.New("another process uses the folder")

// Chains describes the stored texts of one model, cache and key.
type Chains struct {
	Name       string // name of the root, meaningless without the secret
	Pages      int
	PageBytes  int64
	Points     int
	PointBytes int64
	Used       time.Time // time of the last use
}

// Tokens is the number of tokens in its pages.
func (c *Chains) Tokens() int { return c.Pages * PageTokens }

// Inspect lists the contents of a folder, the most recently used first, and the bytes of
// its files. It changes nothing and works while a process writes the folder.
func Inspect(dir string) (list []Chains, size int64, err error) {
	secret, err := os.ReadFile(filepath.Join(dir, secretFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil || len(secret) != 32 {
		return nil, 0, errors.Join(err, errors.New("the folder of prefixes has no secret"))
	}
	s := bare(Options{})
	d := &disk{dir: dir}
	defer d.closeFiles()
	m := readManifest(dir, secret)
	for _, number := range m.chunks {
		f, err := os.Open(filepath.Join(dir, d.name(secret, number)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the file was rewritten meanwhile
		}
		if err != nil {
			return nil, 0, err
		}
		c := &chunk{number: number, file: f}
		d.chunks = append(d.chunks, c)
		if _, err := s.scan(c, m.used); err != nil {
			return nil, 0, err
		}
		size += c.size
	}
	s.settleLoaded()
	return s.chains(), size, nil
}

// chains summarises the tree by root.
func (s *Store) chains() []Chains {
	by := map[Key]*Chains{}
	for _, n := range s.nodes {
		root := n
		for p := s.nodes[root.parent]; p != nil; p = s.nodes[root.parent] {
			root = p
		}
		if root == n {
			continue
		}
		c := by[root.key]
		if c == nil {
			c = &Chains{Name: hex.EncodeToString(root.key[:4])}
			by[root.key] = c
		}
		var bytes int64
		for _, b := range n.parts {
			if b != nil {
				bytes += int64(b.size)
			}
		}
		if n.point {
			c.Points++
			c.PointBytes += bytes
		} else {
			c.Pages++
			c.PageBytes += bytes
		}
		if t := time.UnixMilli(n.used); t.After(c.Used) {
			c.Used = t
		}
	}
	list := make([]Chains, 0, len(by))
	for _, c := range by {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Chains) int { return b.Used.Compare(a.Used) })
	return list
}

// List summarises what the store has, in memory and on disk.
func (s *Store) List() []Chains {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chains()
}

// Usage holds the bytes that a store uses, and its limits.
type Usage struct{ Memory, MostMemory, Disk, MostDisk int64 }

// Usage returns the bytes in memory and on disk.
func (s *Store) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Usage{Memory: s.mem.bytes, MostMemory: s.mem.most}
	if s.disk != nil {
		u.Disk, u.MostDisk = s.held.bytes, s.o.Disk
	}
	return u
}

// ClearFolder deletes the contents of a folder. It fails if another process uses it.
func ClearFolder(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, ok, err := fetch.TryLock(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	if !ok {
		return ErrBusy
	}
	defer unlock()
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range list {
		if n := e.Name(); strings.HasSuffix(n, chunkEnding) || n == manifestFile || n == originsFile || n == secretFile || strings.HasSuffix(n, ".new") {
			errs = append(errs, os.Remove(filepath.Join(dir, n)))
		}
	}
	return errors.Join(errs...)
}

// Clear removes everything, from memory and disk.
func (s *Store) Clear() error {
	unlock := s.still()
	defer unlock()
	for _, t := range []*tier{&s.mem, &s.held} {
		for t.order.Len() > 0 {
			s.drop(t, t.order.Back().Value.(*node))
		}
	}
	s.gone = gone{}
	d := s.disk
	if d == nil || s.ended {
		return nil
	}
	var errs []error
	for _, c := range d.chunks {
		errs = append(errs, c.file.Close(), os.Remove(filepath.Join(d.dir, d.name(s.secret[:], c.number))))
	}
	d.chunks, d.active, d.stale = nil, nil, true
	return errors.Join(errs...)
}

// still waits until no file is being read and nothing waits to be written. It blocks new
// reads and writes until the returned function is called.
func (s *Store) still() (unlock func()) {
	var files sync.Locker = new(sync.Mutex)
	if s.disk != nil {
		files = &s.disk.files
	}
	for {
		s.Sync()
		files.Lock()
		s.mu.Lock()
		if len(s.queue) == 0 && !s.busy || s.ended {
			return func() { s.mu.Unlock(); files.Unlock() }
		}
		s.mu.Unlock()
		files.Unlock()
	}
}
