package jinja

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokNumber
	tokOp
)

// token is a lexical unit. text holds a name, an operator, template text or a
// string's value, and num the value of a number.
type token struct {
	kind tokenKind
	line int
	text string
	num  Value
}

// lexer splits a template into tokens as Jinja2's lexer does with
// trim_blocks and lstrip_blocks on.
type lexer struct {
	src       string
	pos       int
	line      int
	toks      []token
	lineStart bool   // whether the last match ended with a newline
	open      []byte // brackets that must be closed before a tag can end
}

// lex returns the tokens of a template. The last one is tokEOF.
func lex(src string) ([]token, error) {
	src = strings.ReplaceAll(strings.ReplaceAll(valid(src), "\r\n", "\n"), "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.emit(tokEOF, "")
	return l.toks, nil
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.toks = append(l.toks, token{kind: kind, line: l.line, text: text})
}

// advance skips n bytes and counts their lines.
func (l *lexer) advance(n int) {
	s := l.src[l.pos : l.pos+n]
	l.line += strings.Count(s, "\n")
	if n > 0 {
		l.lineStart = s[n-1] == '\n'
	}
	l.pos += n
}

func (l *lexer) fail(format string, args ...any) error {
	return atLine(fail(ErrSyntax, format, args...), l.line)
}

// root reads template text up to the next tag, and then the tag.
func (l *lexer) root() error {
	rest := l.src[l.pos:]
	at := nextTag(rest)
	if at < 0 {
		l.emit(tokData, rest)
		l.advance(len(rest))
		return nil
	}
	begin, sign := at+2, byte(0)
	if begin < len(rest) && (rest[begin] == '-' || rest[begin] == '+') {
		sign = rest[begin]
		begin++
	}
	l.data(rest[:at], sign, rest[at+1] == '{')
	l.advance(at)
	begin -= at
	rest = rest[at:]
	switch rest[1] {
	case '{':
		l.emit(tokVarBegin, "")
		l.advance(begin)
		return l.tag(l.varEnd)
	case '#':
		l.advance(begin)
		return l.comment()
	}
	if n, ok := rawTag(rest[begin:], "raw"); ok {
		l.advance(begin + n)
		return l.raw()
	}
	l.emit(tokBlockBegin, "")
	l.advance(begin)
	return l.tag(l.blockEnd)
}

// data emits the text before a tag, stripped as the tag's - or + sign requires.
// Without a sign, blanks between the start of a line and a block or comment are
// dropped.
func (l *lexer) data(text string, sign byte, variable bool) {
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign != '+' && !variable:
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && strings.TrimLeftFunc(text[start:], isSpace) == "" {
			text = text[:start]
		}
	}
	if text != "" {
		l.emit(tokData, text)
	}
}

// nextTag returns the offset of the next {{, {% or {#, or -1.
func nextTag(s string) int {
	for i := 0; i+1 < len(s); i++ {
		j := strings.IndexByte(s[i:], '{')
		if j < 0 {
			return -1
		}
		i += j
		if i+1 < len(s) && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

// skipSpace returns s without leading white space.
func skipSpace(s string) string { return strings.TrimLeftFunc(s, isSpace) }

// rawTag reports whether the tag contains only the given word, and returns the
// length up to and including the tag's end. Only endraw consumes the newline after
// it.
func rawTag(s, word string) (int, bool) {
	rest, ok := strings.CutPrefix(skipSpace(s), word)
	if !ok {
		return 0, false
	}
	rest = skipSpace(rest)
	switch {
	case strings.HasPrefix(rest, "-%}"):
		rest = skipSpace(rest[3:])
	case strings.HasPrefix(rest, "+%}") && word == "endraw":
		rest = rest[3:]
	case strings.HasPrefix(rest, "%}"):
		rest = rest[2:]
		if word == "endraw" {
			rest = strings.TrimPrefix(rest, "\n")
		}
	default:
		return 0, false
	}
	return len(s) - len(rest), true
}

func (l *lexer) raw() error {
	rest := l.src[l.pos:]
	for from := 0; ; {
		i := strings.Index(rest[from:], "{%")
		if i < 0 {
			return l.fail("missing end of raw directive")
		}
		i += from
		begin, sign := i+2, byte(0)
		if begin < len(rest) && (rest[begin] == '-' || rest[begin] == '+') {
			sign = rest[begin]
			begin++
		}
		if n, ok := rawTag(rest[begin:], "endraw"); ok {
			l.data(rest[:i], sign, false)
			l.advance(begin + n)
			return nil
		}
		from = i + 2
	}
}

func (l *lexer) comment() error {
	rest := l.src[l.pos:]
	i := strings.Index(rest, "#}")
	if i < 0 {
		return l.fail("missing end of comment tag")
	}
	end := i + 2
	switch {
	case i > 0 && rest[i-1] == '-':
		end = len(rest) - len(skipSpace(rest[end:]))
	case i > 0 && rest[i-1] == '+':
	case end < len(rest) && rest[end] == '\n':
		end++
	}
	l.advance(end)
	return nil
}

// varEnd returns the length of the end of a print tag if that comes next, and
// otherwise 0.
func (l *lexer) varEnd() int {
	rest := l.src[l.pos:]
	switch {
	case strings.HasPrefix(rest, "-}}"):
		return len(rest) - len(skipSpace(rest[3:]))
	case strings.HasPrefix(rest, "}}"):
		return 2
	}
	return 0
}

// blockEnd returns the length of the end of a block tag if that comes next, and
// otherwise 0.
func (l *lexer) blockEnd() int {
	rest := l.src[l.pos:]
	switch {
	case strings.HasPrefix(rest, "-%}"):
		return len(rest) - len(skipSpace(rest[3:]))
	case strings.HasPrefix(rest, "+%}"):
		return 3
	case strings.HasPrefix(rest, "%}\n"):
		return 3
	case strings.HasPrefix(rest, "%}"):
		return 2
	}
	return 0
}

// tag reads the tokens inside a tag and the tag's end.
func (l *lexer) tag(end func() int) error {
	kind := tokVarEnd
	if l.toks[len(l.toks)-1].kind == tokBlockBegin {
		kind = tokBlockEnd
	}
	for {
		if len(l.open) == 0 {
			if n := end(); n > 0 {
				l.emit(kind, "")
				l.advance(n)
				return nil
			}
		}
		if l.pos >= len(l.src) {
			return nil // the parser reports which tag is not closed
		}
		if err := l.expression(); err != nil {
			return err
		}
	}
}

// expression reads one token inside a tag.
func (l *lexer) expression() error {
	rest := l.src[l.pos:]
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case isSpace(r):
		l.advance(len(rest) - len(skipSpace(rest)))
		return nil
	case r >= '0' && r <= '9':
		return l.number()
	case isWord(r):
		return l.name()
	case r == '\'' || r == '"':
		return l.quoted(byte(r))
	}
	return l.operator()
}

func (l *lexer) name() error {
	rest := l.src[l.pos:]
	n := strings.IndexFunc(rest, func(r rune) bool { return !isWord(r) })
	if n < 0 {
		n = len(rest)
	}
	word := rest[:n]
	if r, _ := utf8.DecodeRuneInString(word); !unicode.IsLetter(r) && r != '_' {
		return l.fail("invalid character in identifier")
	}
	l.emit(tokName, word)
	l.advance(n)
	return nil
}

// operators, longest first
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

func (l *lexer) operator() error {
	rest := l.src[l.pos:]
	i := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(rest, op) })
	if i < 0 {
		r, _ := utf8.DecodeRuneInString(rest)
		return l.fail("unexpected char %q", r)
	}
	op := operators[i]
	switch op {
	case "(", "[", "{":
		if len(l.open) >= maxNesting {
			return l.fail("brackets nested deeper than %d", maxNesting)
		}
		l.open = append(l.open, map[string]byte{"(": ')', "[": ']', "{": '}'}[op])
	case ")", "]", "}":
		n := len(l.open)
		if n == 0 {
			return l.fail("unexpected '%s'", op)
		}
		if want := l.open[n-1]; want != op[0] {
			return l.fail("unexpected '%s', expected '%c'", op, want)
		}
		l.open = l.open[:n-1]
	}
	l.emit(tokOp, op)
	l.advance(len(op))
	return nil
}

