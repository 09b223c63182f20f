package tokenizer

import "unicode"

// A member reports whether the code point at s[i], i < len(s), belongs to a set.
type member func(t *classes, s []byte, i int) bool

// has returns the set of code points with at least one of some classes.
func has(set class) member {
	return func(t *classes, s []byte, i int) bool {
		c, _ := t.at(s, i)
		return c&set != 0
	}
}

// within returns the set of code points in some ranges, except spaces outside
// ASCII. llama.cpp reads patterns that list characters in the same way.
func within(set ranges) member {
	return func(t *classes, s []byte, i int) bool {
		r, _ := runeAt(s, i)
		return set.has(r) && (t.of(r)&space == 0 || r < 0x80)
	}
}

// also returns the union of m and the ASCII characters of more.
func (m member) also(more string) member {
	var extra [128]bool
	for _, b := range []byte(more) {
		extra[b] = true
	}
	return func(t *classes, s []byte, i int) bool {
		return s[i] < 0x80 && extra[s[i]] || m(t, s, i)
	}
}

// runs matches [set]+
func runs(m member) scan {
	return func(t *classes, s []byte, i int, _ *int) int {
		in := m(t, s, i)
		for i += width(s, i); i < len(s) && m(t, s, i) == in; {
			i += width(s, i)
		}
		return i
	}
}

// one matches [set]
func one(m member) scan {
	return func(t *classes, s []byte, i int, _ *int) int {
		if m(t, s, i) {
			return i + width(s, i)
		}
		for i < len(s) && !m(t, s, i) {
			i += width(s, i)
		}
		return i
	}
}

// spaced matches \s?[set]+
func spaced(m member) scan {
	return func(t *classes, s []byte, i int, _ *int) int {
		start := i
		for i < len(s) {
			j := i
			if !m(t, s, i) {
				c, n := t.at(s, i)
				if j += n; c&space == 0 || j == len(s) || !m(t, s, j) {
					i = j
					continue
				}
			}
			if i > start {
				return i
			}
			for j < len(s) && m(t, s, j) {
				j += width(s, j)
			}
			return j
		}
		return i
	}
}

// either matches [a]+|[b]+|… for disjoint sets.
func either(sets ...member) scan {
	return func(t *classes, s []byte, i int, _ *int) int {
		kind := func(i int) int {
			for k, m := range sets {
				if m(t, s, i) {
					return k
				}
			}
			return -1
		}
		in := kind(i)
		for i += width(s, i); i < len(s) && kind(i) == in; {
			i += width(s, i)
		}
		return i
	}
}

// breaks matches [^\n]+|[\n]+
func breaks(_ *classes, s []byte, i int, _ *int) int {
	in := s[i] == '\n'
	for i < len(s) && (s[i] == '\n') == in {
		i++
	}
	return i
}

// digit matches \p{N}
func digit(t *classes, s []byte, i int, _ *int) int {
	if c, n := t.at(s, i); c&number != 0 {
		return i + n
	}
	return t.runNot(s, i, number)
}

// digits matches \p{N}+
func digits(t *classes, s []byte, i int, _ *int) int {
	if end := t.run(s, i, number); end > i {
		return end
	}
	return t.runNot(s, i, number)
}

// digits3 matches \p{N}{1,3}
func digits3(t *classes, s []byte, i int, _ *int) int {
	if end := upTo(t, s, i, number, 3); end > i {
		return end
	}
	return t.runNot(s, i, number)
}

// triples matches [0-9][0-9][0-9]
func triples(_ *classes, s []byte, i int, _ *int) int {
	n := 0
	for j := i; j < len(s); j++ {
		if n++; s[j] < '0' || s[j] > '9' {
			n = 0
		}
		if n == 3 {
			if start := j - 2; start > i {
				return start
			}
			return j + 1
		}
	}
	return len(s)
}

// fromRight cuts runs of \p{N} into groups of three, counted from the right. After
// the first piece of a run, memo is the end of the run, and the number of remaining
// digits is a multiple of three.
func fromRight(t *classes, s []byte, i int, memo *int) int {
	if i < *memo {
		return upTo(t, s, i, number, 3)
	}
	n, end := 0, i
	for end < len(s) && t.next(s, end)&number != 0 {
		end += width(s, end)
		n++
	}
	if n == 0 {
		return t.runNot(s, i, number)
	}
	*memo = end
	if n%3 > 0 {
		n %= 3
	}
	return upTo(t, s, i, number, min(n, 3))
}

// grouped matches \d{1,3}(?=(?:\d{3})*\b). It is similar to fromRight, but
// digits before a letter are not split, neither from each other nor from the
// text before them. Source: tokenizer.json of Tiny Aya.
func grouped(t *classes, s []byte, i int, memo *int) int {
	if i < *memo {
		return upTo(t, s, i, number, 3)
	}
	for j := i; j < len(s); {
		n, end := 0, j
		for end < len(s) && isDigitAt(s, end) {
			end += width(s, end)
			n++
		}
		if n == 0 || end < len(s) && isWordAt(t, s, end) {
			j = end
			if n == 0 {
				j += width(s, j)
			}
			continue
		}
		if j > i {
			return j
		}
		*memo = end
		if n%3 > 0 {
			n %= 3
		}
		return upTo(t, s, i, number, min(n, 3))
	}
	return len(s)
}

