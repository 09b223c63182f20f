package tokenizer

import (
	"unicode/utf8"

	"godwit/engine/llm"
)

// A Decoder converts a stream of tokens to a stream of valid UTF-8. The bytes
// of a code point are held back until it is complete. Invalid bytes become
// U+FFFD, once for each maximal prefix of a code point, as in Unicode's
// recommendation and Python's error handler replace. The zero Decoder is not
// usable.
type Decoder struct {
	t       *Tokenizer
	special bool
	held    []byte
}

// NewDecoder starts a stream. If special is set, control tokens are written
// out.
func (t *Tokenizer) NewDecoder(special bool) *Decoder {
	return &Decoder{t: t, special: special, held: make([]byte, 0, 64)}
}

// Append appends the text that tok completes.
func (d *Decoder) Append(dst []byte, tok llm.Token) []byte {
	d.held = d.t.AppendPiece(d.held, tok, d.special)
	return d.drain(dst, false)
}

// Flush appends the text that was held back, with U+FFFD for an incomplete code
// point. The Decoder can then be used for another stream.
func (d *Decoder) Flush(dst []byte) []byte { return d.drain(dst, true) }

// Held returns the number of bytes that are held back until their code point is
// complete.
func (d *Decoder) Held() int { return len(d.held) }

func (d *Decoder) drain(dst []byte, all bool) []byte {
	i := 0
	for i < len(d.held) {
		rest := d.held[i:]
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			if n = start(rest); n == len(rest) && !all && !utf8.FullRune(rest) {
				break
			}
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = append(dst, rest[:n]...)
		}
		i += n
	}
	d.held = d.held[:copy(d.held, d.held[i:])]
	return dst
}

// start returns the length of the longest prefix of b that begins a code point.
// It is at least one byte. b must not begin with a complete code point.
func start(b []byte) int {
	for n := min(len(b), utf8.UTFMax-1); n > 1; n-- {
		if !utf8.FullRune(b[:n]) {
			return n
		}
	}
	return 1
}
