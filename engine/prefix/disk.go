package prefix

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/engine/fetch"
)

// Free space to leave on the disk, in bytes and as a share of its size.
const (
	spareBytes = 2 << 30
	spareShare = 20
)

// Limits of the files.
const (
	mostChunk  = 64 << 20
	leastChunk = 1 << 20
	pause      = time.Minute // time without writes after a failed write
	spacing    = 32 << 20    // bytes written between two checks of the free space
)

// The names of the files.
const (
	secretFile   = "secret"
	lockFile     = "lock"
	manifestFile = "manifest"
	originsFile  = "origins"
	chunkEnding  = ".pages"
)

// disk holds the files of a store. Only the writer's goroutine changes it.
// Other goroutines hold the read lock of files while they read chunks.
type disk struct {
	dir    string
	unlock func()
	until  time.Time // time of the next allowed write
	warned bool
	looked int64 // bytes that may still be written before the next check of the free space
	chunks []*chunk
	active *chunk // chunk that is being filled; nil: none yet
	last   uint64 // number of the newest chunk
	most   int64  // bytes of a chunk
	stale  bool   // records were written after the last manifest

	files sync.RWMutex
}

// chunk is a file that only grows.
type chunk struct {
	number uint64
	file   *os.File
	size   int64
	live   int64 // bytes of records that are in use; under the store's lock
	sealed bool  // the data after its last record does not parse
}

func newSecret() (secret [32]byte) {
	if _, err := rand.Read(secret[:]); err != nil {
		panic("prefix: no random numbers: " + err.Error())
	}
	return secret
}

