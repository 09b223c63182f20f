package grammar

import (
	"errors"
	"slices"
	"unicode/utf8"
)

// dfa is a deterministic automaton over code points. State 0 is the start. After
// trim, every state can reach a final state.
type dfa struct {
	edges [][]dfaEdge // edges of each state, sorted and without overlaps
	final []bool
}

type dfaEdge struct {
	span
	to int32
}

const maxDFA = 20_000 // maximum number of states, and of positions in the automaton from which they are made

var errDFA = errors.New("the pattern takes too many states")

// positions is the nondeterministic automaton of an expression over code points.
type positions struct {
	skip [][]int32 // empty edges
	on   [][]posEdge
}

type posEdge struct {
	set []span
	to  int32
}

func (p *positions) add() int32 {
	p.skip, p.on = append(p.skip, nil), append(p.on, nil)
	return int32(len(p.skip) - 1)
}

// build returns the state from which e leads to to.
func (p *positions) build(e *expr, to int32) int32 {
	if len(p.skip) > maxDFA {
		return to
	}
	switch e.op {
	case opLit:
		text := []rune(string(e.lit))
		for _, r := range slices.Backward(text) {
			from := p.add()
			p.on[from] = []posEdge{{[]span{{r, r}}, to}}
			to = from
		}
		return to
	case opClass:
		from := p.add()
		p.on[from] = []posEdge{{e.set, to}}
		return from
	case opSeq:
		for _, sub := range slices.Backward(e.subs) {
			to = p.build(sub, to)
		}
		return to
	case opAlt:
		from := p.add()
		for _, sub := range e.subs {
			p.skip[from] = append(p.skip[from], p.build(sub, to))
		}
		return from
	case opRepeat:
		if e.max < 0 {
			loop := p.add()
			body := p.build(e.subs[0], loop)
			p.skip[loop] = []int32{body, to}
			to = loop
		}
		for range e.max - e.min {
			from := p.add()
			body := p.build(e.subs[0], to)
			p.skip[from] = []int32{body, to}
			if to = from; len(p.skip) > maxDFA {
				return to
			}
		}
		for range e.min {
			if to = p.build(e.subs[0], to); len(p.skip) > maxDFA {
				return to
			}
		}
		return to
	}
	panic("grammar: not an expression of a pattern")
}

// close adds the states that are reachable over empty edges, and sorts the set.
func (p *positions) close(set []int32) []int32 {
	seen := make(map[int32]bool, len(set))
	out := []int32{}
	for len(set) > 0 {
		s := set[len(set)-1]
		set = set[:len(set)-1]
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
			set = append(set, p.skip[s]...)
		}
	}
	slices.Sort(out)
	return out
}

// newDFA makes an expression deterministic. Like all functions here that build
// automata, it adds its work to steps and fails at maxSteps.
func newDFA(e *expr, steps *int) (*dfa, error) {
	p := &positions{}
	end := p.add()
	start := p.build(e, end)
	if len(p.skip) > maxDFA {
		return nil, errDFA
	}
	d := &dfa{}
	ids := map[string]int32{}
	var sets [][]int32
	state := func(set []int32) int32 {
		set = p.close(set)
		*steps += len(set)
		key := make([]byte, 0, 4*len(set))
		for _, s := range set {
			key = append(key, byte(s), byte(s>>8), byte(s>>16))
		}
		id, ok := ids[string(key)]
		if !ok {
			id = int32(len(sets))
			ids[string(key)] = id
			sets = append(sets, set)
			d.final = append(d.final, slices.Contains(set, end))
		}
		return id
	}
	state([]int32{start})
	for i := 0; i < len(sets); i++ {
		var out []posEdge
		for _, s := range sets[i] {
			out = append(out, p.on[s]...)
		}
		var edges []dfaEdge
		for _, s := range pieces(out) {
			var to []int32
			for _, o := range out {
				if within(o.set, s.lo) {
					to = append(to, o.to)
				}
			}
			edges = append(edges, dfaEdge{s, state(to)})
			if *steps += len(out); *steps > maxSteps || len(sets) > maxDFA {
				return nil, errDFA
			}
		}
		d.edges = append(d.edges, joined(edges))
	}
	return d.trim(), nil
}

