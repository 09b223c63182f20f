package tokenizer

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"godwit/engine/llm"
)

// Decode returns the text of tokens. If special is set, every token is written
// out. Otherwise, control tokens are omitted, and so are the BOS and EOS that
// the model adds. The result may not be valid UTF-8. It is treated as a
// complete text, so a leading space that only the vocabulary requires is
// removed. Decode removes spaces before punctuation if the model's own
// tokenizer does.
func (t *Tokenizer) Decode(tokens []llm.Token, special bool) []byte {
	strip := t.addPrefix
	if !special {
		if t.addBOS && len(tokens) > 0 && tokens[0] == t.ids.bos {
			tokens, strip = tokens[1:], false
		}
		if n := len(tokens); t.addEOS && n > 0 && tokens[n-1] == t.ids.eos {
			tokens = tokens[:n-1]
		}
	}
	dst := make([]byte, 0, 4*len(tokens))
	for i, tok := range tokens {
		dst = t.AppendPiece(dst, tok, special)
		if i == 0 && strip && len(dst) > 0 && dst[0] == ' ' {
			dst = dst[1:]
		}
	}
	if t.clean {
		dst = cleanSpaces(dst)
	}
	return dst
}

// AppendPiece appends the text of one token as it appears inside a longer text.
// A token may be a part of a code point. If special is not set, control tokens
// and the unknown token append nothing.
func (t *Tokenizer) AppendPiece(dst []byte, tok llm.Token, special bool) []byte {
	if !t.valid(tok) {
		return dst
	}
	a, s := t.attrs[tok], t.text[tok]
	switch {
	case !special && a&(unknown|control) != 0:
		return dst
	case t.kind == RWKV:
		return appendUnescaped(dst, s)
	case a&(unknown|control|userDefined) != 0:
		return append(dst, s...)
	case a&normal != 0 && t.escaped:
		return appendSpaces(dst, s)
	case a&normal != 0 && !t.pre.raw:
		return appendBytes(dst, s)
	case a&normal != 0:
		return append(dst, s...)
	case a&byteToken != 0:
		if b, ok := parseByte(s); ok {
			return append(dst, b)
		}
	}
	return dst
}

// Piece returns the text of one token, including control tokens. The slice is
// shared and must not be changed.
func (t *Tokenizer) Piece(tok llm.Token) []byte {
	if !t.valid(tok) {
		return nil
	}
	p := t.pieces()
	return p.text[p.ends[tok]:p.ends[tok+1]:p.ends[tok+1]]
}

// pieces holds the concatenated texts of all tokens.
type pieces struct {
	text []byte
	ends []int // end offset of each token's text
}

func (t *Tokenizer) newPieces() *pieces {
	p := &pieces{ends: make([]int, 1, len(t.text)+1)}
	for i := range t.text {
		p.text = t.AppendPiece(p.text, llm.Token(i), true)
		p.ends = append(p.ends, len(p.text))
	}
	return p
}

// appendSpaces appends s with escaped spaces converted to spaces.
func appendSpaces(dst []byte, s string) []byte {
	for {
		i := strings.Index(s, escape)
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(append(dst, s[:i]...), ' ')
		s = s[i+len(escape):]
	}
}

// shown is the number of bytes of the remaining text that are printed for a
// character outside the alphabet.
const shown = 256

// appendBytes converts s from GPT-2's alphabet to bytes. A character outside the
// alphabet is printed with its position, as in llama.cpp.
func appendBytes(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for i := 0; i < len(s); {
		var buf [utf8.UTFMax]byte
		r, n := lenient(buf[:copy(buf[:], s[i:])], 0)
		if b, ok := byteOf(r); ok {
			dst = append(dst, b)
		} else {
			dst = append(dst, "[UNK_BYTE_0x"...)
			for _, b := range appendRune(buf[:0], r) {
				dst = append(dst, hex[b>>4], hex[b&15])
			}
			dst = append(append(dst, s[:min(len(s), shown)]...), ']')
		}
		i += n
	}
	return dst
}

// parseByte reads "<0xXX>".
func parseByte(s string) (byte, bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	hi, ok1 := hexDigit(s[3])
	lo, ok2 := hexDigit(s[4])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(b byte) (byte, bool) {
	switch {
	case b >= '0' && b <= '9':
		return b - '0', true
	case b|0x20 >= 'a' && b|0x20 <= 'f':
		return b | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// cleanSpaces removes spaces that English does not write around punctuation: before
// . , ! and ?, around an apostrophe that stands alone, and before 's 'm 're and
// 've. It works in place. Source: clean_up_tokenization of the transformers
// library, in llama.cpp's order.
func cleanSpaces(text []byte) []byte {
	if bytes.IndexByte(text, ' ') < 0 {
		return text
	}
	text = dropBefore(text, func(rest []byte) bool {
		return bytes.IndexByte([]byte("?!.,"), rest[0]) >= 0
	})
	text = closeApostrophes(text)
	return dropBefore(text, func(rest []byte) bool {
		if rest[0] != '\'' || len(rest) < 2 {
			return false
		}
		switch rest[1] {
		case 's', 'm':
			return true
		case 'r', 'v':
			return len(rest) > 2 && rest[2] == 'e'
		}
		return false
	})
}

// dropBefore removes spaces before text that drop accepts.
func dropBefore(text []byte, drop func(rest []byte) bool) []byte {
	dst := text[:0]
	for i, b := range text {
		if b == ' ' && i+1 < len(text) && drop(text[i+1:]) {
			continue
		}
		dst = append(dst, b)
	}
	return dst
}

// closeApostrophes replaces " ' " by "'".
func closeApostrophes(text []byte) []byte {
	dst := text[:0]
	for i := 0; i < len(text); i++ {
		if rest := text[i:]; len(rest) > 2 && rest[0] == ' ' && rest[1] == '\'' && rest[2] == ' ' {
			dst = append(dst, '\'')
			i += 2
			continue
		}
		dst = append(dst, text[i])
	}
	return dst
}