// openDisk opens the folder and reads its index.
func (s *Store) openDisk() error {
	dir := s.o.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if why := s.crowded(dir); why != "" {
		return errors.New(why)
	}
	unlock, ok, err := fetch.TryLock(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	if !ok {
		return ErrBusy
	}
	if err := os.Chmod(filepath.Join(dir, lockFile), 0o600); err != nil {
		unlock()
		return err
	}
	d := &disk{dir: dir, unlock: unlock, most: min(max(s.o.Disk/16, leastChunk), mostChunk)}
	if err := s.load(d); err != nil {
		d.closeFiles()
		unlock()
		s.nodes = map[Key]*node{}
		return err
	}
	s.held.most = max(s.o.Disk-d.most, s.o.Disk/2)
	s.disk = d
	return nil
}

// crowded describes the lack of free space on the disk. It is empty if there is
// enough.
func (s *Store) crowded(dir string) string {
	if s.o.Space == nil {
		return ""
	}
	free, size, err := s.o.Space(dir)
	if err != nil {
		return err.Error()
	}
	if spare := max(spareBytes, size/spareShare); free < spare {
		return fmt.Sprintf("%d MiB of the disk are free, %d MiB have to stay free", free>>20, spare>>20)
	}
	return ""
}

// readSecret reads the folder's secret, or creates one.
func readSecret(dir string) (secret [32]byte, fresh bool, err error) {
	path := filepath.Join(dir, secretFile)
	b, err := os.ReadFile(path)
	if err == nil && len(b) == len(secret) {
		return [32]byte(b), false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return secret, false, err
	}
	secret = newSecret()
	return secret, true, writeWhole(path, secret[:])
}

// writeWhole writes a file under another name and renames it.
func writeWhole(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return err
}

// load reads the manifest and the headers of all records.
func (s *Store) load(d *disk) error {
	secret, fresh, err := readSecret(d.dir)
	if err != nil {
		return err
	}
	s.secret = secret
	var m manifest
	if !fresh {
		m = readManifest(d.dir, secret[:])
	}
	names := map[string]bool{}
	for _, number := range m.chunks {
		name := d.name(secret[:], number)
		f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		names[name] = true
		c := &chunk{number: number, file: f}
		d.chunks = append(d.chunks, c)
		d.last = max(d.last, number)
		end, err := s.scan(c, m.used)
		if err == nil && end > c.size && !c.sealed {
			err = c.file.Truncate(c.size) // the last write was cut short
		}
		if err != nil {
			return err
		}
	}
	s.settleLoaded()
	s.origins = readOrigins(d.dir)
	return d.tidy(names)
}

// tidy deletes the chunks that the manifest does not list, and unfinished files.
func (d *disk) tidy(names map[string]bool) error {
	list, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if n := e.Name(); strings.HasSuffix(n, chunkEnding) && !names[n] || strings.HasSuffix(n, ".new") {
			if err := os.Remove(filepath.Join(d.dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// name returns the name of a chunk's file. It reveals nothing without the
// secret.
func (d *disk) name(secret []byte, number uint64) string {
	k := keyed(secret, chunkName, fmt.Appendf(nil, "%d", number))
	return hex.EncodeToString(k[:12]) + chunkEnding
}

// scan adds the records of a chunk to the index and returns the size of its
// file. The file may end with an unfinished record. If anything else follows
// the last record, the chunk is sealed.
func (s *Store) scan(c *chunk, used map[[8]byte]int64) (end int64, err error) {
	info, err := c.file.Stat()
	if err != nil {
		return 0, err
	}
	end = info.Size()
	for c.size < end {
		h, tokens, err := readHeader(c.file, c.size)
		if errors.Is(err, io.EOF) || err == nil && c.size+h.length() > end {
			break
		}
		if err != nil {
			c.sealed = true
			break
		}
		if !h.blank {
			s.found(c, h, tokens, used)
		}
		c.size += h.length()
	}
	return end, nil
}

// found adds one record of a chunk to the index.
func (s *Store) found(c *chunk, h *header, tokens []byte, used map[[8]byte]int64) {
	n := s.nodes[h.key]
	if n == nil {
		n = &node{key: h.key, parent: h.parent, before: h.before, tokens: tokensOf(tokens), point: h.point, used: h.made}
		s.nodes[h.key] = n
	}
	if t, ok := used[[8]byte(h.key[:])]; ok {
		n.used = t
	}
	s.clock = max(s.clock, n.used)
	if b := n.blob(h.part); b != nil { // stored twice: the first copy was damaged, or its chunk was being compacted
		b.chunk.live -= b.length()
		n.parts[h.part] = nil
	}
	b := n.add(h.part, h.size)
	b.chunk, b.at = c, c.size
	c.live += h.length()
}

// settleLoaded links the loaded records into chains and drops those without a parent.
func (s *Store) settleLoaded() {
	all := make([]*node, 0, len(s.nodes))
	for _, n := range s.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *node) int { return a.before - b.before })
	for _, n := range all {
		p := s.nodes[n.parent]
		if p == nil && n.before == 0 {
			p = &node{key: n.parent}
			s.nodes[n.parent] = p
		}
		if p == nil || p.point || p.tokens != nil && p.before+1 != n.before || p.tokens == nil && n.before != 0 || n.key == n.parent {
			for _, b := range n.parts {
				if b != nil {
					b.chunk.live -= b.length()
				}
			}
			delete(s.nodes, n.key)
			continue
		}
		p.kids++
		if n.point {
			p.points = append(p.points, n)
		}
	}
	slices.SortFunc(all, func(a, b *node) int { return int(min(max(a.used-b.used, -1), 1)) })
	for _, n := range all {
		if s.nodes[n.key] != n {
			continue
		}
		for _, b := range n.parts {
			if b != nil {
				s.enter(&s.held, n, int64(b.size)+overhead)
			}
		}
	}
}

// read returns the bytes of a part.
func (s *Store) read(n *node, part int) (data []byte, disk bool, err error) {
	s.mu.Lock()
	b := n.blob(part)
	switch {
	case b == nil:
		s.mu.Unlock()
		return nil, false, ErrGone
	case b.in:
		data = b.data
		s.mu.Unlock()
		return data, false, nil
	}
	s.mu.Unlock()
	data, err = s.readDisk(b)
	if errors.Is(err, ErrGone) || errors.Is(err, os.ErrClosed) {
		return nil, true, ErrGone // dropped meanwhile
	}
	if err != nil {
		s.mu.Lock()
		s.lose(b)
		s.mu.Unlock()
		s.log.Warn("damaged prefix dropped", "err", err)
		return nil, true, ErrGone
	}
	return data, true, nil
}

// readDisk reads a record and verifies its checksum.
func (s *Store) readDisk(b *blob) ([]byte, error) {
	s.disk.files.RLock() // the chunk is not closed meanwhile
	defer s.disk.files.RUnlock()
	s.mu.Lock()
	c, at := b.chunk, b.at
	s.mu.Unlock()
	if c == nil {
		return nil, ErrGone
	}
	h := b.header()
	raw := make([]byte, h.length())
	if _, err := c.file.ReadAt(raw, at); err != nil {
		return nil, err
	}
	return h.check(s.secret[:], raw)
}

// closeFiles closes all chunks.
func (d *disk) closeFiles() {
	for _, c := range d.chunks {
		c.file.Close() //nolint:errcheck // every write was checked
	}
}

func (d *disk) close() error {
	d.files.Lock()
	defer d.files.Unlock()
	d.closeFiles()
	d.unlock()
	return nil
}
