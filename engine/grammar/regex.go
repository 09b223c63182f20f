package grammar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxPattern       = 4096 // bytes
	maxPatternRepeat = 10_000
)

// regex converts a regular subset of ECMAScript's expressions to an expression over
// code points that matches whole texts. A pattern without ^ or $ matches anywhere
// in the text, so any text may precede or follow it. Look-around, back references
// and word boundaries are errors.
//
// \s, \d, \w, their opposites and the dot match only characters that they match both
// in ECMAScript and in RE2.
type regex struct {
	src   string
	pos   int
	depth int
	wide  bool // \s matches all white space of ECMAScript; set for validation, not for generation
}

// branch is one alternative together with its anchors.
type branch struct {
	e          *expr
	head, tail bool // anchored at the start, anchored at the end
}

func parseRegex(src string) (*expr, error) { return (&regex{src: src}).parse() }

func (p *regex) parse() (*expr, error) {
	src := p.src
	if len(src) > maxPattern {
		return nil, fmt.Errorf("%d bytes, at most %d", len(src), maxPattern)
	}
	branches, err := p.branches()
	if err != nil {
		return nil, err
	}
	if p.pos < len(src) {
		return nil, p.fail("unexpected %q", src[p.pos])
	}
	anything := repeat(class(invert(nil)...), 0, -1)
	var alts []*expr
	for _, b := range branches {
		var subs []*expr
		if !b.head {
			subs = append(subs, anything)
		}
		subs = append(subs, b.e)
		if !b.tail {
			subs = append(subs, anything)
		}
		alts = append(alts, seq(subs...))
	}
	return alt(alts...), nil
}

func (p *regex) fail(format string, args ...any) error {
	return fmt.Errorf("at byte %d: %s", p.pos, fmt.Sprintf(format, args...))
}

func (p *regex) more() bool { return p.pos < len(p.src) }

