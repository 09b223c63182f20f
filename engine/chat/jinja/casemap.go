package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Case mappings to more than one character. Each word is a character followed by
// its replacement. Source: Unicode 14, SpecialCasing.txt and CaseFolding.txt.

// upperPairs are the full upper-case mappings.
const upperPairs = "" +
	"\u00dfSS \u0149\u02bcN \u01f0J\u030c \u0390\u0399\u0308\u0301 \u03b0\u03a5\u0308\u0301 " +
	"\u0587\u0535\u0552 \u1e96H\u0331 \u1e97T\u0308 \u1e98W\u030a \u1e99Y\u030a \u1e9aA\u02be " +
	"\u1f50\u03a5\u0313 \u1f52\u03a5\u0313\u0300 \u1f54\u03a5\u0313\u0301 \u1f56\u03a5\u0313\u0342 " +
	"\u1f80\u1f08\u0399 \u1f81\u1f09\u0399 \u1f82\u1f0a\u0399 \u1f83\u1f0b\u0399 \u1f84\u1f0c\u0399 " +
	"\u1f85\u1f0d\u0399 \u1f86\u1f0e\u0399 \u1f87\u1f0f\u0399 \u1f88\u1f08\u0399 \u1f89\u1f09\u0399 " +
	"\u1f8a\u1f0a\u0399 \u1f8b\u1f0b\u0399 \u1f8c\u1f0c\u0399 \u1f8d\u1f0d\u0399 \u1f8e\u1f0e\u0399 " +
	"\u1f8f\u1f0f\u0399 \u1f90\u1f28\u0399 \u1f91\u1f29\u0399 \u1f92\u1f2a\u0399 \u1f93\u1f2b\u0399 " +
	"\u1f94\u1f2c\u0399 \u1f95\u1f2d\u0399 \u1f96\u1f2e\u0399 \u1f97\u1f2f\u0399 \u1f98\u1f28\u0399 " +
	"\u1f99\u1f29\u0399 \u1f9a\u1f2a\u0399 \u1f9b\u1f2b\u0399 \u1f9c\u1f2c\u0399 \u1f9d\u1f2d\u0399 " +
	"\u1f9e\u1f2e\u0399 \u1f9f\u1f2f\u0399 \u1fa0\u1f68\u0399 \u1fa1\u1f69\u0399 \u1fa2\u1f6a\u0399 " +
	"\u1fa3\u1f6b\u0399 \u1fa4\u1f6c\u0399 \u1fa5\u1f6d\u0399 \u1fa6\u1f6e\u0399 \u1fa7\u1f6f\u0399 " +
	"\u1fa8\u1f68\u0399 \u1fa9\u1f69\u0399 \u1faa\u1f6a\u0399 \u1fab\u1f6b\u0399 \u1fac\u1f6c\u0399 " +
	"\u1fad\u1f6d\u0399 \u1fae\u1f6e\u0399 \u1faf\u1f6f\u0399 \u1fb2\u1fba\u0399 \u1fb3\u0391\u0399 " +
	"\u1fb4\u0386\u0399 \u1fb6\u0391\u0342 \u1fb7\u0391\u0342\u0399 \u1fbc\u0391\u0399 \u1fc2\u1fca\u0399 " +
	"\u1fc3\u0397\u0399 \u1fc4\u0389\u0399 \u1fc6\u0397\u0342 \u1fc7\u0397\u0342\u0399 \u1fcc\u0397\u0399 " +
	"\u1fd2\u0399\u0308\u0300 \u1fd3\u0399\u0308\u0301 \u1fd6\u0399\u0342 \u1fd7\u0399\u0308\u0342 " +
	"\u1fe2\u03a5\u0308\u0300 \u1fe3\u03a5\u0308\u0301 \u1fe4\u03a1\u0313 \u1fe6\u03a5\u0342 " +
	"\u1fe7\u03a5\u0308\u0342 \u1ff2\u1ffa\u0399 \u1ff3\u03a9\u0399 \u1ff4\u038f\u0399 \u1ff6\u03a9\u0342 " +
	"\u1ff7\u03a9\u0342\u0399 \u1ffc\u03a9\u0399 \ufb00FF \ufb01FI \ufb02FL \ufb03FFI \ufb04FFL \ufb05ST " +
	"\ufb06ST \ufb13\u0544\u0546 \ufb14\u0544\u0535 \ufb15\u0544\u053b \ufb16\u054e\u0546 " +
	"\ufb17\u0544\u053d"

