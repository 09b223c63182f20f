package tokenizer

import "godwit/engine/llm"

// longest encodes with RWKV's vocabularies. At each position, it takes the longest
// token.
type longest struct {
	t    *Tokenizer
	trie *trie
}

func newLongest(t *Tokenizer) *longest {
	m := &longest{t: t, trie: newTrie()}
	for i, s := range t.text {
		m.trie.add(string(appendUnescaped(nil, s)), llm.Token(i))
	}
	return m
}

func (m *longest) append(dst []llm.Token, _ *scratch, text []byte, _ bool) []llm.Token {
	for i := 0; i < len(text); {
		tok, n := m.trie.longest(text[i:])
		if tok == None {
			tok, n = m.t.ids.unk, 1
		}
		if tok != None {
			dst = append(dst, tok)
		}
		i += n
	}
	return dst
}

// appendUnescaped appends the bytes of a token in an RWKV vocabulary, which escapes
// some bytes as \t, \n, \r and \x00 to \xff.
func appendUnescaped(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		b := s[i]
		if b != '\\' || i+1 == len(s) {
			dst = append(dst, b)
			continue
		}
		i++
		switch b = s[i]; b {
		case 't':
			b = '\t'
		case 'n':
			b = '\n'
		case 'r':
			b = '\r'
		case 'x':
			if i+2 < len(s) {
				hi, ok1 := hexDigit(s[i+1])
				lo, ok2 := hexDigit(s[i+2])
				if ok1 && ok2 {
					b = hi<<4 | lo
					i += 2
				}
			}
		}
		dst = append(dst, b)
	}
	return dst
}
