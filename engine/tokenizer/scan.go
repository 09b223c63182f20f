package tokenizer

import (
	"bytes"
	"strings"
	"unicode"
)

// A scan is one pass of a pre-tokenizer. It returns the end of the piece that
// starts at s[i], i < len(s), which is always greater than i. Text between two
// matches of the pass's pattern is a piece as well. The passes are nested: each
// pass cuts the pieces of the previous one and treats them as whole texts.
//
// A text s is scanned from i = 0 to its end. memo is 0 at first and then belongs to
// the scan, which uses it to measure a long run only once instead of once per
// piece. The time is therefore linear in the length of the text, whatever it
// contains.
type scan func(t *classes, s []byte, i int, memo *int) int

// contraction returns the length of 's 't 'm 'd 're 've 'll at the start of s, or
// 0. If fold is set, letters may be upper case.
func contraction(s []byte, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	a, b := s[1], byte(0)
	if len(s) > 2 {
		b = s[2]
	}
	if fold {
		a, b = a|0x20, b|0x20
	}
	switch {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	}
	return 0
}

// spaces measures the run of \s at s[i]. It returns the end of the run, the start of
// its last code point, and the end of its last line break, or 0 if the run contains
// no line break.
func (t *classes) spaces(s []byte, i int) (end, last, broken int) {
	last = i
	for i < len(s) {
		c, n := t.at(s, i)
		if c&space == 0 {
			break
		}
		last = i
		i += n
		if s[last] == '\n' || s[last] == '\r' {
			broken = i
		}
	}
	return i, last, broken
}

// blank matches \s+(?!\S)|\s+ at i. end is the end of the run, and last is the
// start of its last code point. A space before other text belongs to that text.
func blank(s []byte, i, end, last int) int {
	if end < len(s) && last > i {
		return last
	}
	return end
}

// gpt2 matches
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// Source: encoder.py of OpenAI's gpt-2.
func gpt2(t *classes, s []byte, i int, _ *int) int {
	if n := contraction(s[i:], false); n > 0 {
		return i + n
	}
	j := i
	if s[i] == ' ' && i+1 < len(s) {
		j++
	}
	switch c, _ := t.at(s, j); {
	case c&letter != 0:
		return t.run(s, j, letter)
	case c&number != 0:
		return t.run(s, j, number)
	case c&space == 0:
		return t.runNot(s, j, space|letter|number)
	}
	end, last, _ := t.spaces(s, i)
	return blank(s, i, end, last)
}

// pattern is the family of pre-tokenizers that cl100k began:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//	 ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// Source: tokenizer.json of the models that the registry names.
type pattern struct {
	contractions bool
	marks        bool   // whether \p{M} counts as a letter and not as punctuation
	phrases      bool   // whether a word continues over single spaces: (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+
	digits       int    // maximum number of code points in a number; 0 means no limit
	tail         string // characters that may follow a run of punctuation in the same piece
	oneTail      bool   // whether at most one such character may follow
	halves       bool   // whether runs of spaces are cut into powers of two, starting with 512
}

func (p pattern) scan(t *classes, s []byte, i int, memo *int) int {
	if p.contractions {
		if n := contraction(s[i:], true); n > 0 {
			return i + n
		}
	}
	word := letter
	if p.marks {
		word |= mark
	}
	c, n := t.at(s, i)
	if c&word != 0 {
		return p.wordEnd(t, s, i, word)
	}
	if c&number == 0 && s[i] != '\n' && s[i] != '\r' && t.next(s, i+n)&word != 0 {
		return p.wordEnd(t, s, i+n, word)
	}
	return p.rest(t, s, i, space|word|number, memo)
}

func (p pattern) wordEnd(t *classes, s []byte, i int, word class) int {
	if !p.phrases {
		return t.run(s, i, word)
	}
	for i < len(s) {
		j := i
		if s[i] == ' ' {
			j++
		}
		if t.next(s, j)&letter == 0 {
			break
		}
		_, n := t.at(s, j)
		i = t.run(s, j+n, mark)
	}
	return i
}

