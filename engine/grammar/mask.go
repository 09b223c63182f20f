package grammar

import (
	"math/bits"
	"slices"

	"godwit/engine/llm"
)

// bitset is a stored mask. It stores a list of tokens if the list is smaller
// than the bits.
type bitset struct {
	list []llm.Token
	all  []uint64
}

func (b *bitset) bytes() int { return len(b.list)*4 + len(b.all)*8 }

// compact returns a mask as a bitset.
func compact(m Bitmask) *bitset {
	n := 0
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	if n > len(m)*2 {
		return &bitset{all: slices.Clone(m)}
	}
	list := make([]llm.Token, 0, n)
	for i, w := range m {
		for ; w != 0; w &= w - 1 {
			list = append(list, llm.Token(i*64+bits.TrailingZeros64(w)))
		}
	}
	return &bitset{list: list}
}

// or adds the tokens to a mask.
func (b *bitset) or(dst Bitmask) {
	for i, w := range b.all {
		dst[i] |= w
	}
	for _, t := range b.list {
		dst.set(t)
	}
}

// local is the part of a mask that depends only on the top frame.
type local struct {
	mask *bitset
	ends []int32 // trie nodes with children at which the frame can end
}

// local computes the tokens that a frame allows and the nodes where it ends.
func (m *machine) local(f *frame) *local {
	if f.own != nil {
		return f.own
	}
	own := &local{}
	far, same := m.far(f)
	switch {
	case far == f:
		clear(m.part)
		m.trie(m.alone(f), 0, int32(len(m.toks.char)), 0, 0, m.part, &own.ends)
		own.mask = compact(m.part)
	case same >= m.toks.deep:
		own = m.local(far)
	default:
		m.near(f, m.local(far), same, own)
	}
	if !m.over {
		f.own = own
		m.held += own.mask.bytes() + len(own.ends)*4
	}
	return own
}

// far returns the frame with all loop counts replaced by counts far from the
// bounds. It also returns the token length up to which both frames allow the
// same tokens. Such a length exists because each loop iteration reads at least
// one byte.
func (m *machine) far(f *frame) (far *frame, same int) {
	same = m.toks.deep
	var items []item
	for i, it := range f.items {
		if it.count <= 0 {
			continue
		}
		if items == nil {
			items = slices.Clone(f.items)
		}
		l := m.loops[m.states[it.state].loop]
		items[i].count = countFree
		if it.count < l.min {
			items[i].count = countBelow
			same = min(same, int(l.min-it.count))
		}
		if l.max >= 0 {
			same = min(same, int(l.max-it.count))
		}
	}
	if items == nil {
		return f, same
	}
	slices.SortFunc(items, compareItems)
	return m.frame(slices.Compact(items)), same
}

// near computes the local mask of a frame from the local mask of its far frame.
// It walks only tokens longer than same bytes.
func (m *machine) near(f *frame, far *local, same int, own *local) {
	t := m.toks
	clear(m.part)
	far.mask.or(m.part)
	for _, tok := range t.long {
		if len(t.text[tok]) <= same {
			break
		}
		m.part.clear(tok)
	}
	for _, n := range far.ends {
		if int(t.depth[n]) < same {
			own.ends = append(own.ends, n)
		}
	}
	var ends []int32
	m.trie(m.alone(f), 0, int32(len(t.char)), 0, same, m.part, &ends)
	for _, n := range ends {
		if int(t.depth[n]) >= same {
			own.ends = append(own.ends, n)
		}
	}
	own.mask = compact(m.part)
}

// alone returns the stack that holds only the frame.
func (m *machine) alone(f *frame) *stacks {
	if f.alone == nil {
		f.alone = m.set([]top{{f, m.bottom}}, false)
	}
	return f.alone
}

// trie walks the nodes lo to hi, which all have at least the given depth, from
// a set of stacks. It adds the tokens that the stacks allow without becoming
// empty. It appends the nodes with children at which the stacks can be empty.
// It skips subtrees whose tokens have at most the given length.
func (m *machine) trie(from *stacks, lo, hi int32, depth, length int, dst Bitmask, ends *[]int32) {
	t, at := m.toks, m.walk
	at[depth] = from
	walked := 0
	for i := lo; i < hi && !m.over; {
		if walked++; walked == walkUnit {
			m.spend(0)
			walked = 0
		}
		if int(t.tall[i]) <= length {
			i = t.skip[i]
			continue
		}
		c := t.char[i]
		d := int(t.depth[i])
		s := at[d]
		var to *stacks
		if s.next != nil {
			to = s.next[m.class[c]]
		}
		if to == nil {
			to = m.next(s, c)
		}
		if to == m.dead {
			i = t.skip[i]
			continue
		}
		if tok := t.tok[i]; tok >= 0 {
			dst.set(tok)
		}
		if to.empty && t.skip[i] > i+1 {
			*ends = append(*ends, i)
		}
		if len(to.tops) == 0 {
			i = t.skip[i]
			continue
		}
		at[d+1] = to
		i++
	}
}

// below adds the tokens that continue below the given nodes after the frames above
// s have ended there.
func (m *machine) below(nodes []int32, s *stacks, dst Bitmask) {
	t := m.toks
	for _, p := range m.popped(s).tops {
		m.spend(len(nodes) / walkUnit)
		if m.over {
			return
		}
		from := m.alone(p.frame)
		var ends []int32
		for _, n := range nodes {
			m.trie(from, n+1, t.skip[n], int(t.depth[n])+1, 0, dst, &ends)
		}
		if len(ends) > 0 {
			slices.Sort(ends)
			m.below(slices.Compact(ends), p.under, dst) // removes nodes that were found twice, below another listed node
		}
	}
}

// allowed returns the tokens that may follow.
func (m *machine) allowed(s *stacks) *bitset {
	if s.mask != nil {
		return s.mask
	}
	clear(m.bits)
	for _, p := range s.tops {
		own := m.local(m.bare(p.frame))
		if !p.frame.key {
			own.mask.or(m.bits)
			m.below(own.ends, p.under, m.bits)
			continue
		}
		clear(m.part)
		own.mask.or(m.part)
		m.below(own.ends, p.under, m.part)
		m.cutTaken(p, m.part)
		for i, w := range m.part {
			m.bits[i] |= w
		}
	}
	m.toks.spread(m.bits)
	mask := compact(m.bits)
	if !m.over {
		s.mask = mask
		m.held += mask.bytes()
	}
	return mask
}

// cutTaken clears the tokens that would repeat a key of the object.
func (m *machine) cutTaken(p top, dst Bitmask) {
	text := p.frame.items[0].note.bytes()
	for set := m.common(p.under); set != nil; set = set.up {
		key := set.key.bytes()
		if len(key) <= len(text) || string(key[:len(text)]) != string(text) {
			continue
		}
		if node, ok := m.toks.find(key[len(text):]); ok {
			m.toks.cut(dst, node)
		}
	}
}

// common returns the keys of the object that contains the current key. In an
// ambiguous grammar, the key may be in several objects. Then only the keys in
// all of them are returned.
func (m *machine) common(s *stacks) *note {
	var sets []*note
	for _, t := range s.tops {
		for _, i := range t.frame.items {
			sets = append(sets, i.note)
		}
	}
	if len(sets) == 0 {
		return nil
	}
	var out *note
	for set := sets[0]; set != nil; set = set.up {
		if !slices.ContainsFunc(sets, func(other *note) bool { return !has(other, set.key) }) {
			out = m.with(out, set.key)
		}
	}
	return out
}
