package prefix

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"godwit/engine/llm"
)

// ErrGone says that bytes are no longer there, or damaged.
var ErrGone = errors.New("prefix: the record is gone")

// Match is the part of a text that a store has.
type Match struct {
	s       *Store
	pages   []*node
	points  []*node // in the order of their positions
	evicted time.Time
}

// Match finds the longest chain of pages, and the points, of a text.
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

// pos is the position of a point.
func (n *node) pos() int { return n.before*PageTokens + len(n.tokens) }

// Evicted is when the page behind the last one was given up; zero where it is not
// known to have been there.
func (m *Match) Evicted() time.Time { return m.evicted }

// Pages is the number of whole pages.
func (m *Match) Pages() int { return len(m.pages) }

// Points are the positions of the points, ascending.
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
// whether they came from disk. Bytes that are gone or damaged are ErrGone.
func (m *Match) Read(page, part int) (data []byte, disk bool, err error) {
	return m.s.read(m.pages[page], part)
}

// ReadPoint returns the bytes of the point at a position, as Read does.
func (m *Match) ReadPoint(pos int) (data []byte, disk bool, err error) {
	for _, p := range m.points {
		if p.pos() == pos {
			return m.s.read(p, 0)
		}
	}
	return nil, false, ErrGone
}

// Use records that a text was continued after pos positions.
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
