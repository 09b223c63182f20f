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

// Syntax is one way in which models write tool calls, for reading and for
// grammars. Each has a file of its own, which registers it in init.
type Syntax struct {
	Kind   ParserKind
	Detect []Sign // what gives it away in a template; nil: for templates that show none
	Marks  []mark // markers that open calls
	// Bare looks at the start of an answer for a call that no marker opens, and
	// Read reads it. nil: there is no such form.
	Bare func(s string, final bool) verdict
	Read reader
	// Step takes over from the markers where a whole answer has a syntax of its
	// own. nil: it has not.
	Step  func(p *Parser, final bool) bool
	Drops []string  // markers in the content that mean nothing
	Frame frame     // around the calls that a grammar writes
	Text  textFrame // around text that a grammar writes in place of calls
	// Call returns the body of the grammar's rule for a call of one function.
	Call func(b *grammarBuilder, rule, name string, params *Dict) (string, error)
}

// Sign is words of a template, all of which show a syntax. Among the signs that
// fit a template the lowest rank counts; ranks are unique.
type Sign struct {
	Rank  int
	Words []string
}

// frame is what stands around the calls of a syntax.
type frame struct {
	open, close string // around all calls
	sep         string // between calls
}

// textFrame is what stands around an answer that is text.
type textFrame struct {
	open, close string
	must        bool // both always stand there
}

// syntaxes are the registered ones.
var syntaxes = map[ParserKind]*Syntax{}

// register adds a syntax. It panics on one that is incomplete, so that no call
// is ever read or written in another syntax instead.
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

// ParserKinds returns all syntaxes in the order of their names.
func ParserKinds() []ParserKind {
	var out []ParserKind
	for kind := range syntaxes {
		out = append(out, kind)
	}
	slices.Sort(out)
	return out
}

// ParserFor picks the syntax of tool calls that a template's text shows.
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

// view is what the parser of one answer looks for in the content.
type view struct {
	marks    []mark
	drops    []mark // those of marks without a meaning
	thinking []mark // what may end reasoning: its closing tag and calls
	bare     func(s string, final bool) verdict
	read     reader
}

// verdict is the answer to whether a text begins with a call.
type verdict uint8

const (
	no verdict = iota
	maybe
	yes
)

// viewOf returns what a parser looks for. Without tools on offer that is
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

// opens is a marker of text that opens a call.
func opens(tag string, read reader) mark { return mark{text: tag, read: read} }

// token is a marker that is a control token of its models and opens a call:
// inside reasoning, too, it is never a mention.
func token(tag string, read reader) mark { return mark{text: tag, read: read, control: true} }