// rest matches the pattern without its words. stop lists the classes that end
// punctuation.
func (p pattern) rest(t *classes, s []byte, i int, stop class, memo *int) int {
	c, _ := t.at(s, i)
	if c&number != 0 {
		return upTo(t, s, i, number, p.digits)
	}
	j := i
	if s[i] == ' ' && i+1 < len(s) {
		j++
		c, _ = t.at(s, j)
	}
	if c&stop == 0 {
		return p.tailEnd(s, t.runNot(s, j, stop))
	}
	if p.halves {
		return halves(t, s, i, memo)
	}
	end, last, broken := t.spaces(s, i)
	if broken > 0 {
		return broken
	}
	return blank(s, i, end, last)
}

// tailEnd returns the end of the tail at s[i].
func (p pattern) tailEnd(s []byte, i int) int {
	for i < len(s) && strings.IndexByte(p.tail, s[i]) >= 0 {
		i++
		if p.oneTail {
			break
		}
	}
	return i
}

// upTo returns the end of at most n code points of set, starting at s[i]. If n
// is 0, there is no limit.
func upTo(t *classes, s []byte, i int, set class, n int) int {
	if n == 0 {
		return t.run(s, i, set)
	}
	for ; n > 0 && t.next(s, i)&set != 0; n-- {
		i += width(s, i)
	}
	return i
}

// halves matches
// \s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s in a run of
// spaces. memo is the end of a run without further line breaks.
func halves(t *classes, s []byte, i int, memo *int) int {
	if i >= *memo {
		end, _, broken := t.spaces(s, i)
		if broken > 0 {
			return broken
		}
		*memo = end
	}
	end := *memo
	for n := 512; n > 1; n /= 2 {
		j := i
		for k := 0; k < n && j < end; k++ {
			j += width(s, j)
			if k == n-1 && (j < end || end == len(s)) {
				return j
			}
		}
	}
	return i + width(s, i)
}

// cased is the family that o200k began. In it, a word is capitals followed by small
// letters. Letters without case, and marks, count as both:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|…)?|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|…)?|
//	\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// Source: tokenizer.json of the models that the registry names; for Kimi K2,
// its tokenization_kimi.py.
type cased struct {
	pattern      // rules of the family; in it, contractions follow a word
	han     bool // whether runs of Chinese characters are separate pieces
}

func (p cased) scan(t *classes, s []byte, i int, memo *int) int {
	c, n := t.at(s, i)
	if p.han && isHanAt(s, i) {
		for i < len(s) && isHanAt(s, i) {
			i += width(s, i)
		}
		return i
	}
	end, capitals := -1, -1
	if c&(letter|number) == 0 && s[i] != '\n' && s[i] != '\r' {
		end, capitals = p.word(t, s, i+n)
	}
	if end < 0 && c&(letter|mark) != 0 {
		var bare int
		if end, bare = p.word(t, s, i); capitals < 0 {
			capitals = bare
		}
	}
	if end < 0 {
		end = capitals
	}
	if end < 0 {
		return p.rest(t, s, i, space|letter|number, memo)
	}
	if p.contractions {
		end += contraction(s[end:], true)
	}
	return end
}

// word matches at s[i] and returns two ends, which are -1 if there is no match.
// The first match is upper case followed by at least one lower-case letter. The
// second match is at least one upper-case letter. In the first match, the
// upper-case part is shortened until its last letter also counts as lower case.
func (p cased) word(t *classes, s []byte, i int) (small, capitals int) {
	small, capitals = -1, -1
	for i < len(s) {
		c, n := t.at(s, i)
		if c&mark == 0 && c&(letter|lower) != letter || p.han && isHanAt(s, i) {
			break
		}
		i += n
		capitals = i
		if c&upper == 0 {
			small = i
		}
	}
	for i < len(s) {
		c, n := t.at(s, i)
		if c&mark == 0 && c&(letter|upper) != letter || p.han && isHanAt(s, i) {
			break
		}
		i += n
		small = i
	}
	return small, capitals
}