// titlePairs are the full title-case mappings.
const titlePairs = "" +
	"\u00dfSs \u0149\u02bcN \u01f0J\u030c \u0390\u0399\u0308\u0301 \u03b0\u03a5\u0308\u0301 " +
	"\u0587\u0535\u0582 \u1e96H\u0331 \u1e97T\u0308 \u1e98W\u030a \u1e99Y\u030a \u1e9aA\u02be " +
	"\u1f50\u03a5\u0313 \u1f52\u03a5\u0313\u0300 \u1f54\u03a5\u0313\u0301 \u1f56\u03a5\u0313\u0342 " +
	"\u1fb2\u1fba\u0345 \u1fb4\u0386\u0345 \u1fb6\u0391\u0342 \u1fb7\u0391\u0342\u0345 \u1fc2\u1fca\u0345 " +
	"\u1fc4\u0389\u0345 \u1fc6\u0397\u0342 \u1fc7\u0397\u0342\u0345 \u1fd2\u0399\u0308\u0300 " +
	"\u1fd3\u0399\u0308\u0301 \u1fd6\u0399\u0342 \u1fd7\u0399\u0308\u0342 \u1fe2\u03a5\u0308\u0300 " +
	"\u1fe3\u03a5\u0308\u0301 \u1fe4\u03a1\u0313 \u1fe6\u03a5\u0342 \u1fe7\u03a5\u0308\u0342 " +
	"\u1ff2\u1ffa\u0345 \u1ff4\u038f\u0345 \u1ff6\u03a9\u0342 \u1ff7\u03a9\u0342\u0345 \ufb00Ff \ufb01Fi " +
	"\ufb02Fl \ufb03Ffi \ufb04Ffl \ufb05St \ufb06St \ufb13\u0544\u0576 \ufb14\u0544\u0565 " +
	"\ufb15\u0544\u056b \ufb16\u054e\u0576 \ufb17\u0544\u056d"

