package chat

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// keep returns the number of bytes at the end that may become part of a marker or
// of a code point.
func (p *Parser) keep(final bool, marks []mark) int {
	if final {
		return 0
	}
	n := partialRune(p.rest)
	for _, m := range marks {
		for k := min(len(m.text)-1, len(p.rest)); k > n; k-- {
			if strings.HasSuffix(p.rest, m.text[:k]) {
				n = k
				break
			}
		}
	}
	return n
}

// whole returns the pending text without an incomplete code point at its end.
func (p *Parser) whole(final bool) string {
	if final {
		return p.rest
	}
	return p.rest[:len(p.rest)-partialRune(p.rest)]
}

// partialRune returns the length of an incomplete code point at the end of s.
func partialRune(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		c := s[len(s)-n]
		if utf8.RuneStart(c) {
			if !utf8.FullRuneInString(s[len(s)-n:]) {
				return n
			}
			break
		}
	}
	return 0
}

// mark is a marker that the parser looks for.
type mark struct {
	text      string
	reasoning bool   // opens reasoning
	closes    bool   // closes reasoning, even if no reasoning is open
	control   bool   // is a control token in all models that use it
	last      bool   // counts only at the end of an answer
	read      reader // reads the call that the marker opens; if nil, the marker is dropped
}

// firstMark finds the first marker in s. If several markers begin at the same
// position, it returns the longest.
func firstMark(s string, marks []mark) (int, *mark) {
	var firsts [16]byte
	n := 0
	for i := range marks {
		if c := marks[i].text[0]; n < len(firsts) && bytes.IndexByte(firsts[:n], c) < 0 {
			firsts[n] = c
			n++
		}
	}
	for at := 0; ; at++ {
		j := strings.IndexAny(s[at:], string(firsts[:n]))
		if j < 0 {
			return -1, nil
		}
		at += j
		var best *mark
		for i := range marks {
			if m := &marks[i]; strings.HasPrefix(s[at:], m.text) && (best == nil || len(m.text) > len(best.text)) {
				best = m
			}
		}
		if best != nil {
			return at, best
		}
	}
}

// longerMark reports whether s, which begins with a marker, may begin with a
// longer marker once more text arrives.
func longerMark(s string, marks []mark) bool {
	for i := range marks {
		if len(s) < len(marks[i].text) && strings.HasPrefix(marks[i].text, s) {
			return true
		}
	}
	return false
}

// runeLen returns the length of the code point at the start of s.
func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}
