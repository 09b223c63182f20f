package tokenizer

import (
	"cmp"
	"slices"
	"sort"

	"godwit/engine/llm"
)

// A matcher finds special tokens in text.
type matcher struct {
	trie   *trie
	attrs  []attr
	marker map[llm.Token]bool // user-defined tokens that are not recognised in untrusted text
}

func (t *Tokenizer) newMatcher() *matcher {
	m := &matcher{trie: newTrie(), attrs: t.attrs, marker: map[llm.Token]bool{}}
	for i, a := range t.attrs {
		if a&special == 0 {
			continue
		}
		m.trie.add(t.text[i], llm.Token(i))
		if a&userDefined != 0 && isMarker(t.text[i]) {
			m.marker[llm.Token(i)] = true
		}
	}
	return m
}

// span is a part of a text: a special token, or plain text if token is None.
type span struct {
	start, end int
	token      llm.Token
}

func (s span) size() int { return s.end - s.start }

// trust is a part of a text with its end and the trust in it.
type trust struct {
	end     int
	trusted bool // whether control tokens are recognised
	strict  bool // whether markers are not recognised, whatever their type
}

// A partition cuts a text at its special tokens. As in llama.cpp, it chooses
// the longest tokens of the whole text first, and then shorter ones in the
// remaining text. Its buffers are reused.
type partition struct {
	found   []span // candidates
	taken   []span // candidates that were chosen
	spans   []span // the chosen candidates and the text between them
	covered []bool // bytes that belong to a token or to spaces that it removes
}

// cut returns the spans of text in order. parts must cover the text.
func (p *partition) cut(m *matcher, text []byte, parts []trust) []span {
	p.found, p.taken, p.spans = p.found[:0], p.taken[:0], p.spans[:0]
	part := 0
	for i := 0; i < len(text); i++ {
		for parts[part].end <= i {
			part++
		}
		if m.trie.root[text[i]] == 0 {
			continue
		}
		if s := m.longest(text, i, len(text)-i, parts[part:]); s.token != None {
			p.found = append(p.found, s)
		}
	}
	if len(p.found) > 0 {
		p.covered = slices.Grow(p.covered[:0], len(text))[:len(text)]
		clear(p.covered)
		p.choose(m, text, parts)
		slices.SortFunc(p.taken, func(a, b span) int { return a.start - b.start })
	}
	return p.fill(text)
}

// longest returns the longest token at text[i] that has at most limit bytes and
// is allowed in its part. parts starts with the part that contains text[i].
func (m *matcher) longest(text []byte, i, limit int, parts []trust) span {
	best := span{i, i, None}
	at := m.trie.root[text[i]]
	for end := i + 1; at != 0; end++ {
		if tok := m.trie.nodes[at].token; tok != None && m.allowed(tok, end, parts[0]) {
			best.end, best.token = end, tok
		}
		if end == len(text) || end-i == limit {
			break
		}
		at = m.trie.child(at, text[end])
	}
	return best
}

// allowed reports whether a token that starts in a part may end at end. A token
// of the prompt format must lie in one part. User-defined text may continue
// into the next part.
func (m *matcher) allowed(tok llm.Token, end int, p trust) bool {
	if m.attrs[tok]&(control|unknown) != 0 {
		return p.trusted && end <= p.end
	}
	if p.strict && m.marker[tok] {
		return p.trusted && end <= p.end
	}
	return true
}

// choose moves the chosen candidates to taken. If a longer token further right
// blocks a candidate, the next shorter token at the same start becomes a
// candidate.
func (p *partition) choose(m *matcher, text []byte, parts []trust) {
	order := func(a, b span) int {
		return cmp.Or(b.size()-a.size(), int(a.token)-int(b.token), a.start-b.start)
	}
	queue := p.found
	slices.SortFunc(queue, order)
	later := map[int][]span{}
	for len(queue) > 0 || len(later) > 0 {
		size := 0
		if len(queue) > 0 {
			size = queue[0].size()
		}
		for n := range later {
			size = max(size, n)
		}
		n := sort.Search(len(queue), func(i int) bool { return queue[i].size() < size })
		now := queue[:n]
		queue = queue[n:]
		if more := later[size]; len(more) > 0 {
			now = append(more, now...)
			slices.SortFunc(now, order)
			delete(later, size)
		}
		for _, c := range now {
			switch {
			case p.covered[c.start]:
			case p.covered[c.end-1]:
				part := sort.Search(len(parts), func(i int) bool { return parts[i].end > c.start })
				if s := m.longest(text, c.start, size-1, parts[part:]); s.token != None {
					later[s.size()] = append(later[s.size()], s)
				}
			default:
				p.mark(m.attrs[c.token], text, c)
			}
		}
	}
}

// mark marks the bytes of a token, and of the spaces that it removes, as covered.
func (p *partition) mark(a attr, text []byte, c span) {
	p.taken = append(p.taken, c)
	for i := c.start; i < c.end; i++ {
		p.covered[i] = true
	}
	if a&leftStrip != 0 {
		for i := c.start - 1; i >= 0 && !p.covered[i] && isSpace(text[i]); i-- {
			p.covered[i] = true
		}
	}
	if a&rightStrip != 0 {
		for i := c.end; i < len(text) && !p.covered[i] && isSpace(text[i]); i++ {
			p.covered[i] = true
		}
	}
}

// fill returns the chosen tokens and the text between them.
func (p *partition) fill(text []byte) []span {
	at := 0
	for k := 0; k <= len(p.taken); k++ {
		end := len(text)
		if k < len(p.taken) {
			end = p.taken[k].start
		}
		for len(p.taken) > 0 && at < end && p.covered[at] {
			at++
		}
		for len(p.taken) > 0 && end > at && p.covered[end-1] {
			end--
		}
		if end > at {
			p.spans = append(p.spans, span{at, end, None})
		}
		if k < len(p.taken) {
			p.spans = append(p.spans, p.taken[k])
			at = p.taken[k].end
		}
	}
	return p.spans
}

func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }
