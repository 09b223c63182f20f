package tokenizer

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"godwit/engine/llm"
)

// unigram encodes with SentencePiece unigram vocabularies. Of all ways to split the
// text into tokens, it takes the one with the highest sum of scores.
type unigram struct {
	t       *Tokenizer
	trie    *trie
	chars   *charsmap
	missing float64 // score of a character without a token
}

// arc is the best way to reach a position in the text.
type arc struct {
	score float64
	from  int
	token llm.Token
}

// unknownPenalty is the difference between the lowest token score and the score of
// an unknown character. Source: kUnkPenalty of SentencePiece.
const unknownPenalty = 10

func newUnigram(t *Tokenizer) *unigram {
	m := &unigram{t: t, trie: newTrie(), missing: math.MaxFloat32}
	for i, a := range t.attrs {
		if a&normal != 0 {
			m.missing = min(m.missing, m.score(llm.Token(i)))
		}
		if a&(normal|userDefined|unused) != 0 {
			m.trie.add(t.text[i], llm.Token(i))
		}
	}
	m.missing -= unknownPenalty
	m.chars, _ = newCharsmap(t.charsmap)
	return m
}

// score returns the score of a token. NaN counts as the lowest score.
func (m *unigram) score(tok llm.Token) float64 {
	f := float64(m.t.Score(tok))
	if m.t.attrs[tok]&userDefined != 0 {
		return 0
	}
	if f != f {
		return -math.MaxFloat32
	}
	return f
}

func (m *unigram) append(dst []llm.Token, s *scratch, text []byte, _ bool) []llm.Token {
	s.norm = m.normalize(s.norm[:0], text)
	n := len(s.norm)
	if n == 0 {
		return dst
	}
	s.best = slices.Grow(s.best[:0], n+1)[:n+1]
	for i := range s.best {
		s.best[i] = arc{math.Inf(-1), 0, m.t.ids.unk}
	}
	s.best[0].score = 0
	for i := 0; i < n; i += width(s.norm, i) {
		m.extend(s.best, s.norm, i)
	}
	return m.trace(dst, s.best)
}

// extend tries all tokens that start at text[i].
func (m *unigram) extend(best []arc, text []byte, i int) {
	offer := func(end int, tok llm.Token, score float64) {
		if sum := best[i].score + score; sum > best[end].score {
			best[end] = arc{sum, i, tok}
		}
	}
	n := width(text, i)
	whole := false
	at := m.trie.root[text[i]]
	for end := i + 1; at != 0; end++ {
		if tok := m.trie.nodes[at].token; tok != None {
			whole = whole || end == i+n
			offer(end, tok, m.score(tok))
		}
		if end == len(text) {
			break
		}
		at = m.trie.child(at, text[end])
	}
	if !whole {
		offer(i+n, m.t.ids.unk, m.missing)
	}
}

// trace follows the best arcs backwards and appends the tokens of the best
// split. Adjacent unknown characters become one token.
func (m *unigram) trace(dst []llm.Token, best []arc) []llm.Token {
	from := len(dst)
	last := None
	for at := len(best) - 1; at > 0; at = best[at].from {
		if tok := best[at].token; tok != None && (tok != m.t.ids.unk || last != tok) {
			dst = append(dst, tok)
		}
		last = best[at].token
	}
	slices.Reverse(dst[from:])
	return dst
}

// normalize appends text in the form on which the vocabulary was trained, with
// escaped spaces.
func (m *unigram) normalize(dst, text []byte) []byte {
	gap := ' '
	if m.t.escaped {
		gap = []rune(escape)[0]
	}
	begun, inWord := !m.t.addPrefix, false
	for i := 0; i < len(text); {
		out, n := m.chars.next(text[i:])
		i += n
		for _, b := range out {
			if b == ' ' {
				inWord = false
				if !m.t.mergeSpaces {
					dst = appendRune(dst, gap)
				}
				continue
			}
			if !inWord && (!begun || m.t.mergeSpaces) {
				dst = appendRune(dst, gap)
				begun = true
			}
			inWord = true
			dst = append(dst, b)
		}
	}
	return dst
}

// charsmap is SentencePiece's compiled table of replacements. It is a
// double-array trie of the texts to be replaced. Its values are the offsets of
// their replacements. Source: precompiled_charsmap of sentencepiece's
// normalizer; S. Kanda (2018), Space- and Time-Efficient String Dictionaries.
type charsmap struct {
	units []uint32
	texts []byte // replacement texts, each ending in 0
}

// newCharsmap parses the data, which is the length of the trie in bytes, the
// trie, and the replacement texts. It returns nil if there is no data.
func newCharsmap(data []byte) (*charsmap, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if len(data) < 4 {
		return nil, errors.New("shorter than its header")
	}
	n := uint64(binary.LittleEndian.Uint32(data))
	if n+4 >= uint64(len(data)) {
		return nil, errors.New("shorter than its trie")
	}
	c := &charsmap{units: make([]uint32, n/4), texts: data[4+n:]}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(data[4+4*i:])
	}
	return c, nil
}

// next returns the replacement of the longest prefix of text that has one, or
// otherwise the first character. n is the number of bytes of text that are
// replaced.
func (c *charsmap) next(text []byte) (out []byte, n int) {
	if c != nil {
		if out, n = c.replace(text); n > 0 {
			return out, n
		}
	}
	if r, n := lenient(text, 0); r != 0xFFFD || n > 1 {
		return text[:n], n
	}
	return []byte("\uFFFD"), 1
}

// replace walks the trie. Text that is not in the trie does not match.
func (c *charsmap) replace(text []byte) (out []byte, n int) {
	unit := func(i uint32) uint32 {
		if uint64(i) < uint64(len(c.units)) {
			return c.units[i]
		}
		return 0
	}
	base := func(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }
	at := base(unit(0))
	for i, b := range text {
		if at ^= uint32(b); b == 0 || unit(at)&(1<<31|0xff) != uint32(b) {
			break
		}
		leaf := unit(at)>>8&1 == 1
		if at ^= base(unit(at)); !leaf {
			continue
		}
		from := uint64(unit(at) &^ (1 << 31))
		if from >= uint64(len(c.texts)) {
			continue
		}
		end := slices.Index(c.texts[from:], 0)
		if end < 0 {
			continue
		}
		out, n = c.texts[from:from+uint64(end)], i+1
	}
	return out, n
}
