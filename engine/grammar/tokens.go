package grammar

import (
	"bytes"
	"fmt"
	"slices"

	"godwit/engine/llm"
)

// Vocab is the part of a vocabulary that the automaton needs.
type Vocab interface {
	// Size returns the number of tokens.
	Size() int
	// Bytes returns the text bytes of a token, or the name of a control token, such
	// as <|im_end|>.
	Bytes(t llm.Token) []byte
	// IsEOG reports whether a token ends the generation. A grammar allows it where
	// the text may end and where the grammar names it.
	IsEOG(t llm.Token) bool
	// IsControl reports whether a token is not text. A grammar allows it only where
	// the grammar names it.
	IsControl(t llm.Token) bool
}

// Control tokens are written as their name between these bytes, which do not occur
// in UTF-8.
const (
	controlOpen  = 0xff
	controlClose = 0xfe
)

// maxToken limits the bytes of a token. Longer tokens are never allowed.
const maxToken = 4096

// Tokens is a vocabulary as a trie of all tokens, from which masks are computed.
// Its nodes are in depth-first order.
type Tokens struct {
	size    int
	eog     []llm.Token
	text    [][]byte        // path of each token; nil for tokens that are never allowed
	control map[string]bool // names of control tokens

	char  []byte      // character of each node
	depth []uint16    // depth of each node; 0 for the children of the root
	skip  []int32     // first node after a node's subtree
	tall  []uint16    // length in bytes of the longest token in a node's subtree
	long  []llm.Token // all tokens of the trie, longest first
	tok   []llm.Token // a token that ends at the node, or -1
	dups  []dup       // tokens whose bytes equal the bytes of a token in tok
	deep  int         // length of the longest path
	cache cache
}

// dup is a token with the same bytes as another token, which is in the trie.
type dup struct{ tok, of llm.Token }

// NewTokens indexes a vocabulary. The index serves any number of grammars and
// caches the most recently compiled ones. It is safe for concurrent use.
func NewTokens(v Vocab) (*Tokens, error) {
	n := v.Size()
	if n < 0 || n > 1<<26 {
		return nil, fmt.Errorf("%w: vocabulary of %d tokens", ErrLimit, n)
	}
	t := &Tokens{size: n, text: make([][]byte, n), control: map[string]bool{}}
	order := make([]llm.Token, 0, n)
	for i := range llm.Token(n) {
		if v.IsEOG(i) {
			t.eog = append(t.eog, i)
		}
		b := v.Bytes(i)
		if len(b) == 0 || len(b) > maxToken {
			continue
		}
		if v.IsControl(i) || v.IsEOG(i) {
			if bytes.IndexByte(b, controlClose) >= 0 {
				continue
			}
			t.control[string(b)] = true
			b = controlPath(b)
		} else if bytes.IndexByte(b, controlOpen) >= 0 {
			continue // no text contains controlOpen, which is reserved for control tokens
		}
		t.text[i] = slices.Clone(b)
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b llm.Token) int {
		if c := bytes.Compare(t.text[a], t.text[b]); c != 0 {
			return c
		}
		return int(a - b)
	})
	t.grow(order)
	t.measure(order)
	return t, nil
}

func controlPath(name []byte) []byte {
	path := append(make([]byte, 0, len(name)+2), controlOpen)
	return append(append(path, name...), controlClose)
}

// grow builds the trie from tokens sorted by their bytes.
func (t *Tokens) grow(order []llm.Token) {
	var open []int32 // nodes on the path of the previous token
	var last []byte
	for _, id := range order {
		b := t.text[id]
		common := 0
		for common < len(last) && common < len(b) && last[common] == b[common] {
			common++
		}
		if common == len(b) { // same bytes as the previous token
			t.dups = append(t.dups, dup{id, t.tok[open[len(open)-1]]})
			continue
		}
		for len(open) > common {
			t.skip[open[len(open)-1]] = int32(len(t.char))
			open = open[:len(open)-1]
		}
		for d := common; d < len(b); d++ {
			open = append(open, int32(len(t.char)))
			t.char = append(t.char, b[d])
			t.depth = append(t.depth, uint16(d))
			t.skip = append(t.skip, 0)
			t.tok = append(t.tok, -1)
		}
		t.tok[open[len(open)-1]] = id
		t.deep = max(t.deep, len(b))
		last = b
	}
	for _, n := range open {
		t.skip[n] = int32(len(t.char))
	}
}

// measure computes the longest token below each node.
func (t *Tokens) measure(order []llm.Token) {
	t.tall = make([]uint16, len(t.char))
	var open []int32
	for i := range int32(len(t.char)) {
		for len(open) > int(t.depth[i]) {
			open = open[:len(open)-1]
		}
		open = append(open, i)
		if t.tok[i] >= 0 {
			n := uint16(len(open))
			for d := len(open) - 1; d >= 0 && t.tall[open[d]] < n; d-- {
				t.tall[open[d]] = n
			}
		}
	}
	t.long = order
	slices.SortStableFunc(t.long, func(a, b llm.Token) int { return len(t.text[b]) - len(t.text[a]) })
}

// Size returns the number of tokens.
func (t *Tokens) Size() int { return t.size }

// special returns the path of a control token's name, or the name itself if the
// vocabulary contains it as text.
func (t *Tokens) special(name []byte) []byte {
	if t.control[string(name)] {
		return controlPath(name)
	}
	return name
}

// path returns the bytes of a token, or nil if it is never allowed.
func (t *Tokens) path(id int) []byte {
	if id < 0 || id >= t.size {
		return nil
	}
	return t.text[id]
}

// find returns the node at the end of a path.
func (t *Tokens) find(path []byte) (node int32, ok bool) {
	lo, hi := int32(0), int32(len(t.char))
	for _, c := range path {
		for lo < hi && t.char[lo] < c {
			lo = t.skip[lo]
		}
		if lo >= hi || t.char[lo] != c {
			return 0, false
		}
		node = lo
		lo, hi = lo+1, t.skip[lo]
	}
	return node, len(path) > 0
}

// Bitmask has one bit for each token: bit t%64 of word t/64.
type Bitmask []uint64

// NewMask returns an empty mask of the right size.
func (t *Tokens) NewMask() Bitmask { return make(Bitmask, (t.size+63)/64) }

// Has reports whether the token's bit is set.
func (m Bitmask) Has(t llm.Token) bool { return m[t>>6]>>(t&63)&1 == 1 }

func (m Bitmask) set(t llm.Token) { m[t>>6] |= 1 << (t & 63) }

func (m Bitmask) clear(t llm.Token) { m[t>>6] &^= 1 << (t & 63) }

// cut clears the tokens that end in a node's subtree.
func (t *Tokens) cut(m Bitmask, node int32) {
	for i := node; i < t.skip[node]; i++ {
		if t.tok[i] >= 0 {
			m.clear(t.tok[i])
		}
	}
}

// spread sets the bits of all tokens whose bytes equal those of an allowed token.
func (t *Tokens) spread(m Bitmask) {
	for _, d := range t.dups {
		if m.Has(d.of) {
			m.set(d.tok)
		}
	}
}
