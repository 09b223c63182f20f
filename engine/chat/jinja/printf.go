package jinja

import (
	"strings"
	"unicode/utf8"
)

// printf implements Python's format % arg.
func (st *state) printf(format *Str, arg Value) (Value, error) {
	p := &printer{st: st, format: format, arg: arg, b: builder{st: st}}
	if t, ok := arg.(*tuple); ok {
		p.args = t.items
	} else {
		p.args = []Value{arg}
		switch arg.(type) {
		case *Dict, *List, *rangeValue, *undefined:
			p.mapping = true
		}
	}
	if err := p.run(); err != nil {
		return nil, err
	}
	if p.used < len(p.args) && !p.mapping {
		return nil, typeErr("not all arguments converted during string formatting")
	}
	return p.b.value(format.safe)
}

type printer struct {
	st      *state
	format  *Str
	arg     Value
	args    []Value
	used    int
	mapping bool // whether the argument may be read by key, so that it need not be used
	b       builder
	pos     int
}

func (p *printer) run() error {
	s := p.format.s
	for p.pos < len(s) {
		i := strings.IndexByte(s[p.pos:], '%')
		if i < 0 {
			break
		}
		p.b.addRange(p.format, p.pos, p.pos+i)
		p.pos += i + 1
		if err := p.directive(); err != nil {
			return err
		}
	}
	p.b.addRange(p.format, p.pos, len(s))
	return p.b.err
}

func (p *printer) next() (Value, error) {
	if p.used >= len(p.args) {
		return nil, typeErr("not enough arguments for format string")
	}
	p.used++
	return p.args[p.used-1], nil
}

// char returns the next byte of the format and advances.
func (p *printer) char() (byte, error) {
	if p.pos >= len(p.format.s) {
		return 0, valueErr("incomplete format")
	}
	p.pos++
	return p.format.s[p.pos-1], nil
}

// directive formats the directive after a percent sign.
func (p *printer) directive() error {
	sp := spec{fill: " ", prec: -1}
	v, keyed, err := p.key()
	if err != nil {
		return err
	}
	left := false
	c, err := p.char()
	for ; err == nil && strings.IndexByte("-+ #0", c) >= 0; c, err = p.char() {
		switch c {
		case '-':
			left = true
		case '+':
			sp.sign = '+'
		case ' ':
			if sp.sign == 0 {
				sp.sign = ' '
			}
		case '#':
			sp.alt = true
		case '0':
			sp.zero = true
		}
	}
	if err != nil {
		return err
	}
	p.pos--
	if sp.width, err = p.count(); err != nil {
		return err
	}
	if sp.width < -1 { // the argument is negative
		left, sp.width = true, -sp.width-1
	}
	sp.width = max(sp.width, 0)
	if p.pos < len(p.format.s) && p.format.s[p.pos] == '.' {
		p.pos++
		if sp.prec, err = p.count(); err != nil {
			return err
		}
		sp.prec = max(sp.prec, 0)
	}
	for c, err = p.char(); err == nil && strings.IndexByte("hlL", c) >= 0; c, err = p.char() {
	}
	if err != nil {
		return err
	}
	if c == '%' {
		p.b.lit("%")
		return p.b.err
	}
	if !keyed {
		if v, err = p.next(); err != nil {
			return err
		}
	}
	sp.align = '>'
	if left {
		sp.align, sp.zero = '<', false
	}
	return p.convert(v, c, sp)
}

// key reads a key in parentheses.
func (p *printer) key() (Value, bool, error) {
	s := p.format.s
	if p.pos >= len(s) || s[p.pos] != '(' {
		return nil, false, nil
	}
	if !p.mapping {
		return nil, false, typeErr("format requires a mapping")
	}
	depth := 1
	from := p.pos + 1
	for p.pos++; p.pos < len(s) && depth > 0; p.pos++ {
		switch s[p.pos] {
		case '(':
			depth++
		case ')':
			depth--
		}
	}
	if depth > 0 {
		return nil, false, valueErr("incomplete format key")
	}
	key := s[from : p.pos-1]
	p.used = len(p.args)
	switch a := p.arg.(type) {
	case *Dict:
		if v, ok := a.Get(key); ok {
			return v, true, nil
		}
		return nil, false, valueErr("key '%s' not found", key)
	case *undefined:
		return nil, false, a.use()
	}
	return nil, false, typeErr("%s indices must be integers or slices, not str", p.arg.pyType())
}

