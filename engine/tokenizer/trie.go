package tokenizer

import "godwit/engine/llm"

// A trie finds the tokens that are prefixes of a text. A node with few children
// has a linked list of them. A node with many has a table indexed by byte.
type trie struct {
	root  [256]uint32
	nodes []trieNode // node 0 stands for no node
	wide  [][256]uint32
}

type trieNode struct {
	child uint32 // first child; if wideBit is set, a table of children
	next  uint32 // next child of the same parent
	token llm.Token
	b     byte
}

const (
	wideBit = 1 << 31
	narrow  = 8       // maximum number of children in a list
	maxWide = 1 << 15 // maximum number of tables, of 1 KiB each; known vocabularies have a tenth of that
)

func newTrie() *trie { return &trie{nodes: make([]trieNode, 1)} }

// add adds a text to the trie. If a text occurs twice, the last token is used.
func (t *trie) add(s string, tok llm.Token) {
	if s == "" {
		return
	}
	at := t.root[s[0]]
	if at == 0 {
		at = t.grow(s[0])
		t.root[s[0]] = at
	}
	for i := 1; i < len(s); i++ {
		to := t.child(at, s[i])
		if to == 0 {
			to = t.grow(s[i])
			t.link(at, to)
		}
		at = to
	}
	t.nodes[at].token = tok
}

func (t *trie) grow(b byte) uint32 {
	t.nodes = append(t.nodes, trieNode{b: b, token: None})
	return uint32(len(t.nodes) - 1)
}

// link makes the node to a child of the node at.
func (t *trie) link(at, to uint32) {
	first := t.nodes[at].child
	if first&wideBit != 0 {
		t.wide[first&^wideBit][t.nodes[to].b] = to
		return
	}
	n := 0
	for k := first; k != 0; k = t.nodes[k].next {
		n++
	}
	if n < narrow || len(t.wide) == maxWide {
		t.nodes[to].next = first
		t.nodes[at].child = to
		return
	}
	var table [256]uint32
	for k := first; k != 0; k = t.nodes[k].next {
		table[t.nodes[k].b] = k
	}
	table[t.nodes[to].b] = to
	t.nodes[at].child = wideBit | uint32(len(t.wide))
	t.wide = append(t.wide, table)
}

// child returns the child of a node for byte b, or 0 if the node has no such
// child.
func (t *trie) child(at uint32, b byte) uint32 {
	at = t.nodes[at].child
	if at&wideBit != 0 {
		return t.wide[at&^wideBit][b]
	}
	for at != 0 && t.nodes[at].b != b {
		at = t.nodes[at].next
	}
	return at
}

// longest returns the longest token that is a prefix of text, and its length. text
// must not be empty.
func (t *trie) longest(text []byte) (llm.Token, int) {
	tok, n := None, 0
	at := t.root[text[0]]
	for end := 1; at != 0; end++ {
		if found := t.nodes[at].token; found != None {
			tok, n = found, end
		}
		if end == len(text) {
			break
		}
		at = t.child(at, text[end])
	}
	return tok, n
}
