package jinja

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// simpleEscapes maps the letters of one-letter escapes to their characters.
var simpleEscapes = map[byte]string{
	'\n': "", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f",
	'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape resolves the escapes of a string literal as Python's unicode-escape
// codec does. Unknown escapes stay unchanged.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var out strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			i++
			continue
		}
		c := s[i+1]
		if text, ok := simpleEscapes[c]; ok {
			out.WriteString(text)
			i += 2
			continue
		}
		switch {
		case c >= '0' && c <= '7':
			n := 1
			for n < 3 && i+1+n < len(s) && s[i+1+n] >= '0' && s[i+1+n] <= '7' {
				n++
			}
			v, _ := strconv.ParseUint(s[i+1:i+1+n], 8, 32)
			out.WriteRune(rune(v))
			i += 1 + n
		case c == 'x', c == 'u', c == 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			if i+2+n > len(s) {
				return "", errors.New(`truncated \` + string(c) + " escape")
			}
			v, err := strconv.ParseUint(s[i+2:i+2+n], 16, 32)
			if err != nil {
				return "", errors.New(`truncated \` + string(c) + " escape")
			}
			if v > utf8.MaxRune {
				return "", errors.New("illegal Unicode character")
			}
			out.WriteRune(rune(v)) // an unpaired surrogate becomes U+FFFD
			i += 2 + n
		case c == 'N':
			return "", errors.New(`characters by name (\N) are not supported`)
		case c >= utf8.RuneSelf:
			// Python sees this character as an escape
			r, size := utf8.DecodeRuneInString(s[i+1:])
			out.WriteString(asciiEscape(r))
			i += 1 + size
		default:
			out.WriteString(s[i : i+2])
			i += 2
		}
	}
	return out.String(), nil
}
