package jinja

import (
	"context"
	"time"
)

// Limits bounds the work of a rendering. A zero field selects its default.
type Limits struct {
	Steps  int // maximum number of evaluations and visited elements; default 50 million
	Memory int // maximum total bytes of all strings and lists made during the rendering; default 512 MiB
	Output int // maximum bytes of the result; default 64 MiB
	Depth  int // maximum nesting of expressions and calls; default 2000
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&l.Steps, 50_000_000)
	def(&l.Memory, 512<<20)
	def(&l.Output, 64<<20)
	def(&l.Depth, 2000)
	return l
}

const (
	maxNest  = 500     // maximum nesting of containers in input, output and comparison
	maxRange = 100_000 // maximum elements of range(), as in Jinja2's sandbox
	maxBits  = 1 << 16 // maximum bits of an integer
)

// state is the state of one rendering.
type state struct {
	ctx    context.Context
	lim    Limits
	steps  int // remaining steps
	memory int // remaining bytes
	depth  int
	now    time.Time
	out    *builder // current output
	vars   *scope   // the template's top-level variables
}

// charge deducts n units of work from the budget.
func (st *state) charge(n int) error {
	before := st.steps
	st.steps -= n
	if st.steps < 0 {
		return limitErr("more than %d steps", st.lim.Steps)
	}
	if before>>12 != st.steps>>12 {
		return st.ctx.Err()
	}
	return nil
}

// alloc deducts n bytes from the budget.
func (st *state) alloc(n int) error {
	if n < 0 || n > st.memory {
		return limitErr("more than %d bytes of memory", st.lim.Memory)
	}
	st.memory -= n
	return nil
}

// list returns a list of the given length and deducts its size from the budget.
func (st *state) list(n int) ([]Value, error) {
	if err := st.items(n); err != nil {
		return nil, err
	}
	return make([]Value, 0, n), nil
}

// items deducts the size of n list elements from the budget.
func (st *state) items(n int) error {
	if n > st.memory/16 {
		return limitErr("a list of %d elements", n)
	}
	if err := st.alloc(16 * n); err != nil {
		return err
	}
	return st.charge(n / 4)
}

// eval evaluates an expression within the limits on nesting and work.
func (st *state) eval(x expr, sc *scope) (Value, error) {
	if err := st.enter(); err != nil {
		return nil, err
	}
	v, err := x.eval(st, sc)
	st.depth--
	return v, err
}

// enter increments depth and checks its limit. The caller must decrement it.
func (st *state) enter() error {
	if st.depth >= st.lim.Depth {
		return limitErr("expressions and calls nested deeper than %d", st.lim.Depth)
	}
	if err := st.charge(1); err != nil {
		return err
	}
	st.depth++
	return nil
}

// capture runs f and returns its output as a string.
func (st *state) capture(f func() error) (*Str, error) {
	outer := st.out
	b := &builder{st: st}
	st.out = b
	err := f()
	st.out = outer
	if err != nil {
		return nil, err
	}
	return b.str()
}

// scope holds the variables of a template, loop iteration, macro call or block.
type scope struct {
	names  []string
	vals   []Value
	parent *scope
}

// child returns a scope inside sc in which the given names are undefined.
func (sc *scope) child(undef ...string) *scope {
	out := &scope{parent: sc}
	for _, name := range undef {
		out.set(name, undefinedName(name))
	}
	return out
}

func (sc *scope) set(name string, v Value) {
	for i, n := range sc.names {
		if n == name {
			sc.vals[i] = v
			return
		}
	}
	sc.names = append(sc.names, name)
	sc.vals = append(sc.vals, v)
}

func (sc *scope) lookup(name string) (Value, bool) {
	for ; sc != nil; sc = sc.parent {
		for i, n := range sc.names {
			if n == name {
				return sc.vals[i], true
			}
		}
	}
	return nil, false
}
