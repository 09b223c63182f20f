package jinja

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// span is a half-open range of bytes.
type span struct{ lo, hi int }

// Str is a string that records which of its bytes a person typed. It is immutable,
// so concurrent renderings can share it.
type Str struct {
	s     string
	typed []span // typed bytes; the spans are sorted, not empty, and at least one byte apart
	safe  bool   // whether the value is a markupsafe.Markup
	runes int    // number of code points plus one; 0 until they are counted
}

// Trusted returns a string in which special tokens are recognised.
func Trusted(s string) *Str {
	s = valid(s)
	return &Str{s: s, runes: utf8.RuneCountInString(s) + 1}
}

// Typed returns a string that a person typed. No special token is recognised in it.
func Typed(s string) *Str {
	out := Trusted(s)
	if out.s != "" {
		out.typed = []span{{0, len(out.s)}}
	}
	return out
}

// String returns the text without its marks.
func (s *Str) String() string { return s.s }

// IsTyped reports whether any byte of the string is marked as typed.
func (s *Str) IsTyped() bool { return len(s.typed) > 0 }

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// count returns the number of code points.
func (s *Str) count() int {
	if s.runes == 0 {
		return utf8.RuneCountInString(s.s)
	}
	return s.runes - 1
}

// offset returns the byte offset of code point i, 0 <= i <= count.
func (s *Str) offset(i int) int {
	n := s.count()
	switch {
	case n == len(s.s):
		return i
	case i >= n:
		return len(s.s)
	case i > n/2:
		off := len(s.s)
		for range n - i {
			_, size := utf8.DecodeLastRuneInString(s.s[:off])
			off -= size
		}
		return off
	}
	off := 0
	for range i {
		_, size := utf8.DecodeRuneInString(s.s[off:])
		off += size
	}
	return off
}

// cut returns the bytes [lo, hi) with their marks.
func (s *Str) cut(lo, hi int) *Str {
	if lo == 0 && hi == len(s.s) {
		return s
	}
	out := &Str{s: s.s[lo:hi], safe: s.safe}
	if s.runes == len(s.s)+1 { // fast path, because every code point is one byte
		out.runes = hi - lo + 1
	}
	for _, sp := range s.spansIn(lo, hi) {
		out.typed = append(out.typed, span{max(sp.lo, lo) - lo, min(sp.hi, hi) - lo})
	}
	return out
}

// spansIn returns the marks that overlap the bytes [lo, hi).
func (s *Str) spansIn(lo, hi int) []span {
	if lo >= hi || len(s.typed) == 0 {
		return nil
	}
	i := sort.Search(len(s.typed), func(i int) bool { return s.typed[i].hi > lo })
	j := i
	for j < len(s.typed) && s.typed[j].lo < hi {
		j++
	}
	return s.typed[i:j]
}

// typedAt reports whether byte i is marked.
func (s *Str) typedAt(i int) bool { return len(s.spansIn(i, i+1)) > 0 }

// plain returns the string as Python's str(s): the same text, not Markup.
func (s *Str) plain() *Str { return s.withSafe(false) }

func (s *Str) withSafe(safe bool) *Str {
	if s.safe == safe {
		return s
	}
	out := *s
	out.safe = safe
	return &out
}

// builder concatenates marked text. It charges all memory that it allocates,
// including outgrown buffers, to the state's budget. The first budget error is kept
// and returned by str.
type builder struct {
	st    *state
	buf   []byte
	typed []span
	err   error
}

func (b *builder) write(s string, typed bool) {
	if s == "" || b.err != nil {
		return
	}
	if b.err = b.reserve(len(s)); b.err != nil {
		return
	}
	if typed {
		b.mark(len(b.buf), len(b.buf)+len(s))
	}
	b.buf = append(b.buf, s...)
}

// reserve makes room for n more bytes.
func (b *builder) reserve(n int) error {
	if n <= cap(b.buf)-len(b.buf) {
		return b.st.alloc(n)
	}
	size := max(2*cap(b.buf), len(b.buf)+n)
	if err := b.st.alloc(size); err != nil {
		return err
	}
	b.buf = append(make([]byte, 0, size), b.buf...)
	return nil
}

