package tokenizer

import (
	"hash/maphash"
	"math/bits"
	"strings"

	"godwit/engine/llm"
)

// A table maps hashes to numbers. It uses open addressing, and each slot holds
// the upper half of a hash and a number plus one. The caller compares the texts
// to which the numbers refer. At most half of the slots are in use.
type table struct {
	slots []uint64
	shift uint // shift that turns a hash into a slot
}

// newTable returns a table for n numbers.
func newTable(n int) table {
	b := uint(max(bits.Len(uint(2*n)), 4))
	return table{slots: make([]uint64, 1<<b), shift: 64 - b}
}

// find calls same for the numbers stored under hash until it accepts one. It
// returns that number, or -1 and the free slot for a new entry.
func (t *table) find(hash uint64, same func(i int32) bool) (i int32, slot int) {
	mask := len(t.slots) - 1
	for at := int(hash >> t.shift); ; at = (at + 1) & mask {
		e := t.slots[at]
		if e == 0 {
			return -1, at
		}
		if uint32(e>>32) == uint32(hash) && same(int32(uint32(e))-1) {
			return int32(uint32(e)) - 1, at
		}
	}
}

func (t *table) set(slot int, hash uint64, i int32) {
	t.slots[slot] = uint64(uint32(hash))<<32 | uint64(uint32(i+1))
}

// words finds tokens by their text.
type words struct {
	table
	seed maphash.Seed
	text []string
}

// newWords indexes the texts. If a text occurs twice, the last one is used.
func newWords(seed maphash.Seed, text []string) *words {
	w := &words{table: newTable(len(text)), seed: seed, text: text}
	for i, s := range text {
		h := maphash.String(seed, s)
		_, slot := w.find(h, func(k int32) bool { return text[k] == s })
		w.set(slot, h, int32(i))
	}
	return w
}

// lookup returns the token with this text, or None.
func (w *words) lookup(s []byte) llm.Token {
	return w.hashed(maphash.Bytes(w.seed, s), s)
}

// hashed is lookup for a caller that already has the hash of s.
func (w *words) hashed(h uint64, s []byte) llm.Token {
	mask := len(w.slots) - 1
	for at := int(h >> w.shift); ; at = (at + 1) & mask {
		e := w.slots[at]
		if e == 0 {
			return None
		}
		if uint32(e>>32) == uint32(h) {
			if i := int32(uint32(e)) - 1; w.text[i] == string(s) {
				return i
			}
		}
	}
}

// merges maps pairs to ranks. Rank 0 merges first.
type merges struct {
	table
	pairs []string // "left right"
	// tight contains the last bytes of left sides whose right side starts with
	// U+2581, except U+2581 itself. After any other byte, a word may be cut
	// before a space.
	tight [256]bool
}

// newMerges indexes the lines of tokenizer.ggml.merges. If a pair occurs twice, the
// first one is used. A line must contain exactly one space after its first byte.
// Other lines cannot match text and are left out.
func newMerges(seed maphash.Seed, lines []string) *merges {
	m := &merges{table: newTable(len(lines)), pairs: lines}
	for i, line := range lines {
		if len(line) < 3 {
			continue
		}
		cut := strings.IndexByte(line[1:], ' ') + 1
		left, right := line[:cut], line[cut+1:]
		if cut == 0 || right == "" || left[0] == ' ' || strings.IndexByte(right, ' ') >= 0 {
			continue
		}
		h := pairHash(maphash.String(seed, left), maphash.String(seed, right))
		k, slot := m.find(h, func(k int32) bool { return lines[k] == line })
		if k < 0 {
			m.set(slot, h, int32(i))
		}
		if strings.HasPrefix(right, escape) && !strings.HasSuffix(left, escape) {
			m.tight[left[len(left)-1]] = true
		}
	}
	return m
}

// pairHash combines the hashes of both sides of a pair.
func pairHash(left, right uint64) uint64 {
	hi, lo := bits.Mul64(left^0x9e3779b97f4a7c15, right|1)
	return hi ^ lo ^ left
}

// rank returns the rank of the pair l and r, or noRank if the pair has no rank. l
// must end where r begins.
func (m *merges) rank(text []byte, l, r sym) uint32 {
	h := pairHash(l.hash, r.hash)
	mask := len(m.slots) - 1
	for at := int(h >> m.shift); ; at = (at + 1) & mask {
		e := m.slots[at]
		if e == 0 {
			return noRank
		}
		if uint32(e>>32) != uint32(h) {
			continue
		}
		i := uint32(e) - 1
		p := m.pairs[i]
		cut := int(l.size)
		if len(p) == cut+1+int(r.size) && p[cut] == ' ' &&
			p[:cut] == string(text[l.start:l.start+l.size]) && p[cut+1:] == string(text[r.start:r.start+r.size]) {
			return i
		}
	}
}
