package grammar

import "strings"

// ahead is a look-ahead at the start of a pattern.
type ahead struct {
	src string // pattern of the look-ahead
	not bool   // whether the pattern must not match
}

// lookAheads splits a pattern into the look-aheads at its start, which apply to the
// whole text, and the remaining pattern. Other look-aheads stay in the remaining
// pattern.
func lookAheads(src string) (list []ahead, rest string) {
	rest, ok := strings.CutPrefix(src, "^")
	if !ok {
		return nil, src
	}
	for {
		not := strings.HasPrefix(rest, "(?!")
		if !not && !strings.HasPrefix(rest, "(?=") {
			break
		}
		end := groupEnd(rest)
		if end < 0 {
			return nil, src
		}
		inner := rest[3:end]
		if forks(inner) {
			inner = "(?:" + inner + ")"
		}
		list = append(list, ahead{"^" + inner, not})
		rest = rest[end+1:]
	}
	if len(list) == 0 || forks(rest) || rest != "" && strings.IndexByte("*+?{", rest[0]) >= 0 {
		return nil, src // the look-aheads belong to one alternative only, or are repeated
	}
	return list, "^" + rest
}

// groupEnd returns the index at which the group at the start of a pattern closes,
// or -1.
func groupEnd(src string) int {
	end := -1
	scan(src, func(i, depth int) bool {
		if src[i] == ')' && depth == 0 {
			end = i
		}
		return end < 0
	})
	return end
}

// forks reports whether a pattern has top-level alternatives.
func forks(src string) bool {
	found := false
	scan(src, func(i, depth int) bool {
		found = found || src[i] == '|' && depth == 0
		return !found
	})
	return found
}

// scan calls f for each byte of a pattern that is neither escaped nor inside a
// class, with the number of groups that are still open after it.
func scan(src string, f func(i, depth int) bool) {
	depth, class := 0, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c == '\\':
			i++
			continue
		case class:
			class = c != ']'
			continue
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
		if !f(i, depth) {
			return
		}
	}
}

// patternDFA returns an automaton for the texts that a pattern matches. If wide
// is set, \s matches all white space of ECMAScript, which suits validation but
// not generation.
func patternDFA(src string, wide bool, steps *int) (*dfa, error) {
	list, rest := lookAheads(src)
	d, err := plainDFA(rest, wide, steps)
	for _, a := range list {
		if err != nil {
			return nil, err
		}
		var other *dfa
		if other, err = plainDFA(a.src, wide, steps); err != nil {
			return nil, err
		}
		if a.not {
			d, err = d.without(other, steps)
		} else {
			d, err = d.intersect(other, steps)
		}
	}
	return d, err
}

func plainDFA(src string, wide bool, steps *int) (*dfa, error) {
	e, err := (&regex{src: src, wide: wide}).parse()
	if err != nil {
		return nil, err
	}
	return newDFA(e, steps)
}
