package grammar

import (
	"slices"
	"unicode/utf8"
)

type op uint8

const (
	opLit     op = iota // bytes
	opClass             // one code point of set
	opSeq               // subs in order
	opAlt               // one of subs
	opRepeat            // subs[0], repeated min to max times
	opRef               // a rule
	opAuto              // an automaton over expressions
	opSpecial           // a control token, given by its text
	opTokenID           // a token, given by its id
	opAfter             // free text, then one of subs[1:], then subs[0]; if min is 0, the text may also end without any of them
)

// expr is an expression of a grammar. An expression does not change once it is
// part of another one, so expressions can be shared.
type expr struct {
	op       op
	lit      []byte
	set      []span
	subs     []*expr
	min, max int // bounds of opRepeat; max is -1 for no limit
	id       int // rule of opRef, token of opTokenID
	auto     *auto
}

// span is an inclusive range of code points.
type span struct{ lo, hi rune }

// auto is an automaton whose edges are labelled with expressions.
type auto struct {
	edges []arc
	size  int // states; 0 is the start
	final []bool
}

type arc struct {
	from, to int
	on       *expr // nil for an empty edge
}

func newAuto(size int) *auto { return &auto{size: size, final: make([]bool, size)} }

func (a *auto) add() int {
	a.final = append(a.final, false)
	a.size++
	return a.size - 1
}

func (a *auto) edge(from, to int, on *expr) { a.edges = append(a.edges, arc{from, to, on}) }

// ends reports whether a final state is reachable over edges that are empty or
// whose expressions may be skipped.
func (a *auto) ends(pass func(*expr) bool) bool {
	out := make([][]arc, a.size)
	for _, x := range a.edges {
		out[x.from] = append(out[x.from], x)
	}
	seen := make([]bool, a.size)
	seen[0] = true
	for queue := []int{0}; len(queue) > 0; {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if a.final[at] {
			return true
		}
		for _, x := range out[at] {
			if !seen[x.to] && (x.on == nil || pass(x.on)) {
				seen[x.to] = true
				queue = append(queue, x.to)
			}
		}
	}
	return false
}

func (a *auto) expr() *expr { return &expr{op: opAuto, auto: a} }

func lit(s string) *expr { return &expr{op: opLit, lit: []byte(s)} }

func class(set ...span) *expr { return &expr{op: opClass, set: set} }

func seq(subs ...*expr) *expr {
	if len(subs) == 1 {
		return subs[0]
	}
	return &expr{op: opSeq, subs: subs}
}

func alt(subs ...*expr) *expr {
	if len(subs) == 1 {
		return subs[0]
	}
	return &expr{op: opAlt, subs: subs}
}

func repeat(e *expr, lo, hi int) *expr {
	if lo == 1 && hi == 1 {
		return e
	}
	return &expr{op: opRepeat, subs: []*expr{e}, min: lo, max: hi}
}

func optional(e *expr) *expr { return repeat(e, 0, 1) }

func ref(rule int) *expr { return &expr{op: opRef, id: rule} }

// never is an expression that nothing matches.
func never() *expr { return &expr{op: opAlt} }

// rule is a named expression.
type rule struct {
	name string
	body *expr
	// key marks a rule that matches the name of an object's member. While the
	// calling rule runs once, no name occurs twice, and no name in taken
	// occurs.
	key   bool
	taken []string // names that must not occur in the calling rule, as written in JSON
}

// Grammar is a set of rules with a root. It can be compiled any number of times and
// for any vocabulary.
type Grammar struct {
	rules []rule
	root  int
	json  bool
	left  []string // unenforced keywords of a loose schema
	check *Check   // validator for documents that may violate the unenforced keywords
}

// Left returns the paths of the loose schema's keywords that the grammar does
// not enforce.
func (g *Grammar) Left() []string { return g.left }

// Check returns a validator for the keywords that the grammar does not enforce,
// or nil if it enforces all keywords.
func (g *Grammar) Check() *Check { return g.check }

// IsJSON reports whether the grammar comes from a JSON schema or matches any JSON
// object, as opposed to GBNF text that a person wrote.
func (g *Grammar) IsJSON() bool { return g.json }

// wrap returns a grammar with one more rule, which becomes its root. f receives
// the old root and returns the new one.
func (g *Grammar) wrap(name string, f func(root *expr) *expr) *Grammar {
	rules := append(slices.Clone(g.rules), rule{name: name, body: f(ref(g.root))})
	return &Grammar{rules: rules, root: len(rules) - 1}
}

// WithPrefix returns a grammar for prefix followed by g.
func (g *Grammar) WithPrefix(prefix string) *Grammar {
	return g.wrap("prefix", func(root *expr) *expr { return seq(lit(prefix), root) })
}

// WithSuffix returns a grammar for g followed by suffix.
func (g *Grammar) WithSuffix(suffix string) *Grammar {
	return g.wrap("suffix", func(root *expr) *expr { return seq(root, lit(suffix)) })
}

// normal sorts a set of code points, joins adjacent ranges, and removes surrogates
// and values beyond Unicode.
func normal(set []span) []span {
	set = slices.Clone(set)
	slices.SortFunc(set, func(a, b span) int { return int(a.lo - b.lo) })
	var out []span
	for _, s := range set {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
		} else {
			out = append(out, s)
		}
	}
	return slices.Clip(without(out, []span{{surrogates.lo, surrogates.hi}, {utf8.MaxRune + 1, 1 << 30}}))
}

var surrogates = span{0xd800, 0xdfff}

// without returns a without b. Both are sorted.
func without(a, b []span) []span {
	var out []span
	for _, s := range a {
		for _, cut := range b {
			if cut.hi < s.lo || cut.lo > s.hi {
				continue
			}
			if cut.lo > s.lo {
				out = append(out, span{s.lo, cut.lo - 1})
			}
			s.lo = cut.hi + 1
			if s.lo > s.hi {
				break
			}
		}
		if s.lo <= s.hi {
			out = append(out, s)
		}
	}
	return out
}

// invert returns all code points outside a normal set.
func invert(set []span) []span {
	return normal(without([]span{{0, utf8.MaxRune}}, set))
}

// intersect returns the intersection of two normal sets.
func intersect(a, b []span) []span { return without(a, invert(b)) }