// pieces cuts sets of code points into ranges. Each set contains a resulting
// range completely or not at all.
func pieces(out []posEdge) []span {
	var cuts []rune
	for _, o := range out {
		for _, s := range o.set {
			cuts = append(cuts, s.lo, s.hi+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var all []span
	for i := 1; i < len(cuts); i++ {
		s := span{cuts[i-1], cuts[i] - 1}
		if slices.ContainsFunc(out, func(o posEdge) bool { return within(o.set, s.lo) }) {
			all = append(all, s)
		}
	}
	return all
}

// within reports whether a sorted set contains the code point.
func within(set []span, r rune) bool {
	_, ok := slices.BinarySearchFunc(set, r, func(s span, r rune) int {
		switch {
		case s.hi < r:
			return -1
		case s.lo > r:
			return 1
		}
		return 0
	})
	return ok
}

// joined joins adjacent edges to the same state.
func joined(edges []dfaEdge) []dfaEdge {
	var out []dfaEdge
	for _, e := range edges {
		if n := len(out); n > 0 && out[n-1].to == e.to && out[n-1].hi+1 == e.lo {
			out[n-1].hi = e.hi
		} else {
			out = append(out, e)
		}
	}
	return out
}

// trim removes states that no matching text visits. A dfa that matches nothing
// keeps only its start.
func (d *dfa) trim() *dfa {
	back := make([][]int32, len(d.edges))
	for i, es := range d.edges {
		for _, e := range es {
			back[e.to] = append(back[e.to], int32(i))
		}
	}
	live := slices.Clone(d.final)
	var queue []int32
	for i, f := range d.final {
		if f {
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, b := range back[s] {
			if !live[b] {
				live[b] = true
				queue = append(queue, b)
			}
		}
	}
	live[0] = true
	id := make([]int32, len(live))
	out := &dfa{}
	for i, l := range live {
		if l {
			id[i] = int32(len(out.final))
			out.final = append(out.final, d.final[i])
			out.edges = append(out.edges, nil)
		}
	}
	for i, es := range d.edges {
		for _, e := range es {
			if live[i] && live[e.to] {
				out.edges[id[i]] = append(out.edges[id[i]], dfaEdge{e.span, id[e.to]})
			}
		}
	}
	return out
}

func (d *dfa) empty() bool { return !slices.Contains(d.final, true) }

func (d *dfa) match(s string) bool {
	at := int32(0)
next:
	for _, r := range s {
		for _, e := range d.edges[at] {
			if r >= e.lo && r <= e.hi {
				at = e.to
				continue next
			}
		}
		return false
	}
	return d.final[at]
}

// intersect returns a dfa for the texts that both d and o match.
func (d *dfa) intersect(o *dfa, steps *int) (*dfa, error) {
	out := &dfa{}
	ids := map[[2]int32]int32{}
	var pairs [][2]int32
	state := func(a, b int32) int32 {
		k := [2]int32{a, b}
		id, ok := ids[k]
		if !ok {
			id = int32(len(pairs))
			ids[k] = id
			pairs = append(pairs, k)
			out.final = append(out.final, d.final[a] && o.final[b])
		}
		return id
	}
	state(0, 0)
	for i := 0; i < len(pairs); i++ {
		x, y := d.edges[pairs[i][0]], o.edges[pairs[i][1]]
		if *steps += len(x) + len(y); *steps > maxSteps || len(pairs) > maxDFA {
			return nil, errDFA
		}
		var edges []dfaEdge
		for len(x) > 0 && len(y) > 0 {
			if lo, hi := max(x[0].lo, y[0].lo), min(x[0].hi, y[0].hi); lo <= hi {
				edges = append(edges, dfaEdge{span{lo, hi}, state(x[0].to, y[0].to)})
			}
			if x[0].hi < y[0].hi {
				x = x[1:]
			} else {
				y = y[1:]
			}
		}
		out.edges = append(out.edges, edges)
	}
	return out.trim(), nil
}

// without returns a dfa for the texts that d matches but o does not.
func (d *dfa) without(o *dfa, steps *int) (*dfa, error) {
	c := &dfa{final: make([]bool, len(o.final)+1), edges: make([][]dfaEdge, len(o.final)+1)}
	rest := int32(len(o.final))
	for i, es := range o.edges {
		c.final[i] = !o.final[i]
		var covered []span
		for _, e := range es {
			covered = append(covered, e.span)
		}
		all := slices.Clone(es)
		for _, s := range invert(normal(covered)) {
			all = append(all, dfaEdge{s, rest})
		}
		slices.SortFunc(all, func(a, b dfaEdge) int { return int(a.lo - b.lo) })
		c.edges[i] = all
	}
	c.final[rest] = true
	c.edges[rest] = []dfaEdge{{span{0, surrogates.lo - 1}, rest}, {span{surrogates.hi + 1, utf8.MaxRune}, rest}}
	return d.intersect(c, steps)
}

// ofLength returns a dfa for the texts with lo to hi code points. If hi is -1,
// there is no upper limit.
func ofLength(lo, hi int, steps *int) (*dfa, error) {
	if max(lo, hi) >= maxDFA {
		return nil, errDFA
	}
	return newDFA(repeat(class(invert(nil)...), lo, hi), steps)
}

// words returns the matching texts in order, or nil if there are more than limit.
func (d *dfa) words(limit int) []string {
	out := []string{}
	var text []rune
	var visit func(s int32) bool
	visit = func(s int32) bool {
		if d.final[s] {
			out = append(out, string(text))
		}
		if len(out) > limit || len(text) > len(d.final) {
			return false
		}
		for _, e := range d.edges[s] {
			if int(e.hi-e.lo) >= limit {
				return false
			}
			for r := e.lo; r <= e.hi; r++ {
				text = append(text, r)
				if !visit(e.to) {
					return false
				}
				text = text[:len(text)-1]
			}
		}
		return true
	}
	if !visit(0) {
		return nil
	}
	return out
}

// expr converts the dfa to an expression. unit returns the expression for one
// code point of a set.
func (d *dfa) expr(unit func([]span) *expr) *expr {
	a := newAuto(len(d.final))
	copy(a.final, d.final)
	for i, es := range d.edges {
		sets := map[int32][]span{}
		var order []int32
		for _, e := range es {
			if sets[e.to] == nil {
				order = append(order, e.to)
			}
			sets[e.to] = append(sets[e.to], e.span)
		}
		for _, to := range order {
			a.edge(i, int(to), unit(normal(sets[to])))
		}
	}
	return a.expr()
}
