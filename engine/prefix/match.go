package prefix

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"godwit/engine/llm"
)

// ErrGone means that a record was dropped or is damaged.
var ErrGone = errors.New("prefix: the record is gone")

// Match is the part of a text that a store holds.
type Match struct {
	s       *Store
	pages   []*node
	points  []*node // ascending by position
	evicted time.Time
}

// Match finds the longest stored chain of pages for a text, and its points.
func (s *Store) Match(root Key, tokens []llm.Token) *Match {
	m := &Match{s: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.nodes[root]
	if at == nil && len(tokens) >= PageTokens {
		m.evicted = s.gone.at[s.Next(root, tokens[:PageTokens])]
	}
	for i := 0; at != nil; i += PageTokens {
		for _, p := range at.points {
			if n := len(p.tokens); i+n <= len(tokens) && slices.Equal(p.tokens, tokens[i:i+n]) {
				m.points = append(m.points, p)
			}
		}
		if i+PageTokens > len(tokens) {
			break
		}
		page := tokens[i : i+PageTokens]
		key := s.Next(at.key, page)
		next := s.nodes[key]
		if next == nil {
			m.evicted = s.gone.at[key]
		}
		if next == nil || !slices.Equal(next.tokens, page) {
			break
		}
		m.pages = append(m.pages, next)
		at = next
	}
	slices.SortFunc(m.points, func(a, b *node) int { return cmp.Compare(a.pos(), b.pos()) })
	return m
}

// pos returns the position of a point.
func (n *node) pos() int { return n.before*PageTokens + len(n.tokens) }

// Evicted returns the time when the page after the last one was dropped. It is
// zero if the store does not remember that page.
func (m *Match) Evicted() time.Time { return m.evicted }

// Pages returns the number of whole pages.
func (m *Match) Pages() int { return len(m.pages) }

// Points returns the positions of the points, ascending.
func (m *Match) Points() []int {
	at := make([]int, len(m.points))
	for i, p := range m.points {
		at[i] = p.pos()
	}
	return at
}

// Has reports whether a page has a part.
func (m *Match) Has(page, part int) bool {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	return page < len(m.pages) && m.pages[page].blob(part) != nil
}

// Read returns the bytes of a part of a page, which must not be changed, and
// whether they came from disk. It returns ErrGone if they were dropped or are
// damaged.
func (m *Match) Read(page, part int) (data []byte, disk bool, err error) {
	return m.s.read(m.pages[page], part)
}

// ReadPoint is Read for the point at a position.
func (m *Match) ReadPoint(pos int) (data []byte, disk bool, err error) {
	for _, p := range m.points {
		if p.pos() == pos {
			return m.s.read(p, 0)
		}
	}
	return nil, false, ErrGone
}

// Use records that a text was continued at position pos.
func (m *Match) Use(pos int) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	for _, p := range m.points {
		if p.pos() == pos {
			m.s.touch(p)
			return
		}
	}
	if n := min(pos/PageTokens, len(m.pages)); n > 0 {
		m.s.touch(m.pages[n-1])
	}
}
