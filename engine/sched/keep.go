package sched

import (
	"context"
	"slices"

	"godwit/engine/kv"
	"godwit/engine/llm"
	"godwit/engine/prefix"
)

// What slots have read is copied into the prefix store, so that it need not be read again
// when the slot holds another text, in this process or a later one. Pieces are copied
// between steps while jobs run, and all at once when a slot is about to lose its text.

// linkPart is the part of a page that holds no data. It marks that the text
// continues, for pages of which the store has no other part yet.
const linkPart = prefix.MaxParts - 1

// chain describes a slot's text in the store.
type chain struct {
	root  prefix.Key
	keys  []prefix.Key // keys of the slot's leading whole pages, computed as needed
	pages int          // number of leading pages of which the store had all parts
	dirty bool         // the slot may have something that is not in the store
	full  bool         // the store has rejected a piece
	given map[gift]bool
}

// gift identifies a piece that a slot has put into the store. A job puts a piece at most once.
// Otherwise two pieces could displace each other forever in a full store.
type gift struct {
	key  prefix.Key
	part int
}

// cut drops the keys of the pages beyond n tokens.
func (c *chain) cut(n int) {
	n /= kv.PageCells
	c.keys, c.pages = c.keys[:min(n, len(c.keys))], min(c.pages, n)
}

// keeps reports whether a slot has anything that may be copied to the store.
func (s *Sched) keeps(i int) bool {
	sl := &s.slots[i]
	return s.o.Prefixes != nil && sl.chain.dirty && !sl.private && !sl.copied && len(sl.tokens) > 0
}

// extent returns the number of leading tokens of a slot that form the beginning
// of a text. Tokens that were computed after dropped text do not count.
func (sl *slot) extent() int {
	if sl.mixed > 0 {
		return min(sl.mixed, len(sl.tokens))
	}
	return len(sl.tokens)
}

// keepSome copies at most n pieces of the slots' texts into the store. It reports whether
// more are left.
func (s *Sched) keepSome(n int) bool {
	if s.o.Prefixes == nil {
		return false
	}
	for i := range s.slots {
		if !s.keeps(i) {
			continue
		}
		for ; n > 0; n-- {
			if !s.keepPiece(i) {
				s.slots[i].chain.dirty = false
				break
			}
		}
		if n == 0 {
			return true
		}
	}
	return false
}

// flush copies everything that a slot has into the store.
func (s *Sched) flush(i int) {
	for s.keeps(i) && s.keepPiece(i) {
	}
	s.slots[i].chain.dirty = false
}

// keepPiece copies the next piece of a slot that the store does not have. It
// reports false if the store has all pieces, or rejects one. Later pieces would
// then be useless.
func (s *Sched) keepPiece(i int) bool {
	sl := &s.slots[i]
	c, n := &sl.chain, sl.extent()
	s.fillKeys(sl, n)
	c.full = false
	for page := c.pages; page < n/kv.PageCells && !c.full; page++ {
		put, all := s.keepPage(sl, page)
		if all && page == c.pages {
			c.pages++
		}
		if put {
			return true
		}
	}
	for _, pos := range s.continues(sl, n) {
		if c.full {
			return false
		}
		if s.keepWindows(sl, pos) || s.keepPoint(sl, pos) {
			return true
		}
	}
	return false
}

// fillKeys computes the keys of the whole pages among n tokens.
func (s *Sched) fillKeys(sl *slot, n int) {
	c := &sl.chain
	for len(c.keys) < n/kv.PageCells {
		c.keys = append(c.keys, s.o.Prefixes.Next(c.parent(len(c.keys)), sl.page(len(c.keys))))
	}
}

// link adds a page to the store, so that it can be the parent of others.
func (s *Sched) link(sl *slot, page int) bool {
	key := sl.chain.keys[page]
	return !sl.chain.given[gift{key, linkPart}] && !s.o.Prefixes.Reaches(key) && s.put(sl, page, linkPart, nil)
}

// parent returns the key of the page before a page, or the root key.
func (c *chain) parent(page int) prefix.Key {
	if page == 0 {
		return c.root
	}
	return c.keys[page-1]
}

// page returns the tokens of a page.
func (sl *slot) page(i int) []llm.Token {
	return sl.tokens[i*kv.PageCells : (i+1)*kv.PageCells]
}

// has reports whether the store has a piece, or got it from this job before.
func (s *Sched) has(sl *slot, key prefix.Key, part int) bool {
	return sl.chain.given[gift{key, part}] || s.o.Prefixes.Has(key, part)
}

