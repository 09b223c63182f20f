package grammar

import (
	"cmp"
	"slices"
)

// closure finds what the items reach before any byte is read: positions that need a
// byte, calls, and the end of the rule. The result is cached in the frame.
func (m *machine) closure(f *frame) *move {
	if f.open != nil {
		return f.open
	}
	mv := m.moveOf(f.items)
	if !m.over {
		f.open = mv
	}
	return mv
}

// moveOf computes the closure of items in any order.
func (m *machine) moveOf(first []item) *move {
	list, seen := m.scratch.items[:0], m.scratch.seen
	clear(seen)
	add := func(i item) {
		if len(list) < 16 {
			if slices.Contains(list, i) {
				return
			}
		} else {
			if len(list) == 16 {
				for _, x := range list {
					seen[x] = struct{}{}
				}
			}
			if _, ok := seen[i]; ok {
				return
			}
			seen[i] = struct{}{}
		}
		list = append(list, i)
	}
	for _, i := range first {
		add(i)
	}
	mv := &move{}
	calls := m.scratch.calls[:0]
	for n := 0; n < len(list) && len(list) <= maxItems; n++ {
		i := list[n]
		s := &m.states[i.state]
		r := &m.rules[s.rule]
		if i.state == r.end {
			switch {
			case !r.key || i.note == nil:
				mv.end = true
			case i.note != fresh:
				mv.keys = append(mv.keys, i.note)
			}
		}
		for _, e := range s.edges {
			switch e.kind {
			case edgeByte:
			case edgeCall:
				calls = append(calls, entry{e.arg, item{e.to, i.count, i.note}})
			default:
				if to, ok := m.along(i, e); ok {
					add(to)
				}
			}
		}
	}
	m.scratch.items, m.scratch.calls = list, calls
	m.spend(len(list))
	if len(list) > maxItems {
		m.over = true
		return mv
	}
	mv.calls = m.group(calls)
	list = slices.DeleteFunc(list, func(i item) bool { return !m.wants(i.state) })
	if len(list) > 0 {
		slices.SortFunc(list, compareItems)
		mv.frame = m.frame(list)
	}
	return mv
}

// along follows an edge that reads no byte, if the count of its loop allows it.
func (m *machine) along(i item, e edge) (to item, ok bool) {
	to = item{e.to, i.count, i.note}
	switch e.kind {
	case edgeEnter:
		to.count = 1
	case edgeLoop:
		l := m.loops[e.arg]
		switch {
		case to.count < 0: // the count is far from both bounds of the loop
		case l.max >= 0 && to.count >= l.max:
			return to, false
		case l.max >= 0:
			to.count++
		default: // counts above the minimum are equivalent
			to.count = min(to.count+1, max(l.min, 1))
		}
	case edgeExit:
		if to.count == countBelow || to.count >= 0 && to.count < m.loops[e.arg].min {
			return to, false
		}
		to.count = 0
	}
	return to, true
}

// wants reports whether the state has an edge that reads a byte.
func (m *machine) wants(state int32) bool {
	return slices.ContainsFunc(m.states[state].edges, func(e edge) bool { return e.kind == edgeByte })
}

// entry is a call from one item.
type entry struct {
	rule int32
	back item
}

// group groups the calls by rule.
func (m *machine) group(calls []entry) []call {
	slices.SortFunc(calls, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), compareItems(a.back, b.back))
	})
	calls = slices.Compact(calls)
	var out []call
	for i := 0; i < len(calls); {
		j := i
		var back []item
		for ; j < len(calls) && calls[j].rule == calls[i].rule; j++ {
			back = append(back, calls[j].back)
		}
		out = append(out, call{calls[i].rule, m.frame(back)})
		i = j
	}
	return out
}

// step advances a frame by one byte. It caches the result by byte class, except for
// keys, because their text grows with every byte.
func (m *machine) step(f *frame, c byte) *move {
	class := m.class[c]
	if f.next == nil {
		f.next = make([]*move, len(m.rep))
		m.keep(len(m.rep))
	}
	if mv := f.next[class]; mv != nil {
		return mv
	}
	list := m.scratch.first[:0]
	kept := true
	for _, i := range f.items {
		s := &m.states[i.state]
		n := i.note
		if n != nil && n != fresh && m.rules[s.rule].key {
			n = m.text(n, c)
			kept = false
		}
		for _, e := range s.edges {
			if e.kind == edgeByte && c >= e.lo && c <= e.hi {
				list = append(list, item{e.to, i.count, n})
			}
		}
	}
	m.spend(len(f.items))
	m.scratch.first = list
	mv := m.moveOf(list)
	if kept && !m.over {
		f.next[class] = mv
	}
	return mv
}

// next advances a set of stacks by one byte, during a mask's walk.
func (m *machine) next(s *stacks, c byte) *stacks {
	class := m.class[c]
	if s.next == nil {
		s.next = make([]*stacks, len(m.rep))
		m.keep(len(m.rep))
	}
	if to := s.next[class]; to != nil {
		return to
	}
	to := m.advance(s, c, false)
	if !m.over {
		s.next[class] = to
	}
	return to
}

