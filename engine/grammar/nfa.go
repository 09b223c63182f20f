package grammar

import (
	"fmt"
	"slices"
)

type edgeKind uint8

const (
	edgeByte  edgeKind = iota // reads a byte from lo to hi
	edgeEmpty                 // empty edge
	edgeCall                  // calls rule arg, which reads at least one byte
	edgeEnter                 // enters counted loop arg and sets its count to 1
	edgeLoop                  // starts another iteration of loop arg if the count allows it
	edgeExit                  // leaves loop arg if the count allows it
)

type edge struct {
	kind   edgeKind
	lo, hi byte
	to     int32
	arg    int32
}

// nstate is a state of a rule's automaton.
type nstate struct {
	edges []edge
	rule  int32
	loop  int32 // counted loop that contains the state, if any
}

// nrule is a rule as an automaton over bytes. Calls never match the empty text. If
// a rule can be empty, its callers have an edge that skips the call.
type nrule struct {
	name       string
	start, end int32
	key        bool
	taken      []string
	order      int32 // a rule has a lower order than all rules that it may start with
}

// loop is a counted repetition. max is -1 for no limit.
type loop struct{ min, max int32 }

// nfa contains all rules of a grammar.
type nfa struct {
	states []nstate
	rules  []nrule
	loops  []loop
	root   int32
	empty  bool // whether the root matches the empty text
	keys   bool // whether any rule is a key
}

const (
	maxStates = 1 << 20
	// expanded is the maximum number of states of a counted repetition that is
	// expanded into copies
	expanded = 48
)

// nfaBuilder turns expressions into states. It builds each expression backwards
// from the state that follows it.
type nfaBuilder struct {
	nfa
	g        *Grammar
	toks     *Tokens
	nullable []bool
	inline   []bool
	rule     int32
	loop     int32
	counting bool // inside a counted loop; a loop in it needs a separate rule
	ranges   map[byteRange]int32
	over     bool
}

// byteRange identifies a state with a single edge.
type byteRange struct {
	lo, hi   byte
	to, rule int32
}

func buildNFA(g *Grammar, toks *Tokens) (*nfa, error) {
	b := &nfaBuilder{g: g, toks: toks, ranges: map[byteRange]int32{}}
	b.findNullable()
	b.findInline()
	for _, r := range g.rules {
		b.rules = append(b.rules, nrule{name: r.name, key: r.key, taken: r.taken})
		b.keys = b.keys || r.key
	}
	for i := range g.rules {
		b.build(int32(i), g.rules[i].body)
	}
	b.root, b.empty = int32(g.root), b.nullable[g.root]
	if b.over {
		return nil, fmt.Errorf("%w: more than %d states", ErrLimit, maxStates)
	}
	if err := b.prune(); err != nil {
		return nil, err
	}
	if err := b.sort(); err != nil {
		return nil, err
	}
	return &b.nfa, nil
}

func (b *nfaBuilder) build(r int32, body *expr) {
	b.rule, b.loop, b.counting = r, 0, false
	end := b.state()
	start := b.expr(body, end)
	b.rules[r].start, b.rules[r].end = start, end
}

// state adds a state. At the limit, it returns an existing one.
func (b *nfaBuilder) state(edges ...edge) int32 {
	if len(b.states) >= maxStates {
		b.over = true
		return 0
	}
	b.states = append(b.states, nstate{edges, b.rule, b.loop})
	return int32(len(b.states) - 1)
}

func (b *nfaBuilder) link(from int32, e edge) {
	b.states[from].edges = append(b.states[from].edges, e)
}

func empty(to int32) edge { return edge{kind: edgeEmpty, to: to} }

