package tokenizer

import (
	"unicode"

	"golang.org/x/text/unicode/norm"

	"godwit/engine/llm"
)

// wordPiece encodes with BERT's vocabularies. Text is cut at spaces and around
// punctuation. Each word is split into the longest tokens, from left to right.
// If that fails, it becomes the unknown token. The file writes U+2581 before
// tokens that start a word.
type wordPiece struct {
	t    *Tokenizer
	trie *trie
}

func newWordPiece(t *Tokenizer) *wordPiece {
	m := &wordPiece{t: t, trie: newTrie()}
	for i, s := range t.text {
		m.trie.add(s, llm.Token(i))
	}
	return m
}

func (m *wordPiece) append(dst []llm.Token, s *scratch, text []byte, _ bool) []llm.Token {
	s.word = append(s.word[:0], escape...)
	flush := func() {
		if len(s.word) > len(escape) {
			dst = m.appendWord(dst, s.word)
			s.word = s.word[:len(escape)]
		}
	}
	for i := 0; i < len(text); {
		r, n := lenient(text, i)
		i += n
		if m.t.decompose {
			r = baseOf(r)
		}
		switch {
		case unicode.IsSpace(r):
			flush()
			continue
		case r == 0, r == 0xFFFD, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Co):
			continue
		case m.t.dropMarks && unicode.Is(unicode.M, r):
			continue
		}
		alone := unicode.IsPunct(r) || r < 0x7f && unicode.IsSymbol(r) || isIdeograph(r)
		if m.t.lowercase {
			r = unicode.ToLower(r)
		}
		if alone {
			flush()
		}
		s.word = appendRune(s.word, r)
		if alone {
			flush()
		}
	}
	flush()
	return dst
}

// appendWord appends the tokens of a word that starts with U+2581.
func (m *wordPiece) appendWord(dst []llm.Token, word []byte) []llm.Token {
	before := len(dst)
	for i := 0; i < len(word); {
		tok, n := m.trie.longest(word[i:])
		if tok == None {
			dst = dst[:before]
			break
		}
		dst = append(dst, tok)
		i += n
	}
	if len(dst) == before && m.t.ids.unk != None {
		dst = append(dst, m.t.ids.unk)
	}
	return dst
}

// baseOf returns the first code point of r's canonical decomposition, which is a
// letter without its accents.
func baseOf(r rune) rune {
	const first, last, perLead, lead = 0xAC00, 0xD7A3, 588, 0x1100 // Hangul syllables decompose by arithmetic
	switch {
	case r < 0xc0:
		return r
	case r >= first && r <= last:
		return lead + (r-first)/perLead
	}
	var buf [4]byte
	if d := norm.NFD.Properties(appendRune(buf[:0], r)).Decomposition(); len(d) > 0 {
		r, _ = runeAt(d, 0)
	}
	return r
}

// ideographsOfBERT lists the blocks in which each character is a word. The
// sixth block starts too late, as in the Rust implementation that models were
// trained with. Source: _is_chinese_char of BERT's tokenization.py.
var ideographsOfBERT = ranges{
	{0x3400, 0x4DBF},
	{0x4E00, 0x9FFF},
	{0xF900, 0xFAFF},
	{0x20000, 0x2A6DF},
	{0x2A700, 0x2B73F},
	{0x2B740, 0x2B81F},
	{0x2B920, 0x2CEAF},
	{0x2F800, 0x2FA1F},
}

func isIdeograph(r rune) bool { return r >= 0x3400 && ideographsOfBERT.has(r) }
