package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is a format specification of Python's format(). The % operator uses a part
// of it.
type spec struct {
	fill  string // fill character, one code point
	align byte   // '<', '>', '^', '=' or 0
	sign  byte   // '+', ' ' or 0
	alt   bool
	zero  bool
	posZ  bool // whether a negative number that rounds to zero has no sign
	width int
	group string // "", "," or "_"
	prec  int    // precision; -1 if not given
	typ   byte   // presentation type; 0 if not given
}

// parseSpec parses [[fill]align][sign][z][#][0][width][grouping][.precision][type].
func parseSpec(s string) (spec, error) {
	sp := spec{fill: " ", prec: -1}
	const aligns = "<>^="
	filled := false
	if _, n := utf8.DecodeRuneInString(s); len(s) > n && strings.IndexByte(aligns, s[n]) >= 0 {
		sp.fill, sp.align, s, filled = s[:n], s[n], s[n+1:], true
	} else if s != "" && strings.IndexByte(aligns, s[0]) >= 0 {
		sp.align, s = s[0], s[1:]
	}
	flag := func(set string) byte {
		if s != "" && strings.IndexByte(set, s[0]) >= 0 {
			c := s[0]
			s = s[1:]
			return c
		}
		return 0
	}
	if c := flag("+- "); c != '-' {
		sp.sign = c
	}
	sp.posZ = flag("z") != 0
	sp.alt = flag("#") != 0
	if !filled && flag("0") != 0 {
		sp.fill, sp.zero = "0", true
		if sp.align == 0 {
			sp.align = '='
		}
	}
	var err error
	if sp.width, s, err = specNumber(s); err != nil {
		return sp, err
	}
	sp.width = max(sp.width, 0)
	if c := flag(",_"); c != 0 {
		sp.group = string(c)
	}
	if flag(".") != 0 {
		if sp.prec, s, err = specNumber(s); err != nil {
			return sp, err
		}
		if sp.prec < 0 {
			return sp, valueErr("Format specifier missing precision")
		}
	}
	sp.typ = flag("bcdeEfFgGnosxX%")
	if s != "" {
		return sp, valueErr("Invalid format specifier")
	}
	return sp, nil
}

// specNumber reads the digits at the start of s. It returns -1 if there are
// none.
func specNumber(s string) (int, string, error) {
	n := 0
	for n < len(s) && isDec(s[n]) {
		n++
	}
	if n == 0 {
		return -1, s, nil
	}
	if n > 9 {
		return 0, s, valueErr("Too many decimal digits in format string")
	}
	v, _ := strconv.Atoi(s[:n])
	return v, s[n:], nil
}

// format appends Python's format(v, s).
func (st *state) format(b *builder, v Value, s string) error {
	if s == "" {
		text, err := st.str(v)
		if err != nil {
			return err
		}
		b.add(text)
		return b.err
	}
	text, isStr := v.(*Str)
	num, isNum := asNumber(v)
	if !isStr && !isNum {
		return typeErr("unsupported format string passed to %s.__format__", v.pyType())
	}
	sp, err := parseSpec(s)
	if err != nil {
		return err
	}
	if isStr {
		if sp.typ != 0 && sp.typ != 's' || sp.sign != 0 || sp.alt || sp.group != "" || sp.align == '=' && !sp.zero {
			return valueErr("format specifier '%s' is not for strings", s)
		}
		if sp.align == '=' { // there is a zero before the width
			sp.align = '<'
		}
		return st.formatStr(b, text, sp)
	}
	return st.formatNumber(b, num, sp)
}

// formatStr pads and truncates a string.
func (st *state) formatStr(b *builder, s *Str, sp spec) error {
	if sp.prec >= 0 && s.count() > sp.prec {
		s = s.cut(0, s.offset(sp.prec))
	}
	return st.padded(b, sp, s.count(), func() { b.add(s) })
}

// padded writes the output of write, which has n code points, into a field of the
// spec's width.
func (st *state) padded(b *builder, sp spec, n int, write func()) error {
	left, right := 0, max(sp.width-n, 0)
	switch sp.align {
	case '>', '=':
		left, right = right, 0
	case '^':
		left = right / 2
		right -= left
	}
	if err := st.alloc((left + right) * len(sp.fill)); err != nil {
		return err
	}
	b.lit(strings.Repeat(sp.fill, left))
	write()
	b.lit(strings.Repeat(sp.fill, right))
	return b.err
}

// formatNumber appends a number in the form of the spec's type.
func (st *state) formatNumber(b *builder, n number, sp spec) error {
	if sp.prec > 100_000 {
		return limitErr("a number of %d digits", sp.prec)
	}
	if err := st.charge(max(sp.prec, 0)); err != nil {
		return err
	}
	if sp.typ == 's' {
		return valueErr("Unknown format code 's' for object of type 'int'")
	}
	floatType := sp.typ != 0 && strings.IndexByte("eEfFgG%", sp.typ) >= 0
	if !n.float && !floatType {
		return st.formatInt(b, n.int(), sp)
	}
	if n.float && sp.typ != 0 && sp.typ != 'n' && !floatType {
		return valueErr("Unknown format code '%c' for object of type 'float'", sp.typ)
	}
	f, err := n.float64()
	if err != nil {
		return err
	}
	text := floatText(math.Abs(f), sp)
	whole, rest := text, ""
	if i := strings.IndexAny(text, ".e%"); i >= 0 {
		whole, rest = text[:i], text[i:]
	}
	if sp.typ == 'E' || sp.typ == 'F' || sp.typ == 'G' {
		whole, rest = strings.ToUpper(whole), strings.ToUpper(rest)
	}
	neg := math.Signbit(f) && !math.IsNaN(f)
	if sp.posZ && strings.Trim(text, "0.") == "" {
		neg = false
	}
	return st.number(b, neg, "", whole, rest, sp)
}

