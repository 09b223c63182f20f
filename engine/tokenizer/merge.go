package tokenizer

import (
	"hash/maphash"
	"math"
	"slices"

	"godwit/engine/llm"
)

const (
	noRank  = math.MaxUint32
	short   = 48      // number of symbols up to which comparing all ranks is faster than a heap
	maxWord = 1 << 21 // maximum symbols of a word; longer words are split to bound memory
)

// sym is a symbol, which is a piece of a word during merging.
type sym struct {
	start, size int32 // byte range in the word
	hash        uint64
}

// A merger converts the symbols of a word into tokens. It merges the adjacent pair
// with the best rank, leftmost first, until no pair has a rank. Its buffers are
// reused for the next word.
type merger struct {
	voc  *vocab
	syms []sym
	rank []uint32 // rank of each symbol joined with the next one
	prev []int32
	next []int32
	heap []candidate
}

// candidate is a pair that may be merged. It is stale unless its left symbol and
// the next one still have size bytes together.
type candidate struct {
	key  uint64 // rank and index of the left symbol
	size int32
}

// pair returns the rank of two adjacent symbols.
func (m *merger) pair(word []byte, l, r sym) uint32 {
	if m.voc.merges != nil {
		return m.voc.merges.rank(word, l, r)
	}
	id := m.voc.words.lookup(word[l.start : r.start+r.size])
	if id < 0 {
		return noRank
	}
	return m.voc.scoreRank(id)
}

// symbol returns the symbol for some bytes of a word.
func (v *vocab) symbol(word []byte, start, size int) sym {
	s := sym{start: int32(start), size: int32(size)}
	if v.merges != nil {
		s.hash = maphash.Bytes(v.seed, word[start:start+size])
	}
	return s
}

// join returns the symbol that joins two adjacent symbols.
func (m *merger) join(word []byte, l, r sym) sym {
	return m.voc.symbol(word, int(l.start), int(l.size+r.size))
}

// encode appends the tokens of a word whose symbols are its characters.
func (m *merger) encode(dst []llm.Token, word []byte) []llm.Token {
	for len(word) > 0 {
		m.syms = m.syms[:0]
		i := 0
		for i < len(word) && len(m.syms) < maxWord {
			n := width(word, i)
			m.syms = append(m.syms, m.voc.symbol(word, i, n))
			i += n
		}
		dst = m.merge(dst, word[:i])
		word = word[i:]
	}
	return dst
}

// encodeBytes appends the tokens of a word in GPT-2's alphabet, with one symbol for
// each byte.
func (m *merger) encodeBytes(dst []llm.Token, word []byte) []llm.Token {
	for len(word) > 0 {
		m.syms = m.syms[:0]
		i := 0
		for i < len(word) && len(m.syms) < maxWord {
			s := sym{start: int32(i), size: 1, hash: m.voc.ascii[word[i]&0x7f]}
			if word[i] >= 0x80 {
				s.size, s.hash = 2, m.voc.wide[word[i]&3][word[i+1]&0x3f]
			}
			m.syms = append(m.syms, s)
			i += int(s.size)
		}
		dst = m.merge(dst, word[:i])
		word = word[i:]
	}
	return dst
}

// merge appends the tokens of the word whose symbols are in syms.
func (m *merger) merge(dst []llm.Token, word []byte) []llm.Token {
	if len(m.syms) <= short {
		m.mergeShort(word)
	} else {
		m.mergeLong(word)
	}
	for _, s := range m.syms {
		if s.size > 0 {
			dst = m.voc.appendToken(dst, word[s.start:s.start+s.size], s.hash)
		}
	}
	return dst
}

// mergeShort compares all ranks before each merge.
func (m *merger) mergeShort(word []byte) {
	n := len(m.syms)
	syms := m.syms
	rank := slices.Grow(m.rank[:0], n)[:n]
	for i := range n {
		rank[i] = noRank
		if i > 0 {
			rank[i-1] = m.pair(word, syms[i-1], syms[i])
		}
	}
	for {
		at, best := 0, uint32(noRank)
		for i, r := range rank[:n] {
			if r < best {
				at, best = i, r
			}
		}
		if best == noRank {
			break
		}
		syms[at] = m.join(word, syms[at], syms[at+1])
		copy(syms[at+1:], syms[at+2:n])
		copy(rank[at+1:], rank[at+2:n])
		n--
		if at > 0 {
			rank[at-1] = m.pair(word, syms[at-1], syms[at])
		}
		if rank[at] = noRank; at+1 < n {
			rank[at] = m.pair(word, syms[at], syms[at+1])
		}
	}
	m.syms, m.rank = syms[:n], rank
}

// mergeLong merges with a heap of candidates, in O(n log n) for n symbols. A
// symbol that was merged into another one remains with size 0.
func (m *merger) mergeLong(word []byte) {
	n := len(m.syms)
	m.prev = slices.Grow(m.prev[:0], n)[:n]
	m.next = slices.Grow(m.next[:0], n)[:n]
	m.heap = m.heap[:0]
	for i := range n {
		m.prev[i], m.next[i] = int32(i)-1, int32(i)+1
		if i > 0 {
			m.offer(word, int32(i)-1)
		}
	}
	m.next[n-1] = -1
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	for len(m.heap) > 0 {
		top := m.heap[0]
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
		m.down(0)
		m.apply(word, top)
	}
}

// offer appends the pair of symbol i and the next one to the heap's storage, if
// the pair has a rank. It reports whether the pair has a rank.
func (m *merger) offer(word []byte, i int32) bool {
	j := m.next[i]
	if j < 0 {
		return false
	}
	l, r := m.syms[i], m.syms[j]
	rank := m.pair(word, l, r)
	if rank == noRank {
		return false
	}
	m.heap = append(m.heap, candidate{uint64(rank)<<32 | uint64(uint32(i)), l.size + r.size})
	return true
}

// apply merges the pair of a candidate that is not stale.
func (m *merger) apply(word []byte, c candidate) {
	i := int32(uint32(c.key))
	l := m.syms[i]
	j := m.next[i]
	if l.size == 0 || j < 0 || l.size+m.syms[j].size != c.size {
		return
	}
	m.syms[i] = m.join(word, l, m.syms[j])
	m.syms[j].size = 0
	k := m.next[j]
	m.next[i] = k
	if k >= 0 {
		m.prev[k] = i
	}
	if p := m.prev[i]; p >= 0 && m.offer(word, p) {
		m.up()
	}
	if m.offer(word, i) {
		m.up()
	}
}

// up moves the last element of the heap to its place.
func (m *merger) up() {
	i := len(m.heap) - 1
	c := m.heap[i]
	for i > 0 {
		p := (i - 1) / 2
		if m.heap[p].key <= c.key {
			break
		}
		m.heap[i] = m.heap[p]
		i = p
	}
	m.heap[i] = c
}

// down moves element i of the heap to its place.
func (m *merger) down(i int) {
	n := len(m.heap)
	if i >= n {
		return
	}
	c := m.heap[i]
	for {
		k := 2*i + 1
		if k >= n {
			break
		}
		if k+1 < n && m.heap[k+1].key < m.heap[k].key {
			k++
		}
		if c.key <= m.heap[k].key {
			break
		}
		m.heap[i] = m.heap[k]
		i = k
	}
	m.heap[i] = c
}
