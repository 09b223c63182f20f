package chat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ParserKind names the syntax in which a model writes tool calls. Each is
// declared in the file of its Syntax.
type ParserKind string

// Syntax is a format in which models write tool calls. It is used for parsing and
// for grammars. Each syntax is registered by the init function of its own file.
type Syntax struct {
	Kind   ParserKind
	Detect []Sign // signs in a template that identify the syntax; nil for syntaxes that no template shows
	Marks  []mark // markers that open calls
	// Bare looks at the start of an answer for a call without an opening marker,
	// and Read reads that call. Both are nil if the syntax always uses markers.
	Bare func(s string, final bool) verdict
	Read reader
	// Step replaces the search for markers in syntaxes that structure the whole
	// answer. It is nil for most syntaxes.
	Step  func(p *Parser, final bool) bool
	Drops []string  // markers that have no meaning in the content
	Frame frame     // markers around the calls that a grammar writes
	Text  textFrame // markers around text that a grammar allows instead of calls
	// Call returns the rule body for a call of one function.
	Call func(b *grammarBuilder, rule, name string, params *Dict) (string, error)
}

// Sign is a set of words that identify a syntax if a template contains all of them.
// If several signs match, the lowest rank wins. Ranks are unique.
type Sign struct {
	Rank  int
	Words []string
}

// frame holds the markers around the calls of a syntax.
type frame struct {
	open, close string // markers around all calls together
	sep         string // between calls
}

// textFrame holds the markers around an answer that is text.
type textFrame struct {
	open, close string
	must        bool // whether both markers are always present
}

// syntaxes holds the registered syntaxes.
var syntaxes = map[ParserKind]*Syntax{}

// register adds a syntax. It panics if the syntax is incomplete, so that calls are
// never read or written in another syntax by mistake.
func register(s Syntax) {
	switch {
	case s.Kind == "" || syntaxes[s.Kind] != nil:
		panic(fmt.Sprintf("chat: syntax %q is registered twice or has no name", s.Kind))
	case s.Call == nil:
		panic(fmt.Sprintf("chat: syntax %s has no grammar", s.Kind))
	case len(s.Marks) == 0 && s.Step == nil:
		panic(fmt.Sprintf("chat: syntax %s has no reader", s.Kind))
	case (s.Bare == nil) != (s.Read == nil):
		panic(fmt.Sprintf("chat: syntax %s has half of a bare form", s.Kind))
	}
	for _, other := range syntaxes {
		for _, sign := range s.Detect {
			if slices.ContainsFunc(other.Detect, func(o Sign) bool { return o.Rank == sign.Rank }) {
				panic(fmt.Sprintf("chat: syntaxes %s and %s share the rank %d", s.Kind, other.Kind, sign.Rank))
			}
		}
	}
	syntaxes[s.Kind] = &s
}

// syntaxOf returns a registered syntax. The empty kind has no calls.
func syntaxOf(kind ParserKind) (*Syntax, error) {
	if s := syntaxes[kind]; s != nil {
		return s, nil
	}
	if kind == "" {
		return &Syntax{}, nil
	}
	return nil, fmt.Errorf("chat: no syntax %q of tool calls", string(kind))
}

// ParserKinds returns the names of all syntaxes, sorted.
func ParserKinds() []ParserKind {
	var out []ParserKind
	for kind := range syntaxes {
		out = append(out, kind)
	}
	slices.Sort(out)
	return out
}

// ParserFor picks the syntax of tool calls that a template's text indicates.
func ParserFor(template string) ParserKind {
	type found struct {
		rank int
		kind ParserKind
	}
	best := found{kind: Generic}
	var all []found
	for kind, s := range syntaxes {
		for _, sign := range s.Detect {
			if containsAll(template, sign.Words) {
				all = append(all, found{sign.Rank, kind})
			}
		}
	}
	if len(all) > 0 {
		best = slices.MinFunc(all, func(a, b found) int { return cmp.Compare(a.rank, b.rank) })
	}
	return best.kind
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// view holds what a parser looks for in the content of one answer.
type view struct {
	marks    []mark
	drops    []mark // markers in marks that have no meaning
	thinking []mark // markers that may end reasoning: its closing tag and calls
	bare     func(s string, final bool) verdict
	read     reader
}

// verdict is the decision whether a text begins with a call.
type verdict uint8

const (
	no verdict = iota
	maybe
	yes
)

// viewOf returns what a parser looks for. If no tools are offered, it looks for
// reasoning only.
func viewOf(s *Syntax, o ParserOptions, tools bool) view {
	var v view
	if tools {
		v = view{marks: slices.Clone(s.Marks), bare: s.Bare, read: s.Read}
		if generic := syntaxes[Generic]; o.Loose && s != generic {
			for _, m := range generic.Marks {
				if !slices.ContainsFunc(v.marks, func(have mark) bool { return have.text == m.text }) {
					v.marks = append(v.marks, m)
				}
			}
			v.bare, v.read = generic.Bare, generic.Read
		}
	}
	if o.Tags.Close != "" {
		v.thinking = append(slices.Clone(v.marks), mark{text: o.Tags.Close})
	}
	if o.Tags.Open != "" {
		v.marks = append(v.marks, mark{text: strings.TrimSpace(o.Tags.Open), reasoning: true},
			mark{text: o.Tags.Close, closes: true, control: controlTag(o.Tags.Close)})
	}
	for _, tag := range s.Drops {
		v.drops = append(v.drops, mark{text: tag})
	}
	v.marks = append(v.marks, v.drops...)
	return v
}

// opens returns a plain-text marker that opens a call.
func opens(tag string, read reader) mark { return mark{text: tag, read: read} }

// token returns a marker that is a control token and opens a call. Such a call
// always counts, even inside reasoning.
func token(tag string, read reader) mark { return mark{text: tag, read: read, control: true} }