func (st *state) formatInt(b *builder, n *big.Int, sp spec) error {
	if sp.prec >= 0 {
		return valueErr("Precision not allowed in integer format specifier")
	}
	base, prefix := 10, ""
	switch sp.typ {
	case 'b':
		base, prefix = 2, "0b"
	case 'o':
		base, prefix = 8, "0o"
	case 'x', 'X':
		base, prefix = 16, "0x"
	case 'c':
		if sp.sign != 0 || sp.group != "" {
			return valueErr("Sign or grouping not allowed with integer format specifier 'c'")
		}
		if n.Sign() < 0 || n.Cmp(big.NewInt(utf8.MaxRune)) > 0 {
			return valueErr("%%c arg not in range(0x110000)")
		}
		if sp.align == 0 {
			sp.align = '<'
		}
		return st.padded(b, sp, 1, func() { b.lit(string(rune(n.Int64()))) })
	}
	digits := new(big.Int).Abs(n).Text(base)
	if sp.typ == 'X' {
		digits, prefix = strings.ToUpper(digits), "0X"
	}
	if !sp.alt {
		prefix = ""
	}
	return st.number(b, n.Sign() < 0, prefix, digits, "", sp)
}

// number writes the sign, prefix, grouped digits and the rest into a field.
func (st *state) number(b *builder, neg bool, prefix, whole, rest string, sp spec) error {
	sign := ""
	switch {
	case neg:
		sign = "-"
	case sp.sign != 0:
		sign = string(sp.sign)
	}
	every := 3
	if sp.typ != 0 && strings.IndexByte("boxX", sp.typ) >= 0 {
		every = 4
	}
	if sp.align == '=' && sp.fill == "0" {
		room := sp.width - len(sign) - len(prefix) - len(rest)
		if err := st.alloc(max(room, 0)); err != nil {
			return err
		}
		whole = zeroPad(whole, room, sp.group, every)
	}
	if sp.group != "" && isDec(whole[0]) || sp.group != "" && every == 4 {
		whole = group(whole, sp.group, every)
	}
	body := whole + rest
	n := len(sign) + len(prefix) + len(body)
	if sp.align == '=' {
		b.lit(sign + prefix)
		sp.width -= len(sign) + len(prefix)
		return st.padded(b, sp, len(body), func() { b.lit(body) })
	}
	if sp.align == 0 {
		sp.align = '>'
	}
	return st.padded(b, sp, n, func() { b.lit(sign + prefix + body) })
}

// zeroPad adds zeros before the digits until they fill the field. It counts the
// separators that are inserted later.
func zeroPad(digits string, room int, sep string, every int) string {
	want := room
	if sep != "" {
		// n digits take n + (n-1)/every places
		want = len(digits)
		for want+(want-1)/every < room {
			want++
		}
	}
	if want <= len(digits) {
		return digits
	}
	return strings.Repeat("0", want-len(digits)) + digits
}

func group(digits, sep string, every int) string {
	var parts []string
	for len(digits) > every {
		parts = append(parts, digits[len(digits)-every:])
		digits = digits[:len(digits)-every]
	}
	out := digits
	for i := len(parts) - 1; i >= 0; i-- {
		out += sep + parts[i]
	}
	return out
}

// floatText formats f >= 0 without sign and padding.
func floatText(f float64, sp spec) string {
	switch {
	case math.IsInf(f, 0):
		return "inf"
	case math.IsNaN(f):
		return "nan"
	}
	prec := sp.prec
	if prec < 0 {
		prec = 6
	}
	switch sp.typ {
	case 'e', 'E':
		return alternate(strconv.FormatFloat(f, 'e', prec, 64), sp.alt)
	case 'f', 'F':
		return alternate(strconv.FormatFloat(f, 'f', prec, 64), sp.alt)
	case '%':
		if math.IsInf(f*100, 0) {
			return "inf%"
		}
		return alternate(strconv.FormatFloat(f*100, 'f', prec, 64), sp.alt) + "%"
	case 'g', 'G', 'n':
		return generalText(f, prec, sp.alt, false)
	}
	if sp.prec < 0 {
		return floatRepr(f)
	}
	return generalText(f, prec, sp.alt, true)
}

// alternate adds the decimal point that the # flag requires.
func alternate(s string, alt bool) string {
	if !alt || strings.Contains(s, ".") {
		return s
	}
	if i := strings.IndexByte(s, 'e'); i >= 0 {
		return s[:i] + "." + s[i:]
	}
	return s + "."
}

// generalText is C's %g. dot0 selects Python's form without a type, which keeps a
// digit after the point and switches to exponents one digit earlier.
func generalText(f float64, prec int, alt, dot0 bool) string {
	prec = max(prec, 1)
	e := strconv.FormatFloat(f, 'e', prec-1, 64)
	at := strings.IndexByte(e, 'e')
	exp, _ := strconv.Atoi(e[at+1:])
	limit := prec
	if dot0 {
		limit--
	}
	if exp < -4 || exp >= limit && f != 0 {
		mant := e[:at]
		if strings.Contains(mant, ".") && !alt {
			mant = strings.TrimRight(strings.TrimRight(mant, "0"), ".")
		}
		return alternate(mant, alt) + e[at:]
	}
	s := strconv.FormatFloat(f, 'f', max(prec-1-exp, 0), 64)
	if strings.Contains(s, ".") && !alt {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if dot0 && !strings.Contains(s, ".") {
		return s + ".0"
	}
	return alternate(s, alt)
}
