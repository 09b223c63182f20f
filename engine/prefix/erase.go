package prefix

import (
	"slices"

	"godwit/engine/llm"
)

// erasure is a record in a file that the writer overwrites.
type erasure struct {
	c  *chunk
	at int64
	h  *header
}

// Erase deletes a text that ends with a page, or with the root if it has no whole page: the
// page and the pages before it, up to the first one that another text continues. Their
// points are deleted too, and those of the page at which it stops. The records on disk are
// overwritten in the background.
func (s *Store) Erase(end Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var path []*node
	for n := s.nodes[end]; n != nil; n = s.nodes[n.parent] {
		path = append(path, n)
		if n.tokens == nil { // the root
			break
		}
	}
	for _, n := range path {
		if s.nodes[n.key] != n { // it had no parts and was removed together with its last child
			continue
		}
		for _, p := range slices.Clone(n.points) {
			s.wipe(p)
		}
		if n.tokens == nil || n.kids > 0 {
			break
		}
		s.wipe(n)
	}
	s.work.Signal()
}

// wipe removes a node from memory and disk. The lock is held.
func (s *Store) wipe(n *node) {
	for _, b := range n.parts {
		if b != nil && b.chunk != nil {
			s.erasures = append(s.erasures, erasure{b.chunk, b.at, b.header()})
		}
	}
	s.drop(&s.mem, n)
	s.drop(&s.held, n) // the node has no children, so it is gone now
}

// overwrite replaces records by blank ones of the same length. Only the writer calls it,
// because it also moves records between files. The lock is held.
func (s *Store) overwrite() {
	list := s.erasures
	s.erasures = nil
	s.mu.Unlock()
	defer s.mu.Lock()
	for _, e := range list {
		e.c.blank(e.at, e.h)
	}
}

// blank overwrites a record with zeros behind a valid header. If that fails, the record stays
// in the file, where nothing refers to it.
func (c *chunk) blank(at int64, h *header) {
	empty := header{blank: true, count: h.count, size: h.size, tokens: make([]llm.Token, h.count)}
	raw := empty.record(nil, make([]byte, h.size))
	_, _ = c.file.WriteAt(raw, at) // the file may have been closed after its records moved
}