func (l *lexer) quoted(quote byte) error {
	rest := l.src[l.pos:]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			text, err := unescape(rest[1:i])
			if err != nil {
				return l.fail("%v", err)
			}
			l.emit(tokString, text)
			l.advance(i + 1)
			return nil
		}
	}
	return l.fail("unexpected char %q: the string is not closed", rune(quote))
}

// number reads an integer or a float in any of Python's notations.
func (l *lexer) number() error {
	rest := l.src[l.pos:]
	n := floatLen(rest)
	afterDot := l.pos > 0 && l.src[l.pos-1] == '.'
	var v Value
	if n > 0 && !afterDot {
		f, _ := strconv.ParseFloat(strings.ReplaceAll(rest[:n], "_", ""), 64)
		v = Float(f)
	} else {
		n = intLen(rest)
		digits := strings.ReplaceAll(rest[:n], "_", "")
		if len(digits) > maxDigits {
			return l.fail("integer of %d digits, at most %d are allowed", len(digits), maxDigits)
		}
		i, ok := new(big.Int).SetString(digits, 0)
		if !ok {
			return l.fail("invalid integer %q", digits)
		}
		v = intValue(i)
	}
	l.emit(tokNumber, rest[:n])
	l.toks[len(l.toks)-1].num = v
	l.advance(n)
	return nil
}

// digitsLen returns the length of the digits at the start of s. Single underscores
// may separate digits.
func digitsLen(s string, isDigit func(byte) bool) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || n > 0 && s[n] == '_' && s[n-1] != '_' && n+1 < len(s) && isDigit(s[n+1])) {
		n++
	}
	return n
}

func isDec(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDec(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// floatLen returns the length of the float at the start of s, or 0 if there is no
// float.
func floatLen(s string) int {
	n := digitsLen(s, isDec)
	whole := n
	if n < len(s) && s[n] == '.' {
		if frac := digitsLen(s[n+1:], isDec); frac > 0 {
			n += 1 + frac
		}
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		e := n + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if exp := digitsLen(s[e:], isDec); exp > 0 {
			return e + exp
		}
	}
	if n == whole {
		return 0
	}
	return n
}

// intLen returns the length of the integer at the start of s, which begins with a
// digit.
func intLen(s string) int {
	if len(s) > 2 && s[0] == '0' {
		base := func(isDigit func(byte) bool) int {
			from := 2
			if s[2] == '_' {
				from = 3
			}
			if n := digitsLen(s[from:], isDigit); n > 0 {
				return from + n
			}
			return 0
		}
		n := 0
		switch s[1] | 0x20 {
		case 'x':
			n = base(isHex)
		case 'o':
			n = base(func(c byte) bool { return c >= '0' && c <= '7' })
		case 'b':
			n = base(func(c byte) bool { return c == '0' || c == '1' })
		}
		if n > 0 {
			return n
		}
	}
	if s[0] == '0' {
		return digitsLen(s, func(c byte) bool { return c == '0' })
	}
	return digitsLen(s, isDec)
}
