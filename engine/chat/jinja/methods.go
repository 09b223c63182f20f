package jinja

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// strMethod implements a method of a string.
type strMethod func(st *state, s *Str, a *args) (Value, error)

// strMethods holds the methods of Python's str that return text or inspect it,
// except encode, translate and maketrans.
var strMethods map[string]strMethod

// markupMethods holds the methods that Markup has in addition to the methods of
// str.
var markupMethods map[string]strMethod

func init() {
	strMethods = map[string]strMethod{
		"capitalize":   plainMethod("capitalize", (*state).capitalize),
		"casefold":     plainMethod("casefold", func(st *state, s *Str) (*Str, error) { return st.mapRunes(s, foldRune) }),
		"center":       justifyMethod("center"),
		"count":        countMethod,
		"endswith":     affixMethod("endswith", strings.HasSuffix),
		"expandtabs":   expandTabsMethod,
		"find":         findMethod("find", strings.Index, false),
		"format":       formatMethod,
		"format_map":   formatMapMethod,
		"index":        findMethod("index", strings.Index, true),
		"isalnum":      allMethod("isalnum", isAlnum),
		"isalpha":      allMethod("isalpha", unicode.IsLetter),
		"isascii":      checkMethod("isascii", func(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > 127 }) }),
		"isdecimal":    allMethod("isdecimal", unicode.IsDigit),
		"isdigit":      allMethod("isdigit", isDigit),
		"isidentifier": checkMethod("isidentifier", isIdentifier),
		"islower":      checkMethod("islower", func(s string) bool { return allCased(s, isLower, isUpper) }),
		"isnumeric":    allMethod("isnumeric", isNumeric),
		"isprintable":  checkMethod("isprintable", func(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return !printable(r) }) }),
		"isspace":      allMethod("isspace", isSpace),
		"istitle":      checkMethod("istitle", isTitle),
		"isupper":      checkMethod("isupper", func(s string) bool { return allCased(s, isUpper, isLower) }),
		"join":         joinMethod,
		"ljust":        justifyMethod("ljust"),
		"lower":        plainMethod("lower", (*state).lower),
		"lstrip":       stripMethod("lstrip", true, false),
		"partition":    partitionMethod("partition", strings.Index, false),
		"removeprefix": removeMethod("removeprefix", true),
		"removesuffix": removeMethod("removesuffix", false),
		"replace":      replaceMethod,
		"rfind":        findMethod("rfind", strings.LastIndex, false),
		"rindex":       findMethod("rindex", strings.LastIndex, true),
		"rjust":        justifyMethod("rjust"),
		"rpartition":   partitionMethod("rpartition", strings.LastIndex, true),
		"rsplit":       splitMethod("rsplit", rfields, rsplitBy),
		"rstrip":       stripMethod("rstrip", false, true),
		"split":        splitMethod("split", fields, splitBy),
		"splitlines":   linesMethod,
		"startswith":   affixMethod("startswith", strings.HasPrefix),
		"strip":        stripMethod("strip", true, true),
		"swapcase":     plainMethod("swapcase", (*state).swapcase),
		"title":        plainMethod("title", (*state).titled),
		"upper":        plainMethod("upper", (*state).upper),
		"zfill":        zfillMethod,
	}
	markupMethods = map[string]strMethod{
		"striptags": func(st *state, s *Str, a *args) (Value, error) {
			if _, err := a.positional("striptags", 0, 0); err != nil {
				return nil, err
			}
			return st.stripTags(s)
		},
		"unescape": func(st *state, s *Str, a *args) (Value, error) {
			if _, err := a.positional("unescape", 0, 0); err != nil {
				return nil, err
			}
			return taint(html.UnescapeString(s.s), s), st.alloc(len(s.s))
		},
	}
}

// method returns a string's method bound to it.
func (s *Str) method(name string) (Value, bool) {
	m, ok := strMethods[name]
	if !ok && s.safe {
		m, ok = markupMethods[name]
	}
	if !ok {
		return nil, false
	}
	return method(name, func(st *state, a *args) (Value, error) { return m(st, s, a) }), true
}

func plainMethod(name string, f func(*state, *Str) (*Str, error)) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		if _, err := a.positional(name, 0, 0); err != nil {
			return nil, err
		}
		return asValue(f(st, s))
	}
}

func checkMethod(name string, f func(string) bool) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		if _, err := a.positional(name, 0, 0); err != nil {
			return nil, err
		}
		return Bool(f(s.s)), st.charge(len(s.s) / 16)
	}
}

// allMethod returns a method that reports whether a string is not empty and all its
// characters satisfy a predicate.
func allMethod(name string, kind func(rune) bool) strMethod {
	return checkMethod(name, func(s string) bool { return s != "" && strings.TrimLeftFunc(s, kind) == "" })
}

// allCased reports whether s has a letter of the wanted case and no letter of
// the other case.
func allCased(s string, want, other func(rune) bool) bool {
	return strings.ContainsFunc(s, want) &&
		!strings.ContainsFunc(s, func(r rune) bool { return other(r) || unicode.IsTitle(r) })
}

func isIdentifier(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return (r == '_' || unicode.IsLetter(r)) && s != "" && strings.TrimLeftFunc(s, isWord) == ""
}

// isTitle reports whether every word starts with a capital and has no other
// capitals.
func isTitle(s string) bool {
	any, behind := false, false
	for _, r := range s {
		switch {
		case isUpper(r) || unicode.IsTitle(r):
			if behind {
				return false
			}
			any, behind = true, true
		case isLower(r):
			if !behind {
				return false
			}
			any = true
		default:
			behind = false
		}
	}
	return any
}

func stripMethod(name string, left, right bool) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		o, err := a.positional(name, 0, 1)
		if err != nil {
			return nil, err
		}
		if err := st.charge(len(s.s) / 32); err != nil {
			return nil, err
		}
		return s.strip(name, o[0], left, right)
	}
}

// removeMethod is removeprefix or removesuffix.
func removeMethod(name string, prefix bool) strMethod {
	return func(_ *state, s *Str, a *args) (Value, error) {
		o, err := a.positional(name, 1, 1)
		if err != nil {
			return nil, err
		}
		affix, err := wantStr(o[0])
		switch {
		case err != nil:
			return nil, err
		case prefix && strings.HasPrefix(s.s, affix.s):
			return s.cut(len(affix.s), len(s.s)), nil
		case !prefix && strings.HasSuffix(s.s, affix.s):
			return s.cut(0, len(s.s)-len(affix.s)), nil
		}
		return s, nil
	}
}