// advance advances a set of stacks by one byte. live records the text of keys.
func (m *machine) advance(s *stacks, c byte, live bool) *stacks {
	m.begin()
	for _, t := range s.tops {
		if m.over {
			return m.dead
		}
		m.follow(m.step(t.frame, c), t.under)
	}
	return m.finish(live)
}

// popped returns the stacks that remain after the frames above s have ended, during
// a mask's walk.
func (m *machine) popped(s *stacks) *stacks {
	if s.pop != nil {
		return s.pop
	}
	m.begin()
	m.scratch.empty = s.empty
	for _, t := range s.tops {
		m.scratch.moves = append(m.scratch.moves, top{m.bare(t.frame), t.under})
	}
	m.spend(len(s.tops))
	m.drain()
	to := m.finish(false)
	if !m.over {
		s.pop = to
	}
	return to
}

// bare returns the frame without notes.
func (m *machine) bare(f *frame) *frame {
	if f.plain {
		return f
	}
	if f.bare == nil {
		var items []item
		for _, i := range f.items {
			if i.note != fresh {
				i.note = nil
			}
			items = append(items, i)
		}
		slices.SortFunc(items, compareItems)
		f.bare = m.frame(slices.Compact(items))
	}
	return f.bare
}

func (m *machine) begin() {
	w := &m.scratch
	w.out, w.empty, w.moves = w.out[:0], false, w.moves[:0]
	clear(w.done)
	w.wait = w.wait[:0]
}

// follow adds the results of a move to the stacks below it: frames that need a
// byte, calls, and the stacks that continue below if the rule ends.
func (m *machine) follow(mv *move, under *stacks) {
	m.enter(mv, under)
	w := &m.scratch
	if mv.end {
		m.spend(len(under.tops))
		w.empty = w.empty || under.empty
		w.moves = append(w.moves, under.tops...)
	}
	for _, key := range mv.keys {
		m.spend(len(under.tops))
		w.empty = w.empty || under.empty
		for _, t := range under.tops {
			if f := m.used(t.frame, key); f != nil {
				w.moves = append(w.moves, top{f, t.under})
			}
		}
	}
	m.drain()
}

// drain processes the frames to which rules have returned.
func (m *machine) drain() {
	w := &m.scratch
	for len(w.moves) > 0 && !m.over {
		t := w.moves[len(w.moves)-1]
		w.moves = w.moves[:len(w.moves)-1]
		if _, ok := w.done[t]; ok {
			continue
		}
		w.done[t] = struct{}{}
		m.spend(len(t.frame.items))
		mv := m.closure(t.frame)
		m.enter(mv, t.under)
		if mv.end {
			m.spend(len(t.under.tops))
			w.empty = w.empty || t.under.empty
			w.moves = append(w.moves, t.under.tops...)
		}
	}
}

// used returns the frame to which a key returns, with the key added to its set, or
// nil if the set already contained it.
func (m *machine) used(f *frame, key *note) *frame {
	var items []item
	for _, i := range f.items {
		if has(i.note, key) {
			continue
		}
		i.note = m.with(i.note, key)
		items = append(items, i)
	}
	if len(items) == 0 {
		return nil
	}
	slices.SortFunc(items, compareItems)
	return m.frame(items)
}

// enter records a move's frame, and groups its calls by the rule that they
// call.
func (m *machine) enter(mv *move, under *stacks) {
	w := &m.scratch
	if mv.frame != nil {
		w.out = append(w.out, top{mv.frame, under})
	}
	for _, c := range mv.calls {
		i := slices.IndexFunc(w.wait, func(e entered) bool { return e.rule == c.rule })
		if i < 0 {
			i = len(w.wait)
			if i < cap(w.wait) {
				w.wait = w.wait[:i+1]
				w.wait[i] = entered{rule: c.rule, tops: w.wait[i].tops[:0]}
			} else {
				w.wait = append(w.wait, entered{rule: c.rule})
			}
		}
		if back := m.closure(c.back); back.end && back.frame == nil && len(back.calls) == 0 {
			// the call is the last step of its rule, so it returns to the caller of
			// that rule
			m.spend(len(under.tops))
			w.wait[i].tops = append(w.wait[i].tops, under.tops...)
			w.wait[i].empty = w.wait[i].empty || under.empty
		} else {
			w.wait[i].tops = append(w.wait[i].tops, top{c.back, under})
		}
	}
}

// finish enters each called rule once all of its calls have been recorded, and
// returns the set of stacks.
func (m *machine) finish(live bool) *stacks {
	w := &m.scratch
	for len(w.wait) > 0 && !m.over {
		first := 0
		for i := range w.wait {
			if m.rules[w.wait[i].rule].order < m.rules[w.wait[first].rule].order {
				first = i
			}
		}
		last := len(w.wait) - 1
		w.wait[first], w.wait[last] = w.wait[last], w.wait[first]
		e := w.wait[last]
		w.wait = w.wait[:last]
		under := m.merge(e.tops, e.empty)
		at := m.start[e.rule]
		if live {
			at = m.live[e.rule]
		}
		m.enter(m.closure(at), under)
	}
	if m.over {
		return m.dead
	}
	return m.merge(w.out, w.empty)
}