// count reads a width or precision, given as digits or as a star that stands
// for an argument. It returns -1 if neither is given. For a negative argument
// n, it returns n-1.
func (p *printer) count() (int, error) {
	if p.pos < len(p.format.s) && p.format.s[p.pos] == '*' {
		p.pos++
		v, err := p.next()
		if err != nil {
			return 0, err
		}
		n, ok := asIndex(v)
		if !ok {
			return 0, typeErr("* wants int")
		}
		if n > 1<<30 || n < -1<<30 {
			return 0, limitErr("a width of %d", n)
		}
		if n < 0 {
			n--
		}
		return n, nil
	}
	n, rest, err := specNumber(p.format.s[p.pos:])
	p.pos = len(p.format.s) - len(rest)
	return n, err
}

func (p *printer) convert(v Value, c byte, sp spec) error {
	switch c {
	case 's', 'r', 'a':
		return p.text(v, c, sp)
	case 'c':
		return p.oneChar(v, sp)
	case 'd', 'i', 'u', 'x', 'X', 'o':
		return p.integer(v, c, sp)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		n, ok := asNumber(v)
		if !ok {
			if u, ok := v.(*undefined); ok {
				return u.use()
			}
			return typeErr("must be real number, not %s", v.pyType())
		}
		f, err := n.float64()
		if err != nil {
			return err
		}
		sp.typ = c
		sp.fillZero()
		return p.st.formatNumber(&p.b, number{f: f, float: true}, sp)
	}
	return valueErr("unsupported format character '%c'", c)
}

func (sp *spec) fillZero() {
	if sp.zero {
		sp.fill, sp.align = "0", '='
	}
}

func (p *printer) text(v Value, c byte, sp spec) error {
	var s *Str
	var err error
	if c == 's' {
		s, err = p.st.softStr(v)
	} else {
		b := builder{st: p.st}
		if err = p.st.repr(&b, v, 0); err == nil {
			s, err = b.str()
		}
	}
	if err == nil && c == 'a' {
		s, err = p.st.mapRunes(s, func(_ int, r rune) string {
			if r < utf8.RuneSelf {
				return string(r)
			}
			return asciiEscape(r)
		})
	}
	if err == nil && p.format.safe {
		s, err = p.st.escape(s)
	}
	if err != nil {
		return err
	}
	return p.st.formatStr(&p.b, s, sp)
}

func (p *printer) oneChar(v Value, sp spec) error {
	if s, ok := v.(*Str); ok {
		if s.count() != 1 {
			return typeErr("%%c requires int or char")
		}
		return p.st.formatStr(&p.b, s, sp)
	}
	n, ok := asIndex(v)
	if _, big := v.(*bigInt); big {
		n, ok = -1, true
	}
	if !ok {
		return typeErr("%%c requires int or char")
	}
	if n < 0 || n > utf8.MaxRune {
		return valueErr("%%c arg not in range(0x110000)")
	}
	return p.st.formatStr(&p.b, &Str{s: valid(string(rune(n)))}, sp)
}

func (p *printer) integer(v Value, c byte, sp spec) error {
	n, ok := asNumber(v)
	if !ok {
		if u, ok := v.(*undefined); ok && c != 'x' && c != 'X' && c != 'o' {
			return u.use()
		}
		return typeErr("%%%c format: a real number is required, not %s", c, v.pyType())
	}
	if n.float {
		if c == 'x' || c == 'X' || c == 'o' {
			return typeErr("%%%c format: an integer is required, not float", c)
		}
		i, err := floatToInt(n.f)
		if err != nil {
			return err
		}
		n, _ = asNumber(i)
	}
	if sp.prec > 100_000 {
		return limitErr("a number of %d digits", sp.prec)
	}
	digits := n.int()
	prefix, base := "", 10
	switch c {
	case 'x', 'X':
		prefix, base = "0"+string(c), 16
	case 'o':
		prefix, base = "0o", 8
	}
	text := strings.TrimPrefix(digits.Text(base), "-")
	if c == 'X' {
		text = strings.ToUpper(text)
	}
	if len(text) < sp.prec {
		text = strings.Repeat("0", sp.prec-len(text)) + text
	}
	if !sp.alt {
		prefix = ""
	}
	sp.fillZero()
	return p.st.number(&p.b, digits.Sign() < 0, prefix, text, "", sp)
}
