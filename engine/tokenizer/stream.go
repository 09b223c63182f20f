package tokenizer

import (
	"unicode/utf8"

	"godwit/engine/llm"
)

// A Decoder turns a stream of tokens into a stream of valid UTF-8. Bytes of a
// code point wait until it is whole; bytes that can be part of none become
// U+FFFD, one for the longest start of a code point that they are, as Unicode
// recommends and Python's replace does. The zero Decoder is not usable.
type Decoder struct {
	t       *Tokenizer
	special bool
	held    []byte
}

// NewDecoder starts a stream. With special, control tokens are written out.
func (t *Tokenizer) NewDecoder(special bool) *Decoder {
	return &Decoder{t: t, special: special, held: make([]byte, 0, 64)}
}

// Append appends the text that tok completes.
func (d *Decoder) Append(dst []byte, tok llm.Token) []byte {
	d.held = d.t.AppendPiece(d.held, tok, d.special)
	return d.drain(dst, false)
}

// Flush appends what is held back, U+FFFD for an unfinished code point. The
// Decoder is then as new.
func (d *Decoder) Flush(dst []byte) []byte { return d.drain(dst, true) }

// Held is the number of bytes that wait for the rest of their code point.
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

// start returns the length of the longest start of a code point that b begins
// with, at least one byte. b does not begin with a whole code point.
func start(b []byte) int {
	for n := min(len(b), utf8.UTFMax-1); n > 1; n-- {
		if !utf8.FullRune(b[:n]) {
			return n
		}
	}
	return 1
}
