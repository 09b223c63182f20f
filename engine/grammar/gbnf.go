package grammar

import (
	"fmt"
	"unicode/utf8"
)

// Limits of a grammar's text.
const (
	maxText   = 1 << 20 // bytes
	maxNest   = 200     // nested groups
	maxRules  = 20_000
	maxRepeat = 1 << 24 // maximum bound in {m,n}
)

// ParseGBNF reads a grammar in llama.cpp's notation. It starts at the rule named
// root.
//
//	root   ::= item ("," " "? item)*      # groups, repetition: * + ? {m} {m,} {m,n}
//	item   ::= "text" | [a-z0-9_]{1,8} | [^"\\] | .
//	escape ::= "\x41 \u00e9 \U0001F600 \n \r \t \\ \" \[ \]"
//	call   ::= <tool_call> item           # a control token by its text, or <[151657]> by its id
//
// A class and the dot match one code point, and the dot also matches line breaks.
// Rule names consist of letters, digits, "-" and "_". Left recursion is an error
// when the grammar is compiled. Errors contain the line and column.
func ParseGBNF(text string) (*Grammar, error) {
	b := NewBuilder()
	if err := b.AddGBNF(text); err != nil {
		return nil, err
	}
	return b.Grammar("root")
}

// parser reads one GBNF text into a builder.
type parser struct {
	b     *Builder
	src   string
	pos   int
	depth int
}

func (p *parser) fail(pos int, format string, args ...any) error {
	line, col := 1, 1
	for _, r := range p.src[:min(pos, len(p.src))] {
		if col++; r == '\n' {
			line, col = line+1, 1
		}
	}
	return fmt.Errorf("%w: line %d, column %d: %s", ErrSyntax, line, col, fmt.Sprintf(format, args...))
}

func (p *parser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

// space skips blanks and comments, and also line breaks if lines is set.
func (p *parser) space(lines bool) {
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == ' ' || c == '\t':
		case c == '#':
			for p.pos < len(p.src) && p.src[p.pos] != '\n' && p.src[p.pos] != '\r' {
				p.pos++
			}
			continue
		case (c == '\n' || c == '\r') && lines:
		default:
			return
		}
		p.pos++
	}
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func (p *parser) name() string {
	start := p.pos
	for isWord(p.peek()) {
		p.pos++
	}
	return p.src[start:p.pos]
}

// rules reads rules until the end of the text.
func (p *parser) rules() error {
	if len(p.src) > maxText {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrSyntax, len(p.src), maxText)
	}
	if !utf8.ValidString(p.src) {
		return fmt.Errorf("%w: not UTF-8", ErrSyntax)
	}
	for p.space(true); p.pos < len(p.src); p.space(true) {
		start := p.pos
		name := p.name()
		if name == "" {
			return p.fail(p.pos, "want the name of a rule")
		}
		p.space(false)
		if len(p.src)-p.pos < 3 || p.src[p.pos:p.pos+3] != "::=" {
			return p.fail(p.pos, "want ::= after %q", name)
		}
		p.pos += 3
		p.space(true)
		body, err := p.alternatives()
		if err != nil {
			return err
		}
		if c := p.peek(); p.pos < len(p.src) && c != '\n' && c != '\r' {
			return p.fail(p.pos, "unexpected %q", p.rune())
		}
		if err := p.b.define(name, body); err != nil {
			return p.fail(start, "%v", err)
		}
	}
	return nil
}

func (p *parser) rune() rune {
	r, _ := utf8.DecodeRuneInString(p.src[p.pos:])
	return r
}

func (p *parser) alternatives() (*expr, error) {
	var alts []*expr
	for {
		e, err := p.sequence()
		if err != nil {
			return nil, err
		}
		alts = append(alts, e)
		// an alternative may also start the next line
		at := p.pos
		p.space(true)
		if p.peek() != '|' {
			if p.depth == 0 {
				p.pos = at
			}
			return alt(alts...), nil
		}
		p.pos++
		p.space(true)
	}
}

// sequence reads items until something else follows.
func (p *parser) sequence() (*expr, error) {
	var items []*expr
	for {
		start := p.pos
		item, err := p.item()
		if err != nil {
			return nil, err
		}
		if item == nil {
			return seq(items...), nil
		}
		for {
			p.space(p.depth > 0)
			lo, hi, ok, err := p.repetition()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			item = repeat(item, lo, hi)
		}
		if p.pos == start {
			return nil, p.fail(p.pos, "unexpected %q", p.rune())
		}
		items = append(items, item)
	}
}

// item reads one item, or returns nil if the next character does not start an item.
func (p *parser) item() (*expr, error) {
	start := p.pos
	switch c := p.peek(); {
	case c == '"':
		p.pos++
		return p.literal(start)
	case c == '[':
		p.pos++
		return p.class(start)
	case c == '.':
		p.pos++
		return class(invert(nil)...), nil
	case c == '<':
		return p.special()
	case c == '(':
		if p.depth++; p.depth > maxNest {
			return nil, p.fail(start, "groups nest deeper than %d", maxNest)
		}
		p.pos++
		p.space(true)
		e, err := p.alternatives()
		if err != nil {
			return nil, err
		}
		if p.peek() != ')' {
			return nil, p.fail(p.pos, "want ) for the group of %s", p.where(start))
		}
		p.pos++
		p.depth--
		return e, nil
	case isWord(c):
		name := p.name()
		id, err := p.b.use(name, func() error { return p.fail(start, "no rule %q", name) })
		if err != nil {
			return nil, p.fail(start, "%v", err)
		}
		return ref(id), nil
	case c == '*' || c == '+' || c == '?' || c == '{':
		return nil, p.fail(start, "nothing to repeat")
	}
	return nil, nil
}