// isDigitAt reports whether \d matches
func isDigitAt(s []byte, i int) bool {
	r, _ := runeAt(s, i)
	return unicode.IsDigit(r)
}

// isWordAt reports whether \w matches
func isWordAt(t *classes, s []byte, i int) bool {
	c, _ := t.at(s, i)
	r, _ := runeAt(s, i)
	return c&(letter|mark) != 0 || unicode.IsDigit(r) || unicode.Is(unicode.Pc, r)
}

// thousands cuts before every match of (?=(\d{3})+(?!\d)), where \d is 0 to 9. memo
// is the end of the run of digits that contains i. Source: tokenizer.json of
// SuperBPE.
func thousands(_ *classes, s []byte, i int, memo *int) int {
	for j := i; j < len(s); {
		if s[j] < '0' || s[j] > '9' {
			j += width(s, j)
			*memo = 0
			continue
		}
		if j >= *memo {
			end := j
			for end < len(s) && s[end] >= '0' && s[end] <= '9' {
				end++
			}
			*memo = end
		}
		switch n := *memo - j; {
		case n >= 3 && n%3 == 0 && j > i:
			return j
		case n > 3:
			j += (n-1)%3 + 1
		default:
			j = *memo
		}
	}
	return len(s)
}

// trailing matches \s+$
func trailing(t *classes, s []byte, i int, _ *int) int {
	end := i
	for j := i; j < len(s); {
		c, n := t.at(s, j)
		j += n
		if c&space == 0 {
			end = j
		}
	}
	if end == i {
		return len(s)
	}
	return end
}

// indents matches ([\t\n]|    |  )
func indents(_ *classes, s []byte, i int, _ *int) int {
	at := func(i int) int {
		switch rest := string(s[i:min(i+4, len(s))]); {
		case rest[0] == '\t' || rest[0] == '\n':
			return 1
		case rest == "    ":
			return 4
		case len(rest) > 1 && rest[:2] == "  ":
			return 2
		}
		return 0
	}
	if n := at(i); n > 0 {
		return i + n
	}
	for i < len(s) && at(i) == 0 {
		i++
	}
	return i
}

// ranges is a set of code points, as ascending pairs of first and last.
type ranges [][2]rune

func (set ranges) has(r rune) bool {
	for _, p := range set {
		if r <= p[1] {
			return r >= p[0]
		}
	}
	return false
}

// Sets of characters that patterns list explicitly.
var (
	// [一-龥぀-ゟ゠-ヿ]
	ideographs = ranges{{0x3040, 0x30FF}, {0x4E00, 0x9FA5}}
	// [一-龥ࠀ-一가-퟿]
	hanOrHangul = ranges{{0x800, 0x9FA5}, {0xAC00, 0xD7FF}}
	// [가-힣ㄱ-ㆎ]
	hangul = ranges{{0x3131, 0x318E}, {0xAC00, 0xD7A3}}
	// [ㄅ-ㄯ]
	bopomofo = ranges{{0x3105, 0x312F}}
	// [!-/:-~！-／：-～‘-‟　-。]
	wideMarks = ranges{{'!', '/'}, {':', '~'}, {0x2018, 0x201F}, {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}}
	// [！…“”‘’—：；，、-〿︰-﹏]
	chinese = ranges{
		{0x2014, 0x2014},
		{0x2018, 0x2019},
		{0x201C, 0x201D},
		{0x2026, 0x2026},
		{0x3001, 0x303F},
		{0xFE30, 0xFE4F},
		{0xFF01, 0xFF01},
		{0xFF0C, 0xFF0C},
		{0xFF1A, 0xFF1B},
	}
	// [一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]
	asian = ranges{
		{0xE40, 0xEFF},
		{0x1000, 0x109F},
		{0x1100, 0x11FF},
		{0x1780, 0x17FF},
		{0x2F00, 0x2FDF},
		{0x3040, 0x30FF},
		{0x3400, 0x4DBF},
		{0x4E00, 0x9FFF},
		{0xA9E0, 0xA9FF},
		{0xAA60, 0xAA7F},
		{0xAC00, 0xD7AF},
		{0xF900, 0xFAFF},
		{0xFF65, 0xFF9F},
	}
)

// uncased holds the letters with case that DeepSeek's pattern does not list.
// These are letters that are newer than the pattern, and mathematical letters.
var uncased = ranges{
	{0x560, 0x588},
	{0x10C7, 0x10FF},
	{0x1C80, 0x1C88},
	{0x2D00, 0x2D2D},
	{0xA790, 0xA7FA},
	{0xAB30, 0xAB68},
	{0x10570, 0x105BC},
	{0x16E40, 0x16E7F},
	{0x1D400, 0x1DFFF},
}

// casedLetter is the set of letters with case that DeepSeek's pattern lists in 145
// ranges. Here it is written as all letters with case except uncased.
func casedLetter(t *classes, s []byte, i int) bool {
	c, _ := t.at(s, i)
	if c&(upper|lower) == 0 {
		return false
	}
	r, _ := runeAt(s, i)
	return !uncased.has(r)
}
