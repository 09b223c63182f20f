package tokenizer

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"godwit/engine/llm"
)

// Decode returns the text of tokens. With special, every token is written out;
// without, BOS and EOS that the model adds are left off and control tokens give
// nothing. The result need not be valid UTF-8. It is the text as a whole: a
// space in front that only the vocabulary wants goes, and where the model's
// own tokenizer does so, spaces before punctuation as well.
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

// AppendPiece appends the text of one token as it stands inside of a longer
// text. A token may be a part of a code point. Without special, control tokens
// and the unknown one give nothing.
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

// Piece is the text of one token, control tokens included. The slice is shared:
// it must not be changed.
func (t *Tokenizer) Piece(tok llm.Token) []byte {
	if !t.valid(tok) {
		return nil
	}
	p := t.pieces()
	return p.text[p.ends[tok]:p.ends[tok+1]:p.ends[tok+1]]
}

// pieces are the texts of all tokens, one after the other.
type pieces struct {
	text []byte
	ends []int // end tokens before the current one
}

func (t *Tokenizer) newPieces() *pieces {
	p := &pieces{ends: make([]int, 1, len(t.text)+1)}
	for i := range t.text {
		p.text = t.AppendPiece(p.text, llm.Token(i), true)
		p.ends = append(p.ends, len(p.text))
	}
	return p
}

// appendSpaces appends s with escaped spaces as spaces.
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

// shown is how much of its token a character that stands for no byte shows.
const shown = 256

// appendBytes appends the bytes that s stands for in GPT-2's alphabet. A
// character that is not in it shows what it is and where, as in llama.cpp.
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

// cleanSpaces takes out the spaces that English does not put around
// punctuation: before . , ! and ?, around an apostrophe that stands alone, and
// before 's 'm 're and 've. It works in place.
// Source: clean_up_tokenization of the transformers library, in llama.cpp's
// order.
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

// dropBefore drops the spaces that stand before what drop accepts.
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

// closeApostrophes turns " ' " into "'".
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
