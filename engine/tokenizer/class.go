package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a set of code point properties that pre-tokenizers use.
type class uint8

const (
	letter class = 1 << iota // \p{L}
	number                   // \p{N}
	mark                     // \p{M}
	punct                    // \p{P}
	symbol                   // \p{S}
	space                    // \s: White_Space
	upper                    // \p{Lu} and \p{Lt}
	lower                    // \p{Ll}
)

// classes is a table with two levels. The first level is indexed by block of
// 256 code points, and the second by code point in the block. Equal blocks
// share storage.
type classes struct {
	ascii [128]class
	block [(unicode.MaxRune + 1) >> 8]uint16
	cells [][256]class
}

// classTable is built from Go's unicode package on first use.
var classTable = sync.OnceValue(func() *classes {
	flat := make([]class, unicode.MaxRune+1)
	for _, p := range []struct {
		set  class
		from *unicode.RangeTable
	}{
		{letter, unicode.L},
		{number, unicode.N},
		{mark, unicode.M},
		{punct, unicode.P},
		{symbol, unicode.S},
		{space, unicode.White_Space},
		{upper, unicode.Lu},
		{upper, unicode.Lt},
		{lower, unicode.Ll},
	} {
		for _, r := range p.from.R16 {
			paint(flat, p.set, uint32(r.Lo), uint32(r.Hi), uint32(r.Stride))
		}
		for _, r := range p.from.R32 {
			paint(flat, p.set, r.Lo, r.Hi, r.Stride)
		}
	}
	t := new(classes)
	seen := map[[256]class]uint16{}
	for i := range t.block {
		cells := [256]class(flat[i<<8:])
		at, ok := seen[cells]
		if !ok {
			at = uint16(len(t.cells))
			seen[cells] = at
			t.cells = append(t.cells, cells)
		}
		t.block[i] = at
	}
	copy(t.ascii[:], flat)
	return t
})

func paint(flat []class, set class, lo, hi, stride uint32) {
	for r := lo; r <= hi; r += stride {
		flat[r] |= set
	}
}

// of returns the class of r, or 0 if r is not a code point.
func (t *classes) of(r rune) class {
	if uint32(r) > unicode.MaxRune {
		return 0
	}
	return t.cells[t.block[r>>8]][r&0xff]
}

// at returns the class and length of the code point at s[i], i < len(s).
func (t *classes) at(s []byte, i int) (class, int) {
	if b := s[i]; b < 0x80 {
		return t.ascii[b], 1
	}
	r, n := runeAt(s, i)
	return t.of(r), n
}

// next returns the class of the code point at s[i], or 0 at the end.
func (t *classes) next(s []byte, i int) class {
	if i >= len(s) {
		return 0
	}
	c, _ := t.at(s, i)
	return c
}

// run returns the end of the longest sequence of code points, starting at s[i],
// whose classes intersect set.
func (t *classes) run(s []byte, i int, set class) int {
	for i < len(s) {
		c, n := t.at(s, i)
		if c&set == 0 {
			break
		}
		i += n
	}
	return i
}

// runNot returns the end of the longest sequence of code points, starting at
// s[i], whose classes do not intersect set.
func (t *classes) runNot(s []byte, i int, set class) int {
	for i < len(s) {
		c, n := t.at(s, i)
		if c&set != 0 {
			break
		}
		i += n
	}
	return i
}

// widths maps a lead byte's four high bits to the length of its UTF-8 sequence. A
// continuation byte has length one.
var widths = [16]uint8{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4}

// width returns the length of the code point that starts at s[i], limited by the
// end of s.
func width(s []byte, i int) int {
	return min(int(widths[s[i]>>4]), len(s)-i)
}

// runeAt decodes the code point at s[i], i < len(s). The text must come from
// normalize. A surrogate decodes to the value of its bits.
func runeAt(s []byte, i int) (rune, int) {
	b := s[i]
	if b < 0x80 {
		return rune(b), 1
	}
	switch n := width(s, i); n {
	case 2:
		return rune(b&0x1f)<<6 | rune(s[i+1]&0x3f), 2
	case 3:
		return rune(b&0x0f)<<12 | rune(s[i+1]&0x3f)<<6 | rune(s[i+2]&0x3f), 3
	case 4:
		return rune(b&0x07)<<18 | rune(s[i+1]&0x3f)<<12 | rune(s[i+2]&0x3f)<<6 | rune(s[i+3]&0x3f), 4
	default:
		return 0xFFFD, n
	}
}

// normalize returns text in the form that byte-level vocabularies encode. Each
// byte that is not part of a code point becomes U+FFFD, overlong forms become
// short, and surrogates stay. If nothing changes, the result is text itself.
// Otherwise it uses dst's storage.
func normalize(dst, text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	i := 0
	for i < len(text) && wellFormed(text, i) {
		i += width(text, i)
	}
	if i == len(text) {
		return text
	}
	dst = append(dst[:0], text[:i]...)
	for i < len(text) {
		r, n := lenient(text, i)
		dst = appendRune(dst, r)
		i += n
	}
	return dst
}

// wellFormed reports whether the bytes at text[i] encode a code point in its
// shortest form. Surrogates count as code points.
func wellFormed(text []byte, i int) bool {
	if text[i] < 0x80 {
		return true
	}
	r, n := lenient(text, i)
	switch n {
	case 2:
		return r >= 0x80
	case 3:
		return r >= 0x800
	case 4:
		return r >= 0x10000
	}
	return false
}

// lenient decodes one code point, which may be overlong. For any other byte it
// returns U+FFFD and a length of one.
func lenient(text []byte, i int) (rune, int) {
	n := width(text, i)
	if text[i] >= 0x80 && n < 2 || text[i] >= 0xf8 || n != int(widths[text[i]>>4]) {
		return 0xFFFD, 1
	}
	for _, b := range text[i+1 : i+n] {
		if b&0xc0 != 0x80 {
			return 0xFFFD, 1
		}
	}
	r, _ := runeAt(text, i)
	if r > unicode.MaxRune {
		return 0xFFFD, 1
	}
	return r, n
}

// appendRune appends the UTF-8 form of r, including surrogates.
func appendRune(dst []byte, r rune) []byte {
	switch {
	case r < 0x80:
		return append(dst, byte(r))
	case r < 0x800:
		return append(dst, 0xc0|byte(r>>6), 0x80|byte(r)&0x3f)
	case r < 0x10000:
		return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return append(dst, 0xf0|byte(r>>18), 0x80|byte(r>>12)&0x3f, 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
}