// foldPairs are the full case foldings.
const foldPairs = "" +
	"\u00dfss \u0130i\u0307 \u0149\u02bcn \u01f0j\u030c \u0390\u03b9\u0308\u0301 \u03b0\u03c5\u0308\u0301 " +
	"\u0587\u0565\u0582 \u1e96h\u0331 \u1e97t\u0308 \u1e98w\u030a \u1e99y\u030a \u1e9aa\u02be \u1e9ess " +
	"\u1f50\u03c5\u0313 \u1f52\u03c5\u0313\u0300 \u1f54\u03c5\u0313\u0301 \u1f56\u03c5\u0313\u0342 " +
	"\u1f80\u1f00\u03b9 \u1f81\u1f01\u03b9 \u1f82\u1f02\u03b9 \u1f83\u1f03\u03b9 \u1f84\u1f04\u03b9 " +
	"\u1f85\u1f05\u03b9 \u1f86\u1f06\u03b9 \u1f87\u1f07\u03b9 \u1f88\u1f00\u03b9 \u1f89\u1f01\u03b9 " +
	"\u1f8a\u1f02\u03b9 \u1f8b\u1f03\u03b9 \u1f8c\u1f04\u03b9 \u1f8d\u1f05\u03b9 \u1f8e\u1f06\u03b9 " +
	"\u1f8f\u1f07\u03b9 \u1f90\u1f20\u03b9 \u1f91\u1f21\u03b9 \u1f92\u1f22\u03b9 \u1f93\u1f23\u03b9 " +
	"\u1f94\u1f24\u03b9 \u1f95\u1f25\u03b9 \u1f96\u1f26\u03b9 \u1f97\u1f27\u03b9 \u1f98\u1f20\u03b9 " +
	"\u1f99\u1f21\u03b9 \u1f9a\u1f22\u03b9 \u1f9b\u1f23\u03b9 \u1f9c\u1f24\u03b9 \u1f9d\u1f25\u03b9 " +
	"\u1f9e\u1f26\u03b9 \u1f9f\u1f27\u03b9 \u1fa0\u1f60\u03b9 \u1fa1\u1f61\u03b9 \u1fa2\u1f62\u03b9 " +
	"\u1fa3\u1f63\u03b9 \u1fa4\u1f64\u03b9 \u1fa5\u1f65\u03b9 \u1fa6\u1f66\u03b9 \u1fa7\u1f67\u03b9 " +
	"\u1fa8\u1f60\u03b9 \u1fa9\u1f61\u03b9 \u1faa\u1f62\u03b9 \u1fab\u1f63\u03b9 \u1fac\u1f64\u03b9 " +
	"\u1fad\u1f65\u03b9 \u1fae\u1f66\u03b9 \u1faf\u1f67\u03b9 \u1fb2\u1f70\u03b9 \u1fb3\u03b1\u03b9 " +
	"\u1fb4\u03ac\u03b9 \u1fb6\u03b1\u0342 \u1fb7\u03b1\u0342\u03b9 \u1fbc\u03b1\u03b9 \u1fc2\u1f74\u03b9 " +
	"\u1fc3\u03b7\u03b9 \u1fc4\u03ae\u03b9 \u1fc6\u03b7\u0342 \u1fc7\u03b7\u0342\u03b9 \u1fcc\u03b7\u03b9 " +
	"\u1fd2\u03b9\u0308\u0300 \u1fd3\u03b9\u0308\u0301 \u1fd6\u03b9\u0342 \u1fd7\u03b9\u0308\u0342 " +
	"\u1fe2\u03c5\u0308\u0300 \u1fe3\u03c5\u0308\u0301 \u1fe4\u03c1\u0313 \u1fe6\u03c5\u0342 " +
	"\u1fe7\u03c5\u0308\u0342 \u1ff2\u1f7c\u03b9 \u1ff3\u03c9\u03b9 \u1ff4\u03ce\u03b9 \u1ff6\u03c9\u0342 " +
	"\u1ff7\u03c9\u0342\u03b9 \u1ffc\u03c9\u03b9 \ufb00ff \ufb01fi \ufb02fl \ufb03ffi \ufb04ffl \ufb05st " +
	"\ufb06st \ufb13\u0574\u0576 \ufb14\u0574\u0565 \ufb15\u0574\u056b \ufb16\u057e\u0576 " +
	"\ufb17\u0574\u056d"

var (
	upperMap = pairs(upperPairs)
	titleMap = pairs(titlePairs)
	foldMap  = pairs(foldPairs)
)

