package tokenizer

import "godwit/engine/llm"

// A trie finds the tokens that a text starts with. A node's children are a
// chain, but for the root's.
type trie struct {
	root  [256]uint32
	nodes []trieNode // node 0 stands for none
}

type trieNode struct {
	child, next uint32
	token       llm.Token
	b           byte
}

func newTrie() *trie { return &trie{nodes: make([]trieNode, 1)} }

// add puts a text into the trie; of equal ones the last counts.
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
			t.nodes[to].next = t.nodes[at].child
			t.nodes[at].child = to
		}
		at = to
	}
	t.nodes[at].token = tok
}

func (t *trie) grow(b byte) uint32 {
	t.nodes = append(t.nodes, trieNode{b: b, token: None})
	return uint32(len(t.nodes) - 1)
}

// child returns the node below at for b, 0 for none.
func (t *trie) child(at uint32, b byte) uint32 {
	for at = t.nodes[at].child; at != 0 && t.nodes[at].b != b; {
		at = t.nodes[at].next
	}
	return at
}
