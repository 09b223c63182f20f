package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// size estimates the number of states of an expression. It stops counting soon
// after expanded.
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

// findNullable finds the rules that can match the empty text.
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

// findInline finds the rules that are small enough to be copied into their callers.
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

// prune removes states that cannot reach an end. If the root cannot end, it returns
// an error.
func (b *nfaBuilder) prune() error {
	type use struct{ from, to int32 }
	back := make([][]int32, len(b.states)) // predecessors of each state over edges that are not calls
	calls := make([][]use, len(b.rules))
	after := make([][]int32, len(b.states)) // rules that are called on the edges into each state
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

// sort orders the rules so that each rule comes before the rules that it may
// start with. A rule that may start with itself is left-recursive, which is an
// error.
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

// first returns the rules that may be called from a state before any byte is read.
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