// expr returns the state from which e leads to the state to.
func (b *nfaBuilder) expr(e *expr, to int32) int32 {
	if b.over {
		return to
	}
	switch e.op {
	case opLit:
		return b.bytes(e.lit, to)
	case opClass:
		return b.class(e.set, to)
	case opSeq:
		for _, sub := range slices.Backward(e.subs) {
			to = b.expr(sub, to)
		}
		return to
	case opAlt:
		from := b.state()
		for _, sub := range e.subs {
			b.link(from, empty(b.expr(sub, to)))
		}
		return from
	case opRepeat:
		return b.repeat(e, to)
	case opRef:
		if b.inline[e.id] {
			return b.expr(b.g.rules[e.id].body, to)
		}
		return b.call(int32(e.id), b.nullable[e.id], to)
	case opAuto:
		return b.auto(e.auto, to)
	case opSpecial:
		return b.bytes(b.toks.special(e.lit), to)
	case opTokenID:
		if path := b.toks.path(e.id); path != nil {
			return b.bytes(path, to)
		}
		return b.state() // the token does not exist, so this is a dead end, which is pruned later
	case opAfter:
		return b.after(e, to)
	}
	panic("grammar: unknown expression")
}

func (b *nfaBuilder) bytes(text []byte, to int32) int32 {
	for _, c := range slices.Backward(text) {
		to = b.state(edge{kind: edgeByte, lo: c, hi: c, to: to})
	}
	return to
}

func (b *nfaBuilder) call(r int32, skip bool, to int32) int32 {
	from := b.state(edge{kind: edgeCall, arg: r, to: to})
	if skip {
		b.link(from, empty(to))
	}
	return from
}

// outline makes an expression a separate rule and returns a call of the rule.
func (b *nfaBuilder) outline(e *expr, skip bool, to int32) int32 {
	r := int32(len(b.rules))
	b.rules = append(b.rules, nrule{name: b.rules[b.rule].name + " (part)"})
	rule, loop, counting := b.rule, b.loop, b.counting
	b.build(r, e)
	b.rule, b.loop, b.counting = rule, loop, counting
	return b.call(r, skip, to)
}

func (b *nfaBuilder) repeat(e *expr, to int32) int32 {
	sub, lo, hi := e.subs[0], e.min, e.max
	copies := hi
	if hi < 0 {
		copies = lo
	}
	if copies > 1 && copies*min(b.size(sub), expanded+1) > expanded {
		if b.counting {
			return b.outline(e, b.null(e), to)
		}
		return b.counted(sub, lo, hi, to)
	}
	if hi < 0 {
		loop := b.state()
		b.link(loop, empty(b.expr(sub, loop)))
		b.link(loop, empty(to))
		to = loop
	}
	for range hi - lo {
		to = b.state(empty(to), empty(b.expr(sub, to)))
	}
	for range lo {
		to = b.expr(sub, to)
	}
	return to
}

// counted builds a loop that counts its iterations.
func (b *nfaBuilder) counted(sub *expr, lo, hi int, to int32) int32 {
	k := int32(len(b.loops))
	b.loops = append(b.loops, loop{int32(lo), int32(hi)})
	b.counting, b.loop = true, k
	round := b.state()
	var body int32
	if b.null(sub) { // dropping empty iterations does not change the matched texts
		b.loops[k].min, lo = 0, 0
		body = b.outline(sub, false, round)
	} else {
		body = b.expr(sub, round)
	}
	b.counting, b.loop = false, 0
	if hi != 1 {
		b.link(round, edge{kind: edgeLoop, arg: k, to: body})
	}
	b.link(round, edge{kind: edgeExit, arg: k, to: to})
	from := b.state(edge{kind: edgeEnter, arg: k, to: body})
	if lo == 0 {
		b.link(from, empty(to))
	}
	return from
}

func (b *nfaBuilder) auto(a *auto, to int32) int32 {
	if len(b.states)+a.size > maxStates {
		b.over = true
		return to
	}
	at := make([]int32, a.size)
	for i := range at {
		at[i] = b.state()
		if a.final[i] {
			b.link(at[i], empty(to))
		}
	}
	for _, x := range a.edges {
		target := at[x.to]
		if x.on != nil {
			target = b.expr(x.on, target)
		}
		b.link(at[x.from], empty(target))
	}
	return at[0]
}