// give puts a piece into the store. It reports whether the store took it.
func (s *Sched) give(sl *slot, r prefix.Record) bool {
	s.o.Prefixes.Put(r)
	if !s.o.Prefixes.Has(r.Key, r.Part) {
		return false
	}
	if sl.chain.given == nil {
		sl.chain.given = map[gift]bool{}
	}
	sl.chain.given[gift{r.Key, r.Part}] = true
	return true
}

// keepPage copies a part of a page in the groups without a window. all reports whether the store
// has all of these parts.
func (s *Sched) keepPage(sl *slot, page int) (put, all bool) {
	all = true
	key := sl.chain.keys[page]
	for g := range s.cache.Layout().Groups {
		if s.cache.Layout().Groups[g].Window > 0 || !s.cache.IsPiece(g, page) || s.has(sl, key, g) {
			continue
		}
		if s.keepPart(sl, page, g) {
			return true, false
		}
		all = false
	}
	return s.link(sl, page), all
}

// keepPart copies a page in one group, if its rows are there.
func (s *Sched) keepPart(sl *slot, page, g int) bool {
	data, err := s.cache.PageData(sl.seq, g, page, s.prog)
	if err != nil {
		s.unkept(err)
		return false
	}
	return data != nil && s.put(sl, page, g, data)
}

// put puts a part of a page. It reports whether the store took it.
func (s *Sched) put(sl *slot, page, part int, data []byte) bool {
	sl.chain.full = !s.give(sl, prefix.Record{
		Key: sl.chain.keys[page], Parent: sl.chain.parent(page), Before: page, Tokens: sl.page(page), Part: part, Data: data,
	})
	return !sl.chain.full
}

// continues returns the positions, up to n, at which the text of a slot may be continued later.
// While its job runs, only positions in the prompt count.
func (s *Sched) continues(sl *slot, n int) []int {
	list := s.cache.Continues(sl.seq)
	if !s.cache.HasPoints() && len(s.cache.Windowed()) > 0 {
		list = []int{n / kv.PageCells * kv.PageCells}
		if sl.task != nil {
			list = nil
		}
		if p := (sl.prompt - 1) / kv.PageCells * kv.PageCells; p > 0 { // the last token is always read
			list = append(list, p)
		}
	}
	return slices.DeleteFunc(list, func(pos int) bool { return pos > n || sl.task != nil && pos > sl.prompt })
}

// keepWindows copies a page of a group with a window that a text continued at pos
// reads.
func (s *Sched) keepWindows(sl *slot, pos int) bool {
	for _, g := range s.cache.Windowed() {
		from, to := s.cache.Needed(g, pos)
		for page := from; page < to; page++ {
			if !s.has(sl, sl.chain.keys[page], g) && s.keepPart(sl, page, g) {
				return true
			}
			if sl.chain.full {
				return false
			}
		}
	}
	return false
}

// keepPoint copies the point at pos.
func (s *Sched) keepPoint(sl *slot, pos int) bool {
	before := pos / kv.PageCells
	if !s.cache.HasPoints() || before > len(sl.chain.keys) {
		return false
	}
	parent, tail := sl.chain.parent(before), sl.tokens[before*kv.PageCells:pos]
	key := s.o.Prefixes.PointKey(parent, tail)
	if s.has(sl, key, 0) {
		return false
	}
	data, err := s.cache.PointData(sl.seq, pos, s.prog)
	if err != nil {
		s.unkept(err)
	}
	if err != nil || data == nil {
		return false
	}
	return s.give(sl, prefix.Record{Key: key, Parent: parent, Before: before, Tokens: tail, Point: true, Data: data})
}

// textKey returns the key of the last whole page of a slot's text, or the root key.
func (s *Sched) textKey(i int) prefix.Key {
	sl := &s.slots[i]
	n := sl.extent()
	s.fillKeys(sl, n)
	return sl.chain.parent(n / kv.PageCells)
}

// EraseText deletes a text from the idle slots and the prefix store, given the key of its last
// whole page. What other texts share with it stays in the store.
func (s *Sched) EraseText(ctx context.Context, key prefix.Key) error {
	return s.do(ctx, func() {
		if s.o.Prefixes == nil {
			return
		}
		for i := range s.slots {
			if s.slots[i].task == nil && s.textKey(i) == key {
				s.forget(i)
			}
		}
		s.o.Prefixes.Erase(key)
	})
}

// disown drops what a slot holds, and removes its text from the store.
func (s *Sched) disown(i int) {
	if s.o.Prefixes != nil {
		s.o.Prefixes.Forget(s.slots[i].chain.keys)
	}
	s.forget(i)
}

// unkept reports why a piece cannot be copied.
func (s *Sched) unkept(err error) {
	if s.o.Unkept != nil {
		s.o.Unkept(err)
	}
}
