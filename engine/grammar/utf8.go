package grammar

import "unicode/utf8"

// class returns a state from which one code point of the set leads to the state to.
// Byte sequences that several ranges share are built once.
func (b *nfaBuilder) class(set []span, to int32) int32 {
	from := b.state()
	for _, s := range set {
		b.runes(from, s.lo, s.hi, to)
	}
	return from
}

// runes adds the bytes of the code points lo to hi. It splits the range until each
// part is one byte range per position.
func (b *nfaBuilder) runes(from int32, lo, hi rune, to int32) {
	for _, last := range [...]rune{0x7f, 0x7ff, 0xffff} { // last code points with 1, 2 and 3 bytes
		if lo <= last && hi > last {
			b.runes(from, lo, last, to)
			b.runes(from, last+1, hi, to)
			return
		}
	}
	n := utf8.RuneLen(hi)
	for i := 1; i < n; i++ {
		low := rune(1)<<(6*i) - 1 // the bits of the last i bytes
		if lo&^low == hi&^low {
			continue
		}
		if lo&low != 0 {
			b.runes(from, lo, lo|low, to)
			b.runes(from, (lo|low)+1, hi, to)
			return
		}
		if hi&low != low {
			b.runes(from, lo, hi&^low-1, to)
			b.runes(from, hi&^low, hi, to)
			return
		}
	}
	var x, y [utf8.UTFMax]byte
	utf8.EncodeRune(x[:], lo)
	utf8.EncodeRune(y[:], hi)
	for i := n - 1; i > 0; i-- {
		to = b.one(x[i], y[i], to)
	}
	b.link(from, edge{kind: edgeByte, lo: x[0], hi: y[0], to: to})
}

// one returns the state with a given single edge. Equal edges share one state.
func (b *nfaBuilder) one(lo, hi byte, to int32) int32 {
	id := byteRange{lo, hi, to, b.rule}
	s, ok := b.ranges[id]
	if !ok {
		s = b.state(edge{kind: edgeByte, lo: lo, hi: hi, to: to})
		b.ranges[id] = s
	}
	return s
}

// after builds free text as an Aho-Corasick automaton of the markers. After a
// marker, the text continues with e.subs[0]. Before a marker, its bytes are
// unrestricted, and it may end anywhere if e allows that.
func (b *nfaBuilder) after(e *expr, to int32) int32 {
	type node struct {
		next [256]int32 // next node, in the trie first and in the automaton later; -1 without one
		hit  bool
		fail int32
	}
	fresh := func() *node {
		n := &node{}
		for i := range n.next {
			n.next[i] = -1
		}
		return n
	}
	nodes := []*node{fresh()}
	for _, m := range e.subs[1:] {
		at := int32(0)
		for _, c := range b.toks.special(m.lit) {
			if nodes[at].next[c] < 0 {
				nodes[at].next[c] = int32(len(nodes))
				nodes = append(nodes, fresh())
			}
			at = nodes[at].next[c]
		}
		nodes[at].hit = true
	}
	queue := []int32{}
	for c, n := range nodes[0].next {
		if n < 0 {
			nodes[0].next[c] = 0
		} else {
			queue = append(queue, n)
		}
	}
	for i := 0; i < len(queue); i++ {
		n := nodes[queue[i]]
		n.hit = n.hit || nodes[n.fail].hit
		for c, m := range n.next {
			if m < 0 {
				n.next[c] = nodes[n.fail].next[c]
			} else {
				nodes[m].fail = nodes[n.fail].next[c]
				queue = append(queue, m)
			}
		}
	}
	at := make([]int32, len(nodes))
	for i, n := range nodes {
		at[i] = b.state()
		if !n.hit && e.min == 0 {
			b.link(at[i], empty(to))
		}
	}
	root := b.expr(e.subs[0], to)
	for i, n := range nodes {
		if n.hit {
			b.link(at[i], empty(root))
			continue
		}
		for lo := 0; lo < 256; {
			hi := lo
			for hi < 255 && n.next[hi+1] == n.next[lo] {
				hi++
			}
			b.link(at[i], edge{kind: edgeByte, lo: byte(lo), hi: byte(hi), to: at[n.next[lo]]})
			lo = hi + 1
		}
	}
	return at[0]
}
