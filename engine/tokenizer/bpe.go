package tokenizer

import (
	"bytes"
	"unicode"

	"godwit/engine/llm"
)

// bpe encodes with vocabularies that merge pairs by rank inside words.
type bpe struct {
	t       *Tokenizer
	vocab   *vocab
	classes *classes
}

func (m *bpe) append(dst []llm.Token, s *scratch, text []byte, _ bool) []llm.Token {
	s.merger.voc = m.vocab
	if m.t.escaped {
		s.escaped = appendEscaped(s.escaped[:0], text)
		text = s.escaped
	}
	norm := normalize(s.norm, text)
	if len(text) > 0 && &norm[0] != &text[0] {
		s.norm = norm
	}
	if m.t.dropSpaces {
		return m.appendSolid(dst, s, norm)
	}
	return m.split(dst, s, norm, 0)
}

// split cuts text with the given pass, and then cuts the pieces with the later
// passes.
func (m *bpe) split(dst []llm.Token, s *scratch, text []byte, pass int) []llm.Token {
	if pass == len(m.t.pre.scans) {
		return m.word(dst, s, text)
	}
	s.memo[pass] = 0
	for i := 0; i < len(text); {
		end := m.t.pre.scans[pass](m.classes, text, i, &s.memo[pass])
		dst = m.split(dst, s, text[i:end], pass+1)
		i = end
	}
	return dst
}

// appendSolid appends the tokens of text, ignoring its spaces.
func (m *bpe) appendSolid(dst []llm.Token, s *scratch, text []byte) []llm.Token {
	for len(text) > 0 {
		end := m.classes.runNot(text, 0, space)
		part := text[:end]
		if m.t.lowercase {
			part = bytes.Map(unicode.ToLower, part)
		}
		dst = m.split(dst, s, part, 0)
		text = text[m.classes.run(text, end, space):]
	}
	return dst
}

// word appends the tokens of a piece that the last pass left whole.
func (m *bpe) word(dst []llm.Token, s *scratch, text []byte) []llm.Token {
	p := &m.t.pre
	if !p.raw {
		s.word = appendAlphabet(s.word[:0], text)
		text = s.word
	}
	lines := p.newlines && text[0] == '\n'
	if p.ignoreMerges || lines {
		if tok := m.vocab.words.lookup(text); tok != None {
			return append(dst, tok)
		}
	}
	switch {
	case !p.raw:
		return s.merger.encodeBytes(dst, text)
	case p.metaspace && !lines:
		return m.metaspace(dst, s, text)
	case p.escaped:
		return m.vocab.appendWords(dst, s, text)
	}
	return s.merger.encode(dst, text)
}

// metaspace appends the tokens of a line of escaped text. Every escaped space
// starts a word, and an escaped space is added before the first word.
func (m *bpe) metaspace(dst []llm.Token, s *scratch, line []byte) []llm.Token {
	if !bytes.HasPrefix(line, []byte(escape)) {
		s.word = append(append(s.word[:0], escape...), line...)
		line = s.word
	}
	for len(line) > 0 {
		end := bytes.Index(line[1:], []byte(escape)) + 1
		if end == 0 {
			end = len(line)
		}
		dst = s.merger.encode(dst, line[:end])
		line = line[end:]
	}
	return dst
}
