package grammar

import (
	"fmt"
	"slices"
	"strings"
)

type edgeKind uint8

const (
	edgeByte  edgeKind = iota // a byte of lo to hi
	edgeEmpty                 // nothing
	edgeCall                  // a run of rule arg, at least one byte of it
	edgeEnter                 // into counted loop arg: the count is 1
	edgeLoop                  // another round of loop arg, if the count allows it
	edgeExit                  // out of loop arg, if the count allows it
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
	loop  int32 // the counted loop that it is in, if it is in one
}

// nrule is a rule as an automaton over bytes. Calls never match the empty text:
// where a rule can be empty, its callers have an edge past the call.
type nrule struct {
	name       string
	start, end int32
	key        bool
	taken      []string
	order      int32 // callees that a rule may start with come after it
}

// loop is a counted repetition; max -1: no limit.
type loop struct{ min, max int32 }

// nfa is all rules of a grammar.
type nfa struct {
	states []nstate
	rules  []nrule
	loops  []loop
	root   int32
	empty  bool // the root matches the empty text
	keys   bool // a rule is a key
}

const (
	maxStates = 1 << 20
	// expanded is how many states a counted repetition may take as copies
	expanded = 48
)

// nfaBuilder turns expressions into states, each from what follows it.
type nfaBuilder struct {
	nfa
	g        *Grammar
	toks     *Tokens
	nullable []bool
	inline   []bool
	rule     int32
	loop     int32
	counting bool // inside a counted loop: another one gets its own rule
	ranges   map[byteRange]int32
	over     bool
}

// byteRange identifies a state with one edge.
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

// state adds a state; at the limit it returns an existing one.
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
		return b.state() // no such token: a dead end, cut out later
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

// outline makes a rule of an expression and returns the call of it.
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

