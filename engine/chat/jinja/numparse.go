package jinja

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

var errNumber = errors.New("not a number")

// asciiDigits replaces the decimal digits of any script by ASCII digits and trims
// white space.
func asciiDigits(s string) string {
	s = strings.TrimFunc(s, isSpace)
	return strings.Map(func(r rune) rune {
		if d, ok := digitValue(r); ok {
			return '0' + d
		}
		return r
	}, s)
}

// digitValue returns the value of a decimal digit of any script. The ten digits of
// a script are consecutive, starting with zero.
func digitValue(r rune) (rune, bool) {
	for _, t := range unicode.Nd.R16 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10, true
		}
	}
	for _, t := range unicode.Nd.R32 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10, true
		}
	}
	return 0, false
}

// parseInt is Python's int(s, base).
func parseInt(s string, base int) (Value, error) {
	if base != 0 && (base < 2 || base > 36) {
		return nil, errNumber
	}
	s = asciiDigits(s)
	if len(s) > maxDigits {
		return nil, errNumber
	}
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = strings.TrimPrefix(s[:1], "+"), s[1:]
	}
	if len(s) > 2 && s[0] == '0' {
		for _, p := range []struct {
			base int
			char byte
		}{{16, 'x'}, {8, 'o'}, {2, 'b'}} {
			if s[1]|0x20 == p.char && (base == 0 || base == p.base) {
				s, base = strings.TrimPrefix(s[2:], "_"), p.base
				break
			}
		}
	}
	plain := strings.ReplaceAll(s, "_", "")
	if base == 0 {
		base = 10
		if len(plain) > 1 && plain[0] == '0' && strings.Trim(plain, "0") != "" {
			return nil, errNumber
		}
	}
	if plain == "" || plain[0] == '-' || plain[0] == '+' || badUnderscores(s) {
		return nil, errNumber
	}
	n, ok := new(big.Int).SetString(sign+plain, base)
	if !ok {
		return nil, errNumber
	}
	return intValue(n), nil
}

// badUnderscores reports whether some underscore is not between two digits.
func badUnderscores(s string) bool {
	return strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__")
}

// parseFloat is Python's float(s).
func parseFloat(s string) (float64, error) {
	s = asciiDigits(s)
	word := strings.ToLower(strings.TrimLeft(s, "+-"))
	if len(s)-len(word) <= 1 {
		switch word {
		case "inf", "infinity":
			if s[0] == '-' {
				return math.Inf(-1), nil
			}
			return math.Inf(1), nil
		case "nan":
			return math.NaN(), nil
		}
	}
	for i, c := range []byte(s) {
		if c == '_' && (i == 0 || i+1 == len(s) || !isDec(s[i-1]) || !isDec(s[i+1])) {
			return 0, errNumber
		}
		if !isDec(c) && strings.IndexByte("+-.eE_", c) < 0 {
			return 0, errNumber
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, errNumber
	}
	return f, nil
}

// intFilter is int(default=0, base=10).
func intFilter(_ *state, v Value, a *args) (Value, error) {
	o, err := a.bind("int", 0, "default", "base")
	if err != nil {
		return nil, err
	}
	var def Value = Int(0)
	if o[0] != nil {
		def = o[0]
	}
	base := 10
	if o[1] != nil {
		var ok bool
		if base, ok = asIndex(o[1]); !ok {
			base = -1
		}
	}
	switch v := v.(type) {
	case *undefined:
		return nil, v.use()
	case *Str:
		if n, err := parseInt(v.s, base); err == nil {
			return n, nil
		}
		if f, err := parseFloat(v.s); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return floatToInt(f)
		}
		return def, nil
	}
	n, ok := asNumber(v)
	switch {
	case !ok || n.float && math.IsNaN(n.f):
		return def, nil
	case n.float:
		return floatToInt(n.f)
	}
	return n.value(), nil
}

// floatFilter is float(default=0.0).
func floatFilter(_ *state, v Value, a *args) (Value, error) {
	o, err := a.bind("float", 0, "default")
	if err != nil {
		return nil, err
	}
	var def Value = Float(0)
	if o[0] != nil {
		def = o[0]
	}
	switch v := v.(type) {
	case *undefined:
		return nil, v.use()
	case *Str:
		if f, err := parseFloat(v.s); err == nil {
			return Float(f), nil
		}
		return def, nil
	}
	n, ok := asNumber(v)
	if !ok {
		return def, nil
	}
	f, err := n.float64()
	return Float(f), err
}

// numberAttr returns an attribute of a number.
func numberAttr(v Value, name string) (Value, bool) {
	n, _ := asNumber(v)
	if n.float {
		return floatAttr(n.f, name)
	}
	switch name {
	case "real", "numerator":
		return n.value(), true
	case "imag":
		return Int(0), true
	case "denominator":
		return Int(1), true
	}
	call := func(f func() Value) (Value, bool) {
		return method(name, func(_ *state, a *args) (Value, error) {
			_, err := a.positional(name, 0, 0)
			return f(), err
		}), true
	}
	switch name {
	case "bit_length":
		return call(func() Value { return Int(n.int().BitLen()) })
	case "bit_count":
		return call(func() Value {
			return Int(strings.Count(n.int().Text(2), "1"))
		})
	case "conjugate":
		return call(n.value)
	}
	return nil, false
}

func floatAttr(f float64, name string) (Value, bool) {
	call := func(v Value) (Value, bool) {
		return method(name, func(_ *state, a *args) (Value, error) {
			_, err := a.positional(name, 0, 0)
			return v, err
		}), true
	}
	switch name {
	case "real":
		return Float(f), true
	case "imag":
		return Float(0), true
	case "is_integer":
		return call(Bool(f == math.Trunc(f) && !math.IsInf(f, 0)))
	case "conjugate":
		return call(Float(f))
	}
	return nil, false
}