// isHanAt reports whether the code point at s[i] is a Chinese character.
func isHanAt(s []byte, i int) bool {
	if s[i] < 0xe2 {
		return false
	}
	r, _ := runeAt(s, i)
	return unicode.Is(unicode.Han, r)
}

// deepseek3 is
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//	 ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// If oneBreak is set, punctuation has no tail and each line break is a piece.
// Source: tokenizer.json of DeepSeek V3 and of Spark 2.5.
type deepseek3 struct {
	oneBreak bool // whether the last alternatives are ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+
}

func (p deepseek3) scan(t *classes, s []byte, i int, _ *int) int {
	const word, marks = letter | mark, punct | symbol
	c, n := t.at(s, i)
	if c&marks != 0 && s[i] < 0x80 && i+1 < len(s) && isLatin(s[i+1]) {
		for i++; i < len(s) && isLatin(s[i]); i++ {
		}
		return i
	}
	if c&word != 0 {
		return t.run(s, i, word)
	}
	if c&marks == 0 && s[i] != '\n' && s[i] != '\r' && t.next(s, i+n)&word != 0 {
		return t.run(s, i+n, word)
	}
	j := i
	if s[i] == ' ' && t.next(s, i+1)&marks != 0 {
		j, c = i+1, marks
	}
	switch {
	case c&marks != 0:
		end := t.run(s, j, marks)
		if !p.oneBreak {
			end = pattern{tail: "\r\n"}.tailEnd(s, end)
		}
		return end
	case c&space != 0:
		return p.blank(t, s, i)
	}
	for i += n; i < len(s); i += n { // skip unmatched text, up to a character that starts a word or may precede one
		if c, n = t.at(s, i); c&(word|marks|space) != 0 || t.next(s, i+n)&word != 0 {
			break
		}
	}
	return i
}

func (p deepseek3) blank(t *classes, s []byte, i int) int {
	if p.oneBreak && (s[i] == '\n' || s[i] == '\r') {
		return i + 1
	}
	end, last, broken := t.spaces(s, i)
	if broken > 0 && !p.oneBreak {
		return broken
	}
	return blank(s, i, end, last)
}

func isLatin(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// bloom is  ?[^(\s|.,!?…。，、।۔،)]+
// Source: tokenizer.json of BLOOM.
func bloom(t *classes, s []byte, i int, _ *int) int {
	start := i
	for i < len(s) {
		j := i
		if s[i] == ' ' && i+1 < len(s) {
			j++
		}
		end := j
		for end < len(s) && !bloomStop(t, s, end) {
			end += width(s, end)
		}
		switch {
		case end == j:
			i += width(s, i)
		case i > start:
			return i
		default:
			return end
		}
	}
	return i
}

func bloomStop(t *classes, s []byte, i int) bool {
	if c, _ := t.at(s, i); c&space != 0 {
		return true
	}
	r, _ := runeAt(s, i)
	return strings.ContainsRune("(|.,!?…。，、।۔،)", r)
}

// sentinel is <sentinel:[0-9]+>
func sentinel(_ *classes, s []byte, i int, _ *int) int {
	const head = "<sentinel:"
	for from := i; ; {
		at := bytes.Index(s[from:], []byte(head))
		if at < 0 {
			return len(s)
		}
		at += from
		end := at + len(head)
		for end < len(s) && s[end] >= '0' && s[end] <= '9' {
			end++
		}
		switch {
		case end == len(s) || s[end] != '>' || end == at+len(head):
			from = end
		case at > i:
			return at
		default:
			return end + 1
		}
	}
}

// picture is IMGIMG[A-I]{1,4}Z
func picture(_ *classes, s []byte, i int, _ *int) int {
	const head = "IMGIMG"
	for from := i; ; {
		at := bytes.Index(s[from:], []byte(head))
		if at < 0 {
			return len(s)
		}
		at += from
		end := at + len(head)
		for end < len(s) && end < at+len(head)+4 && s[end] >= 'A' && s[end] <= 'I' {
			end++
		}
		switch {
		case end == len(s) || s[end] != 'Z' || end == at+len(head):
			from = at + 1
		case at > i:
			return at
		default:
			return end + 1
		}
	}
}
