package jinja

import "fmt"

// loop is the `loop` variable of a for block. As in Jinja2, it reads elements one
// at a time, and one element ahead if the template needs the next one.
type loop struct {
	st      *state
	src     Value // the iterated value
	read    iterator
	index0  int
	length  int // number of elements; -1 until it is known
	after   Value
	current Value
	before  Value
	changed Value
	depth0  int
	again   func(v Value, depth int) (Value, error) // runs the loop for other elements; nil unless the loop is recursive
}

func (*loop) pyType() string { return "LoopContext" }

func (l *loop) truth() bool {
	n, err := l.count()
	return err == nil && n > 0
}

// peek returns the next element without advancing, or nil after the last.
func (l *loop) peek() (Value, error) {
	if l.after == nil {
		v, ok, err := l.read()
		if err != nil || !ok {
			return nil, err
		}
		l.after = v
	}
	return l.after, nil
}

// next advances to the next element and returns it, or nil after the last.
func (l *loop) next() (Value, error) {
	v, err := l.peek()
	if err != nil || v == nil {
		return nil, err
	}
	l.after = nil
	l.index0++
	l.before, l.current = l.current, v
	return v, nil
}

// count returns the number of elements. It reads a lazy source to its end.
func (l *loop) count() (int, error) {
	if l.length >= 0 {
		return l.length, nil
	}
	if n, ok := length(l.src); ok {
		l.length = n
		return n, nil
	}
	rest, err := l.st.drain(l.read)
	if err != nil {
		return 0, err
	}
	l.read = l.st.iterList(&List{rest})
	l.length = len(rest) + l.index0 + 1
	if l.after != nil {
		l.length++
	}
	return l.length, nil
}

// attr returns an attribute of the loop variable.
func (l *loop) attr(name string) (Value, bool, error) {
	fromEnd := func(i int) (Value, bool, error) {
		n, err := l.count()
		return Int(n - i), true, err
	}
	switch name {
	case "index":
		return Int(l.index0 + 1), true, nil
	case "index0":
		return Int(l.index0), true, nil
	case "first":
		return Bool(l.index0 == 0), true, nil
	case "last":
		v, err := l.peek()
		return Bool(v == nil), true, err
	case "length":
		return fromEnd(0)
	case "revindex":
		return fromEnd(l.index0)
	case "revindex0":
		return fromEnd(l.index0 + 1)
	case "depth":
		return Int(l.depth0 + 1), true, nil
	case "depth0":
		return Int(l.depth0), true, nil
	case "previtem":
		if l.index0 == 0 {
			return &undefined{msg: "there is no previous item"}, true, nil
		}
		return l.before, true, nil
	case "nextitem":
		v, err := l.peek()
		if v == nil {
			return &undefined{msg: "there is no next item"}, true, err
		}
		return v, true, err
	case "cycle":
		return method("cycle", l.cycle), true, nil
	case "changed":
		return method("changed", l.hasChanged), true, nil
	}
	return nil, false, nil
}

func (l *loop) cycle(_ *state, a *args) (Value, error) {
	if err := a.noNames("cycle"); err != nil {
		return nil, err
	}
	if len(a.pos) == 0 {
		return nil, typeErr("no items for cycling given")
	}
	return a.pos[l.index0%len(a.pos)], nil
}

func (l *loop) hasChanged(st *state, a *args) (Value, error) {
	if err := a.noNames("changed"); err != nil {
		return nil, err
	}
	now := &tuple{items: a.pos}
	if l.changed != nil {
		same, err := st.equal(l.changed, now)
		if err != nil || same {
			return Bool(false), err
		}
	}
	l.changed = now
	return Bool(true), nil
}

// call runs the body of a recursive loop for other elements.
func (l *loop) call(a *args) (Value, error) {
	v, err := a.bind("loop", 1, "iterable")
	if err != nil {
		return nil, err
	}
	if l.again == nil {
		return nil, typeErr("the loop must have the 'recursive' marker to be called recursively")
	}
	return l.again(v[0], l.depth0+1)
}

func (l *loop) repr() string {
	n, err := l.count()
	if err != nil {
		n = 0
	}
	return fmt.Sprintf("<LoopContext %d/%d>", l.index0+1, n)
}

func (s *forStmt) exec(st *state, sc *scope) (flow, error) {
	src, err := st.eval(s.iter, sc)
	if err != nil {
		return flowNext, err
	}
	if !s.recursive {
		return s.pass(st, sc, src, 0, nil)
	}
	var again func(v Value, depth int) (Value, error)
	again = func(v Value, depth int) (Value, error) {
		if err := st.enter(); err != nil {
			return nil, err
		}
		defer func() { st.depth-- }()
		return asValue(st.capture(func() error {
			_, err := s.pass(st, sc, v, depth, again)
			return err
		}))
	}
	text, err := again(src, 0)
	if err != nil {
		return flowNext, err
	}
	return flowNext, st.print(text.(*Str))
}

// asValue converts a string and an error to a Value and an error.
func asValue(s *Str, err error) (Value, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// pass runs the loop once over src.
func (s *forStmt) pass(st *state, sc *scope, src Value, depth int, again func(Value, int) (Value, error)) (flow, error) {
	read, err := st.iterate(src)
	if err != nil {
		return flowNext, err
	}
	if s.test != nil {
		read = s.filtered(st, sc, read)
		src = &iterValue{"generator", read}
	}
	l := &loop{st: st, src: src, read: read, index0: -1, length: -1, depth0: depth, again: again}
	done := false // set once a pass has run to its end; as in Jinja2, an interrupted pass does not count
	for {
		v, err := l.next()
		if err != nil {
			return flowNext, err
		}
		if v == nil {
			break
		}
		if err := st.charge(1); err != nil {
			return flowNext, err
		}
		inner := sc.child(s.undef...)
		if err := st.assign(s.target, v, inner); err != nil {
			return flowNext, err
		}
		inner.set("loop", l)
		f, err := st.run(s.body, inner)
		if err != nil {
			return flowNext, err
		}
		if f == flowBreak {
			break
		}
		done = done || f == flowNext
	}
	if !done && s.other != nil {
		return st.run(s.other, sc.child(s.otherUndef...))
	}
	return flowNext, nil
}

// filtered yields the elements that satisfy the loop's condition.
func (s *forStmt) filtered(st *state, sc *scope, read iterator) iterator {
	return func() (Value, bool, error) {
		for {
			v, ok, err := read()
			if err != nil || !ok {
				return nil, false, err
			}
			inner := sc.child()
			if err := st.assign(s.target, v, inner); err != nil {
				return nil, false, err
			}
			keep, err := st.eval(s.test, inner)
			if err != nil {
				return nil, false, err
			}
			if truth(keep) {
				return v, true, nil
			}
		}
	}
}