func pairs(s string) map[rune]string {
	m := map[rune]string{}
	for _, p := range strings.Fields(s) {
		r, n := utf8.DecodeRuneInString(p)
		m[r] = p[n:]
	}
	return m
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// isAlnum is Python's str.isalnum for one character.
func isAlnum(r rune) bool { return unicode.IsLetter(r) || unicode.Is(unicode.N, r) }

// isWord reports whether a character may occur in a name.
func isWord(r rune) bool { return r == '_' || isAlnum(r) || unicode.IsMark(r) }

// cased reports whether a character has a case.
func cased(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) ||
		unicode.In(r, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

// ignorable reports whether the final-sigma rule skips a character.
func ignorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:^`\u00a8\u00ad\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r)
}

func mapped(m map[rune]string, r rune, simple func(rune) rune) string {
	if s, ok := m[r]; ok {
		return s
	}
	return string(simple(r))
}

func upperRune(_ int, r rune) string { return mapped(upperMap, r, unicode.ToUpper) }

func titleRune(r rune) string { return mapped(titleMap, r, unicode.ToTitle) }

// lowerAt returns the lower-case form of the character r at byte i of s.
func lowerAt(s string, i int, r rune) string {
	switch r {
	case '\u0130':
		return "i\u0307"
	case '\u03a3':
		if finalSigma(s, i) {
			return "\u03c2"
		}
		return "\u03c3"
	}
	return string(unicode.ToLower(r))
}

// finalSigma reports whether the capital sigma at byte i ends a word.
func finalSigma(s string, i int) bool {
	before := strings.TrimRightFunc(s[:i], ignorable)
	r, n := utf8.DecodeLastRuneInString(before)
	if n == 0 || !cased(r) {
		return false
	}
	r, n = utf8.DecodeRuneInString(strings.TrimLeftFunc(s[i+2:], ignorable))
	return n == 0 || !cased(r)
}

func foldRune(_ int, r rune) string {
	if s, ok := foldMap[r]; ok {
		return s
	}
	switch {
	case r == '\u0131', r >= 0x13a0 && r <= 0x13f5:
		return string(r)
	case r >= 0x13f8 && r <= 0x13fd, r >= 0xab70 && r <= 0xabbf:
		return string(unicode.ToUpper(r))
	}
	return string(unicode.ToLower(unicode.ToUpper(r)))
}

func (st *state) upper(s *Str) (*Str, error) { return st.mapRunes(s, upperRune) }

func (st *state) lower(s *Str) (*Str, error) {
	return st.mapRunes(s, func(i int, r rune) string { return lowerAt(s.s, i, r) })
}

func (st *state) capitalize(s *Str) (*Str, error) {
	return st.mapRunes(s, func(i int, r rune) string {
		if i == 0 {
			return titleRune(r)
		}
		return lowerAt(s.s, i, r)
	})
}

// titled is Python's str.title: letters that follow a letter are lower case, others
// title case.
func (st *state) titled(s *Str) (*Str, error) {
	behind := false
	return st.mapRunes(s, func(i int, r rune) string {
		low := behind
		behind = cased(r)
		if low {
			return lowerAt(s.s, i, r)
		}
		return titleRune(r)
	})
}

func (st *state) swapcase(s *Str) (*Str, error) {
	return st.mapRunes(s, func(i int, r rune) string {
		switch {
		case isUpper(r):
			return lowerAt(s.s, i, r)
		case isLower(r):
			return upperRune(i, r)
		}
		return string(r)
	})
}

func isUpper(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }

func isLower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }

// isDigit is Python's str.isdigit for one character: decimal digits and circled,
// parenthesised, superscript or subscript digits.
func isDigit(r rune) bool { return unicode.IsDigit(r) || unicode.Is(digitForms, r) }

// digitForms are the characters of numeric type digit. Source: Unicode 14.
var digitForms = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xb2, 0xb3, 1},
		{0xb9, 0xb9, 1},
		{0x1369, 0x1371, 1},
		{0x19da, 0x19da, 1},
		{0x2070, 0x2070, 1},
		{0x2074, 0x2079, 1},
		{0x2080, 0x2089, 1},
		{0x2460, 0x2468, 1},
		{0x2474, 0x247c, 1},
		{0x2488, 0x2490, 1},
		{0x24ea, 0x24ea, 1},
		{0x24f5, 0x24fd, 1},
		{0x24ff, 0x24ff, 1},
		{0x2776, 0x277e, 1},
		{0x2780, 0x2788, 1},
		{0x278a, 0x2792, 1},
	},
	R32: []unicode.Range32{
		{0x10a40, 0x10a43, 1}, {0x10e60, 0x10e68, 1}, {0x11052, 0x1105a, 1}, {0x1f100, 0x1f10a, 1},
	},
	LatinOffset: 2,
}

// isNumeric is Python's str.isnumeric for one character.
func isNumeric(r rune) bool { return unicode.Is(unicode.N, r) || strings.ContainsRune(numerals, r) }

// numerals are the ideographs with a numeric value. Source: Unicode 14.
const numerals = "㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅卌叁参參叄四壱壹幺廾廿弌弍弎弐拾捌柒漆玖百肆萬貮貳贰阡陆陌陸零參拾兩零六陸什𠀁𠁤𠃢𠄡𠤪𠦃𠦌𠦜𠫪𠫽𠬙𢎐𢦘𣬛𦉭廾"
