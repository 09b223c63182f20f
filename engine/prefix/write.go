package prefix

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// write is the goroutine that writes records to disk in the background.
func (s *Store) write() {
	defer s.ends.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.queue) == 0 && len(s.erasures) == 0 && !s.ended {
			s.busy = false
			s.done.Broadcast()
			s.work.Wait()
		}
		s.busy = true
		if len(s.erasures) > 0 {
			s.overwrite()
			continue
		}
		if len(s.queue) == 0 {
			s.finish()
			s.busy = false
			s.done.Broadcast()
			return
		}
		b := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.writeBlob(b)
		if len(s.queue) == 0 {
			s.finish()
		}
	}
}

// finish syncs the active chunk and writes the manifest if records were written
// since the last time. The lock is held.
func (s *Store) finish() {
	d := s.disk
	if d == nil || !d.stale {
		return
	}
	s.mu.Unlock()
	var err error
	if d.active != nil {
		err = d.active.file.Sync()
	}
	err = errors.Join(err, s.writeManifest())
	s.mu.Lock()
	d.stale = false
	if err != nil {
		s.fail(err)
	}
}

// writeBlob appends a part to the active chunk. The lock is held.
func (s *Store) writeBlob(b *blob) {
	s.dirty -= int64(b.size) + overhead
	d := s.disk
	if !b.in || b.chunk != nil {
		b.dirty = false
		return
	}
	if now := time.Now(); now.Before(d.until) {
		b.dirty = false
		s.trim(&s.mem, s.mem.most)
		return
	}
	o := b.of.owner
	if !s.admit(o, onDisk, int64(b.size)+overhead, b.of, s.nodes[b.of.parent]) {
		b.dirty = false
		s.trim(&s.mem, s.mem.most)
		return
	}
	h, data := b.header(), b.data
	h.made = b.of.used
	s.trim(&s.held, s.held.most-h.length()-overhead)
	s.mu.Unlock()
	c, at, err := s.appendRecord(h.record(s.secret[:], data))
	if err == nil {
		err = s.compact()
	}
	s.mu.Lock()
	b.dirty = false
	if err != nil {
		s.fail(err)
	}
	if c != nil && b.in && s.nodes[b.of.key] == b.of { // otherwise the part was dropped meanwhile
		b.chunk, b.at = c, at
		c.live += b.length()
		s.enter(&s.held, b.of, int64(b.size)+overhead)
	} else if c != nil {
		s.erasures = append(s.erasures, erasure{c, at, b.header()})
	}
	d.stale = d.stale || c != nil
	s.trim(&s.mem, s.mem.most)
	s.admit(o, memory, 0) // the limit may have changed while the record could not be dropped
}

// fail stops writing for a while. The lock is held.
func (s *Store) fail(err error) {
	d := s.disk
	d.until = time.Now().Add(pause)
	if !d.warned {
		d.warned = true
		s.log.Warn("prefixes not written to disk, kept in memory", "folder", d.dir, "err", err)
	}
}

// appendRecord writes a record at the end of the active chunk.
func (s *Store) appendRecord(raw []byte) (*chunk, int64, error) {
	d := s.disk
	if d.looked -= int64(len(raw)); d.looked < 0 {
		if why := s.crowded(d.dir); why != "" {
			return nil, 0, errors.New(why)
		}
		d.looked = spacing
	}
	if c := d.active; c == nil || c.size+int64(len(raw)) > d.most && c.size > 0 {
		if err := s.newChunk(); err != nil {
			return nil, 0, err
		}
	}
	c := d.active
	at := c.size
	if _, err := c.file.WriteAt(raw, at); err != nil {
		return nil, 0, errors.Join(err, c.file.Truncate(at))
	}
	c.size += int64(len(raw))
	return c, at, nil
}

// newChunk creates the next chunk and lists it in the manifest. The first call
// may instead continue the newest file. The manifest lists chunks in the order
// in which they were written.
func (s *Store) newChunk() error {
	d := s.disk
	if n := len(d.chunks); d.active == nil && n > 0 && !d.chunks[n-1].sealed && d.chunks[n-1].size < d.most/2 {
		d.active = d.chunks[n-1]
		return nil
	}
	number := d.last + 1
	path := filepath.Join(d.dir, d.name(s.secret[:], number))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	c := &chunk{number: number, file: f}
	if d.active != nil {
		err = d.active.file.Sync()
	}
	d.chunks = append(d.chunks, c)
	if err = errors.Join(err, s.writeManifest()); err != nil {
		d.chunks = d.chunks[:len(d.chunks)-1]
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	d.last, d.active = number, c
	return nil
}

// A store rewrites chunks while its unused bytes exceed 1/deadShare of its bytes
// in use.
const deadShare = 25

// compact rewrites the chunk with the smallest share of bytes in use, while
// there are too many unused bytes.
func (s *Store) compact() error {
	d := s.disk
	for {
		s.mu.Lock()
		var worst *chunk
		var total, live int64
		for _, c := range d.chunks {
			total, live = total+c.size, live+c.live
			if c != d.active && c.size > 0 && (worst == nil || float64(c.live)/float64(c.size) < float64(worst.live)/float64(worst.size)) {
				worst = c
			}
		}
		dead := total - live
		s.mu.Unlock()
		if worst == nil || dead <= live/deadShare && total <= s.o.Disk || worst.live > worst.size-worst.size/deadShare {
			return nil
		}
		if err := s.rewrite(worst); err != nil {
			return err
		}
	}
}

// rewrite copies the records of a chunk that are in use into the active chunk, and deletes the
// chunk.
func (s *Store) rewrite(c *chunk) error {
	d := s.disk
	var list []*blob
	s.mu.Lock()
	for _, n := range s.nodes {
		for _, b := range n.parts {
			if b != nil && b.chunk == c {
				list = append(list, b)
			}
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *blob) int { return int(min(max(a.at-b.at, -1), 1)) })
	for _, b := range list {
		raw := make([]byte, b.length())
		_, err := c.file.ReadAt(raw, b.at)
		if err == nil {
			_, err = b.header().check(s.secret[:], raw)
		}
		if err != nil {
			s.mu.Lock()
			s.lose(b)
			s.mu.Unlock()
			continue
		}
		to, at, err := s.appendRecord(raw)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if b.chunk == c {
			c.live -= b.length()
			b.chunk, b.at = to, at
			to.live += b.length()
		}
		s.mu.Unlock()
	}
	d.files.Lock()
	defer d.files.Unlock()
	d.chunks = slices.DeleteFunc(d.chunks, func(x *chunk) bool { return x == c })
	if err := errors.Join(d.active.file.Sync(), s.writeManifest(), c.file.Close()); err != nil {
		return err
	}
	return os.Remove(filepath.Join(d.dir, d.name(s.secret[:], c.number)))
}