func (p *regex) accept(s string) bool {
	if strings.HasPrefix(p.src[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

func (p *regex) branches() ([]branch, error) {
	var out []branch
	for {
		b, err := p.branch()
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
		if !p.accept("|") {
			return out, nil
		}
	}
}

// branch reads a sequence. It returns several branches if the sequence is one
// group whose alternatives contain anchors.
func (p *regex) branch() ([]branch, error) {
	var b branch
	var subs []*expr
	for p.more() && p.src[p.pos] != '|' && p.src[p.pos] != ')' {
		if b.tail {
			return nil, p.fail("text after $")
		}
		switch {
		case p.accept("^"):
			if len(subs) > 0 {
				return nil, p.fail("^ after text")
			}
			b.head = true
			continue
		case p.accept("$"):
			b.tail = true
			continue
		}
		at := p.pos
		group, e, err := p.atom()
		if err != nil {
			return nil, err
		}
		for _, g := range group {
			if !g.head && !g.tail {
				continue
			}
			if len(subs) > 0 || b.head || p.more() && p.src[p.pos] != ')' && p.src[p.pos] != '|' {
				p.pos = at
				return nil, p.fail("anchor inside the pattern")
			}
			return group, nil
		}
		if e, err = p.quantify(e); err != nil {
			return nil, err
		}
		subs = append(subs, e)
	}
	b.e = seq(subs...)
	return []branch{b}, nil
}

// atom reads one element. If the element is a group, it returns group instead
// of e.
func (p *regex) atom() (group []branch, e *expr, err error) {
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	switch r {
	case '(':
		p.pos++
		return p.group()
	case '[':
		p.pos++
		set, err := p.set()
		return nil, class(set...), err
	case '\\':
		p.pos++
		set, err := p.escape(false)
		return nil, class(set...), err
	case '.':
		p.pos++
		return nil, class(invert([]span{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}})...), nil
	case '*', '+', '?':
		return nil, nil, p.fail("nothing to repeat")
	case '{':
		if _, _, ok := p.counts(p.pos); ok {
			return nil, nil, p.fail("nothing to repeat")
		}
	}
	p.pos += n
	return nil, lit(string(r)), nil
}

func (p *regex) group() (group []branch, e *expr, err error) {
	if p.depth++; p.depth > maxNest {
		return nil, nil, p.fail("groups nest deeper than %d", maxNest)
	}
	switch {
	case p.accept("?:"):
	case p.accept("?<") && p.more() && p.src[p.pos] != '=' && p.src[p.pos] != '!':
		end := strings.IndexByte(p.src[p.pos:], '>')
		if end < 0 {
			return nil, nil, p.fail("group name without >")
		}
		p.pos += end + 1
	case p.accept("?"), p.pos >= 2 && p.src[p.pos-2:p.pos] == "?<":
		return nil, nil, p.fail("look-around and group flags are not regular expressions")
	}
	if group, err = p.branches(); err != nil {
		return nil, nil, err
	}
	if !p.accept(")") {
		return nil, nil, p.fail("want )")
	}
	p.depth--
	var alts []*expr
	for _, b := range group {
		alts = append(alts, b.e)
	}
	return group, alt(alts...), nil
}

// counts reads {m}, {m,} or {m,n} at a position.
func (p *regex) counts(at int) (lo, hi int, ok bool) {
	end := strings.IndexByte(p.src[at:], '}')
	if end < 0 {
		return 0, 0, false
	}
	a, b, comma := strings.Cut(p.src[at+1:at+end], ",")
	lo, err := strconv.Atoi(a)
	hi = lo
	if comma {
		hi = -1
		if b != "" && err == nil {
			hi, err = strconv.Atoi(b)
		}
	}
	if err != nil || lo < 0 || strings.ContainsAny(a+b, "+-") {
		return 0, 0, false
	}
	return lo, hi, true
}

func (p *regex) quantify(e *expr) (*expr, error) {
	for p.more() {
		lo, hi := 0, -1
		switch c := p.src[p.pos]; c {
		case '*':
			p.pos++
		case '+':
			p.pos++
			lo = 1
		case '?':
			p.pos++
			hi = 1
		case '{':
			var ok bool
			if lo, hi, ok = p.counts(p.pos); !ok {
				return e, nil // a literal brace
			}
			p.pos += strings.IndexByte(p.src[p.pos:], '}') + 1
			if lo > maxPatternRepeat || hi > maxPatternRepeat {
				return nil, p.fail("repetition of more than %d", maxPatternRepeat)
			}
			if hi >= 0 && hi < lo {
				return nil, p.fail("repetition of at least %d and at most %d", lo, hi)
			}
		default:
			return e, nil
		}
		p.accept("?") // a lazy quantifier matches the same texts
		if p.more() && strings.IndexByte("*+?", p.src[p.pos]) >= 0 {
			return nil, p.fail("repetition of a repetition")
		}
		e = repeat(e, lo, hi)
	}
	return e, nil
}

func (p *regex) set() ([]span, error) {
	not := p.accept("^")
	var set []span
	for {
		if !p.more() {
			return nil, p.fail("class without ]")
		}
		if p.accept("]") {
			break
		}
		lo, err := p.member()
		if err != nil {
			return nil, err
		}
		if len(lo) == 1 && lo[0].lo == lo[0].hi && p.pos+1 < len(p.src) && p.src[p.pos] == '-' && p.src[p.pos+1] != ']' {
			p.pos++
			hi, err := p.member()
			if err != nil {
				return nil, err
			}
			if len(hi) != 1 || hi[0].lo != hi[0].hi || hi[0].lo < lo[0].lo {
				return nil, p.fail("range with an invalid end")
			}
			lo = []span{{lo[0].lo, hi[0].hi}}
		}
		set = append(set, lo...)
	}
	if set = normal(set); not {
		set = invert(set)
	}
	return set, nil
}

func (p *regex) member() ([]span, error) {
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += n
	if r == '\\' {
		return p.escape(true)
	}
	return []span{{r, r}}, nil
}

var (
	digits     = []span{{'0', '9'}}
	words      = []span{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	blanks     = []span{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}
	everyBlank = []span{{'\t', '\r'}, {' ', ' '}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}}
)

// escape reads the characters after a backslash.
func (p *regex) escape(inSet bool) ([]span, error) {
	if !p.more() {
		return nil, p.fail("backslash at the end")
	}
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += n
	switch r {
	case 'd':
		return digits, nil
	case 'D':
		return invert(digits), nil
	case 'w':
		return words, nil
	case 'W':
		return invert(words), nil
	case 's':
		if p.wide {
			return everyBlank, nil
		}
		return blanks, nil
	case 'S':
		return invert(everyBlank), nil
	case 'p', 'P':
		set, err := p.property()
		if r == 'P' {
			set = invert(set)
		}
		return set, err
	case 't', 'n', 'r', 'f', 'v', '0':
		r = rune("\t\n\r\f\v\x00"[strings.IndexRune("tnrfv0", r)])
	case 'b':
		if !inSet {
			return nil, p.fail(`\b is not a regular expression`)
		}
		r = '\b'
	case 'x':
		return p.code(2)
	case 'u':
		if p.accept("{") {
			end := strings.IndexByte(p.src[p.pos:], '}')
			if end < 1 {
				return nil, p.fail(`\u{ without }`)
			}
			set, err := p.code(end)
			p.pos++
			return set, err
		}
		return p.code(4)
	case 'c':
		if !p.more() || !unicode.IsLetter(rune(p.src[p.pos])) {
			return nil, p.fail(`\c without a letter`)
		}
		r = rune(p.src[p.pos] & 31)
		p.pos++
	default:
		if r < 0x80 && isWord(byte(r)) && r != '-' && r != '_' {
			return nil, p.fail(`\%c is not supported`, r)
		}
	}
	return []span{{r, r}}, nil
}

func (p *regex) code(digits int) ([]span, error) {
	if p.pos+digits > len(p.src) {
		return nil, p.fail("escape wants %d hexadecimal digits", digits)
	}
	v, err := strconv.ParseUint(p.src[p.pos:p.pos+digits], 16, 32)
	if err != nil || v > unicode.MaxRune {
		return nil, p.fail("escape %q is not a code point", p.src[p.pos:p.pos+digits])
	}
	p.pos += digits
	return normal([]span{{rune(v), rune(v)}}), nil
}

// property reads {Name} after \p.
func (p *regex) property() ([]span, error) {
	end := strings.IndexByte(p.src[p.pos:], '}')
	if !p.accept("{") || end < 0 {
		return nil, p.fail(`\p without {name}`)
	}
	name := p.src[p.pos : p.pos+end-1]
	p.pos += end
	if _, value, ok := strings.Cut(name, "="); ok {
		name = value
	}
	if short := unicode.CategoryAliases[name]; short != "" {
		name = short
	}
	table := unicode.Categories[name]
	if table == nil {
		table = unicode.Scripts[name]
	}
	if table == nil {
		return nil, p.fail(`\p{%s} is not supported`, name)
	}
	var set []span
	for _, r := range table.R16 {
		for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
			set = append(set, span{c, c})
		}
	}
	for _, r := range table.R32 {
		for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
			set = append(set, span{c, c})
		}
	}
	return normal(set), nil
}