// counted builds a loop that counts its rounds.
func (b *nfaBuilder) counted(sub *expr, lo, hi int, to int32) int32 {
	k := int32(len(b.loops))
	b.loops = append(b.loops, loop{int32(lo), int32(hi)})
	b.counting, b.loop = true, k
	round := b.state()
	var body int32
	if b.null(sub) { // rounds that match nothing are left out, and not missed
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

// size estimates the states of an expression, up to a little over expanded.
func (b *nfaBuilder) size(e *expr) int {
	n := 1
	switch e.op {
	case opLit, opSpecial:
		n = len(e.lit)
	case opClass:
		if len(e.set) > 0 && e.set[len(e.set)-1].hi > 0x7f {
			n = 12
		}
	case opSeq, opAlt:
		for _, sub := range e.subs {
			if n += b.size(sub); n > expanded {
				break
			}
		}
	case opRepeat:
		copies := max(e.max, e.min, 1)
		if n = b.size(e.subs[0]); copies > 1 {
			n = min(n, expanded+1) * min(copies, expanded+1)
		}
	case opAuto, opAfter:
		n = expanded + 1
	}
	return min(n, expanded+1)
}

// null reports whether e matches the empty text.
func (b *nfaBuilder) null(e *expr) bool {
	switch e.op {
	case opLit:
		return len(e.lit) == 0
	case opSeq:
		return !slices.ContainsFunc(e.subs, func(s *expr) bool { return !b.null(s) })
	case opAlt:
		return slices.ContainsFunc(e.subs, b.null)
	case opRepeat:
		return e.min == 0 || b.null(e.subs[0])
	case opRef:
		return b.nullable[e.id]
	case opAuto:
		return e.auto.ends(b.null)
	}
	return e.op == opAfter && e.min == 0
}

// findNullable finds the rules that match the empty text.
func (b *nfaBuilder) findNullable() {
	b.nullable = make([]bool, len(b.g.rules))
	users := make([][]int, len(b.g.rules))
	queue := make([]int, len(b.g.rules))
	for i, r := range b.g.rules {
		queue[i] = i
		refs(r.body, func(id int) {
			if n := len(users[id]); n == 0 || users[id][n-1] != i {
				users[id] = append(users[id], i)
			}
		})
	}
	for len(queue) > 0 {
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if !b.nullable[i] && b.null(b.g.rules[i].body) {
			b.nullable[i] = true
			queue = append(queue, users[i]...)
		}
	}
}

// refs calls f with every rule that e uses.
func refs(e *expr, f func(id int)) {
	if e.op == opRef {
		f(e.id)
	}
	for _, sub := range e.subs {
		refs(sub, f)
	}
	if e.auto != nil {
		for _, x := range e.auto.edges {
			if x.on != nil {
				refs(x.on, f)
			}
		}
	}
}

// findInline finds the rules that are small enough to stand where they are used.
func (b *nfaBuilder) findInline() {
	const small = 14
	var leaf func(e *expr) bool
	leaf = func(e *expr) bool {
		return e.op != opRef && e.op != opAuto && e.op != opAfter &&
			!(e.op == opRepeat && max(e.min, e.max) > 1) &&
			!slices.ContainsFunc(e.subs, func(s *expr) bool { return !leaf(s) })
	}
	b.inline = make([]bool, len(b.g.rules))
	for i, r := range b.g.rules {
		b.inline[i] = !r.key && b.size(r.body) <= small && leaf(r.body)
	}
}

// prune removes what never reaches an end, so that every state left can be
// completed. A root that never ends is an error.
func (b *nfaBuilder) prune() error {
	type use struct{ from, to int32 }
	back := make([][]int32, len(b.states)) // by edges other than calls
	calls := make([][]use, len(b.rules))
	after := make([][]int32, len(b.states)) // rules called on the way to a state
	for i, s := range b.states {
		for _, e := range s.edges {
			if e.kind == edgeCall {
				calls[e.arg] = append(calls[e.arg], use{int32(i), e.to})
				after[e.to] = append(after[e.to], e.arg)
			} else {
				back[e.to] = append(back[e.to], int32(i))
			}
		}
	}
	live := make([]bool, len(b.states))
	ends := make([]bool, len(b.rules))
	starts := make(map[int32][]int32, len(b.rules))
	var queue []int32
	mark := func(s int32) {
		if !live[s] {
			live[s] = true
			queue = append(queue, s)
		}
	}
	for i, r := range b.rules {
		starts[r.start] = append(starts[r.start], int32(i))
		mark(r.end)
	}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range back[s] {
			mark(from)
		}
		for _, r := range after[s] {
			if ends[r] {
				for _, u := range calls[r] {
					if u.to == s {
						mark(u.from)
					}
				}
			}
		}
		for _, r := range starts[s] {
			ends[r] = true
			for _, u := range calls[r] {
				if live[u.to] {
					mark(u.from)
				}
			}
		}
	}
	if !ends[b.root] {
		return fmt.Errorf("%w: rule %q matches no text that ends", ErrSyntax, b.rules[b.root].name)
	}
	for i := range b.states {
		b.states[i].edges = slices.DeleteFunc(b.states[i].edges, func(e edge) bool {
			return !live[e.to] || e.kind == edgeCall && !ends[e.arg]
		})
	}
	return nil
}

// sort numbers the rules so that one comes before all that it may start with.
// A rule that may start with itself is left recursion, an error.
func (b *nfaBuilder) sort() error {
	first := make([][]int32, len(b.rules))
	for i, r := range b.rules {
		first[i] = b.first(r.start)
	}
	const fresh, open, done = 0, 1, 2
	mark := make([]uint8, len(b.rules))
	next := int32(len(b.rules))
	type step struct {
		rule int32
		i    int
	}
	for root := range b.rules {
		if mark[root] != fresh {
			continue
		}
		stack := []step{{int32(root), 0}}
		mark[root] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.i == len(first[top.rule]) {
				mark[top.rule] = done
				next--
				b.rules[top.rule].order = next
				stack = stack[:len(stack)-1]
				continue
			}
			r := first[top.rule][top.i]
			top.i++
			switch mark[r] {
			case fresh:
				mark[r] = open
				stack = append(stack, step{r, 0})
			case open:
				var names []string
				for _, s := range stack {
					if len(names) > 0 || s.rule == r {
						names = append(names, b.rules[s.rule].name)
					}
				}
				if len(names) > 8 {
					names = append(names[:8], "…")
				}
				return fmt.Errorf("%w: left recursion: %s → %s", ErrSyntax, strings.Join(names, " → "), b.rules[r].name)
			}
		}
	}
	return nil
}

// first returns the rules called before any byte from a state on.
func (b *nfaBuilder) first(start int32) []int32 {
	seen := map[int32]bool{start: true}
	var rules []int32
	for queue := []int32{start}; len(queue) > 0; {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, e := range b.states[s].edges {
			switch e.kind {
			case edgeByte:
			case edgeCall:
				if !slices.Contains(rules, e.arg) {
					rules = append(rules, e.arg)
				}
			default:
				if !seen[e.to] {
					seen[e.to] = true
					queue = append(queue, e.to)
				}
			}
		}
	}
	return rules
}