// where returns the description of a position, for errors that are about
// another position.
func (p *parser) where(pos int) string {
	line := 1
	for _, c := range p.src[:pos] {
		if c == '\n' {
			line++
		}
	}
	return fmt.Sprintf("line %d", line)
}

func (p *parser) literal(start int) (*expr, error) {
	var text []byte
	for {
		switch c := p.peek(); {
		case p.pos >= len(p.src) || c == '\n':
			return nil, p.fail(start, "text without its closing quote")
		case c == '"':
			p.pos++
			return &expr{op: opLit, lit: text}, nil
		}
		r, err := p.char()
		if err != nil {
			return nil, err
		}
		text = utf8.AppendRune(text, r)
	}
}

func (p *parser) class(start int) (*expr, error) {
	not := p.peek() == '^'
	if not {
		p.pos++
	}
	var set []span
	for {
		switch c := p.peek(); {
		case p.pos >= len(p.src) || c == '\n':
			return nil, p.fail(start, "class without its closing bracket")
		case c == ']':
			p.pos++
			if set = normal(set); not {
				set = invert(set)
			}
			return class(set...), nil
		}
		at := p.pos
		lo, err := p.char()
		if err != nil {
			return nil, err
		}
		hi := lo
		if p.peek() == '-' && p.pos+1 < len(p.src) && p.src[p.pos+1] != ']' {
			p.pos++
			if hi, err = p.char(); err != nil {
				return nil, err
			}
			if hi < lo {
				return nil, p.fail(at, "range %q to %q is empty", lo, hi)
			}
		}
		set = append(set, span{lo, hi})
	}
}

// char reads a character or an escape sequence.
func (p *parser) char() (rune, error) {
	start := p.pos
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += n
	if r != '\\' {
		return r, nil
	}
	c := p.peek()
	p.pos++
	switch c {
	case 'x':
		return p.hex(start, 2)
	case 'u':
		return p.hex(start, 4)
	case 'U':
		return p.hex(start, 8)
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'n':
		return '\n', nil
	case '\\', '"', '[', ']', '-', '^', '/':
		return rune(c), nil
	}
	return 0, p.fail(start, "unknown escape")
}

func (p *parser) hex(start, digits int) (rune, error) {
	var v uint32
	for range digits {
		c := p.peek() | 0x20
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint32(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint32(c-'a'+10)
		default:
			return 0, p.fail(start, "escape wants %d hexadecimal digits", digits)
		}
		p.pos++
	}
	if v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
		return 0, p.fail(start, "U+%04X is not a character", v)
	}
	return rune(v), nil
}

// special reads <text> or <[id]>.
func (p *parser) special() (*expr, error) {
	start := p.pos
	for p.pos++; p.peek() != '>'; p.pos++ {
		if p.pos >= len(p.src) || p.peek() == '\n' {
			return nil, p.fail(start, "token without its closing >")
		}
	}
	p.pos++
	text := p.src[start:p.pos]
	if n := len(text); n > 4 && text[1] == '[' && text[n-2] == ']' {
		id := 0
		for _, c := range text[2 : n-2] {
			if c < '0' || c > '9' || id > 1<<24 {
				return nil, p.fail(start, "token id %s is not a number", text[2:n-2])
			}
			id = id*10 + int(c-'0')
		}
		return &expr{op: opTokenID, id: id}, nil
	}
	if len(text) < 3 {
		return nil, p.fail(start, "token without a name")
	}
	return &expr{op: opSpecial, lit: []byte(text)}, nil
}

// repetition reads a repetition operator if one comes next.
func (p *parser) repetition() (lo, hi int, ok bool, err error) {
	start := p.pos
	switch p.peek() {
	case '*':
		p.pos++
		return 0, -1, true, nil
	case '+':
		p.pos++
		return 1, -1, true, nil
	case '?':
		p.pos++
		return 0, 1, true, nil
	case '{':
	default:
		return 0, 0, false, nil
	}
	p.pos++
	p.space(p.depth > 0)
	if lo, err = p.count(); err != nil {
		return 0, 0, false, err
	}
	hi = lo
	p.space(p.depth > 0)
	if p.peek() == ',' {
		p.pos++
		p.space(p.depth > 0)
		hi = -1
		if p.peek() != '}' {
			if hi, err = p.count(); err != nil {
				return 0, 0, false, err
			}
			p.space(p.depth > 0)
		}
	}
	if p.peek() != '}' {
		return 0, 0, false, p.fail(p.pos, "want }")
	}
	p.pos++
	if hi >= 0 && hi < lo {
		return 0, 0, false, p.fail(start, "repetition of at least %d and at most %d", lo, hi)
	}
	return lo, hi, true, nil
}

func (p *parser) count() (int, error) {
	start, n := p.pos, 0
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		if n = n*10 + int(c-'0'); n > maxRepeat {
			return 0, p.fail(start, "repetition of more than %d", maxRepeat)
		}
		p.pos++
	}
	if p.pos == start {
		return 0, p.fail(start, "want a number")
	}
	return n, nil
}