func (b *builder) mark(lo, hi int) {
	if n := len(b.typed); n > 0 && b.typed[n-1].hi == lo {
		b.typed[n-1].hi = hi
		return
	}
	b.typed = append(b.typed, span{lo, hi})
}

// lit appends text of the template or of the interpreter.
func (b *builder) lit(s string) { b.write(s, false) }

func (b *builder) add(s *Str) { b.addRange(s, 0, len(s.s)) }

// addRange appends the bytes [lo, hi) of s with their marks.
func (b *builder) addRange(s *Str, lo, hi int) {
	if lo >= hi || b.err != nil {
		return
	}
	spans := s.spansIn(lo, hi)
	if b.err = b.st.alloc(16 * len(spans)); b.err == nil {
		b.err = b.reserve(hi - lo)
	}
	if b.err != nil {
		return
	}
	base := len(b.buf) - lo
	for _, sp := range spans {
		b.mark(max(sp.lo, lo)+base, min(sp.hi, hi)+base)
	}
	b.buf = append(b.buf, s.s[lo:hi]...)
}

// str returns the built string.
func (b *builder) str() (*Str, error) {
	if b.err != nil {
		return nil, b.err
	}
	return &Str{s: string(b.buf), typed: b.typed, runes: utf8.RuneCount(b.buf) + 1}, nil
}

// value returns the built string as a Value, and as Markup if safe is set.
func (b *builder) value(safe bool) (Value, error) {
	s, err := b.str()
	if err != nil {
		return nil, err
	}
	s.safe = safe
	return s, nil
}

// pieces splits the built string where its marks begin and end.
func (b *builder) pieces() []Piece {
	var out []Piece
	put := func(lo, hi int, trusted bool) {
		if lo < hi {
			out = append(out, Piece{Text: string(b.buf[lo:hi]), Trusted: trusted})
		}
	}
	at := 0
	for _, sp := range b.typed {
		put(at, sp.lo, true)
		put(sp.lo, sp.hi, false)
		at = sp.hi
	}
	put(at, len(b.buf), true)
	return out
}

// taint returns out, marked as typed throughout if any source has a mark. It is
// used for results whose bytes cannot be traced individually.
func taint(out string, from ...Value) *Str {
	typed := slices.ContainsFunc(from, func(v Value) bool {
		s, ok := v.(*Str)
		return ok && s.IsTyped()
	})
	if typed {
		return Typed(out)
	}
	return Trusted(out)
}

// mapRunes rewrites a string one code point at a time. The text that f returns gets
// the mark of its code point.
func (st *state) mapRunes(s *Str, f func(i int, r rune) string) (*Str, error) {
	b := builder{st: st, buf: make([]byte, 0, len(s.s))}
	if err := st.charge(len(s.s) / 8); err != nil {
		return nil, err
	}
	for i, r := range s.s {
		b.write(f(i, r), len(s.typed) > 0 && s.typedAt(i))
	}
	out, err := b.str()
	if err != nil {
		return nil, err
	}
	out.safe = s.safe
	return out, nil
}

// Join joins strings with a trusted separator. The parts keep their marks, and
// values that are not strings are left out.
func Join(sep string, parts ...Value) *Str {
	out := &Str{}
	first := true
	for _, p := range parts {
		s, ok := p.(*Str)
		if !ok {
			continue
		}
		if !first {
			out.s += sep
		}
		first = false
		for _, sp := range s.typed {
			lo, hi := sp.lo+len(out.s), sp.hi+len(out.s)
			if n := len(out.typed); n > 0 && out.typed[n-1].hi == lo {
				out.typed[n-1].hi = hi
			} else {
				out.typed = append(out.typed, span{lo, hi})
			}
		}
		out.s += s.s
	}
	out.runes = utf8.RuneCountInString(out.s) + 1
	return out
}
