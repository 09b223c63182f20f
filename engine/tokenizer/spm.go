package tokenizer

import (
	"bytes"
	"strings"

	"godwit/engine/llm"
)

// spm encodes with SentencePiece BPE vocabularies. The whole text is one word, and
// adjacent pieces merge by the score of the resulting token.
type spm struct {
	t     *Tokenizer
	vocab *vocab
}

func (m *spm) append(dst []llm.Token, s *scratch, text []byte, first bool) []llm.Token {
	s.escaped = s.escaped[:0]
	if m.t.addPrefix && first {
		s.escaped = append(s.escaped, escape...)
	}
	s.escaped = appendEscaped(s.escaped, text)
	s.merger.voc = m.vocab
	return m.vocab.appendWords(dst, s, s.escaped)
}

// appendWords appends the tokens of escaped text. It cuts the text before escaped
// spaces that no merge can cross. This keeps words short and does not change the
// tokens.
func (v *vocab) appendWords(dst []llm.Token, s *scratch, text []byte) []llm.Token {
	start, blank := 0, true // blank reports whether the character before i is an escaped space
	for i := 0; i < len(text); {
		n := width(text, i)
		now := n == len(escape) && string(text[i:i+n]) == escape
		if now && !blank && !v.tight[text[i-1]] {
			dst = s.merger.encode(dst, text[start:i])
			start = i
		}
		blank = now
		i += n
	}
	return s.merger.encode(dst, text[start:])
}

// appendEscaped appends text with its spaces escaped.
func appendEscaped(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, ' ')
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:i]...), escape...)
		text = text[i+1:]
	}
}

// crossings returns the bytes that precede an escaped space inside some token,
// except the bytes of an escaped space.
func crossings(tokens []string) *[256]bool {
	var set [256]bool
	for _, s := range tokens {
		for i := 1; i < len(s); i++ {
			k := strings.Index(s[i:], escape)
			if k < 0 {
				break
			}
			if i += k; !strings.HasSuffix(s[:i], escape) {
				set[s[i-1]] = true
			}
		}
	}
	return &set
}
