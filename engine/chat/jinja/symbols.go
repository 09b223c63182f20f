package jinja

import (
	"maps"
	"slices"
)

// When Jinja2 compiles a template, it decides for each name of each scope where its
// value comes from. A lookup outwards at run time nearly always gives the same
// value. The exception is a name that a scope writes before it reads it and that no
// enclosing scope mentions. Such a name is undefined until it is written, even if
// the caller passed a variable of that name. This file finds these names.

// origin is where the value of a scope's name comes from before the scope
// writes it.
type origin uint8

const (
	fromOutside origin = iota // the value comes from an enclosing scope, or else from the template's variables
	fromNowhere               // the name is undefined
	fromCall                  // the value comes from a parameter or a loop variable
)

// symbols holds the names of one scope.
type symbols struct {
	parent *symbols
	refs   map[string]origin
	stores map[string]bool
}

func newSymbols(parent *symbols) *symbols {
	return &symbols{parent, map[string]origin{}, map[string]bool{}}
}

func (s *symbols) known(name string) bool {
	for ; s != nil; s = s.parent {
		if _, ok := s.refs[name]; ok {
			return true
		}
	}
	return false
}

func (s *symbols) load(name string) {
	if !s.known(name) {
		s.refs[name] = fromOutside
	}
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if _, ok := s.refs[name]; ok {
		return
	}
	s.refs[name] = fromNowhere
	if s.parent.known(name) {
		s.refs[name] = fromOutside
	}
}

func (s *symbols) param(name string) {
	s.stores[name] = true
	s.refs[name] = fromCall
}

// branches visits alternatives, of which at most one runs. If only some of them
// write a name, its earlier value comes from outside.
func (s *symbols) branches(visits ...func(*symbols)) {
	before := maps.Clone(s.stores)
	var copies []*symbols
	for _, visit := range visits {
		c := &symbols{s.parent, maps.Clone(s.refs), maps.Clone(s.stores)}
		visit(c)
		copies = append(copies, c)
	}
	for _, c := range copies {
		maps.Copy(s.refs, c.refs)
		maps.Copy(s.stores, c.stores)
	}
	for name := range s.stores {
		if !before[name] {
			s.refs[name] = fromOutside
		}
	}
}

// undefs returns the names that are undefined until the scope writes them.
func (s *symbols) undefs() []string {
	var out []string
	for name, o := range s.refs {
		if o == fromNowhere {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// stmts records the names used by statements that belong to this scope.
func (s *symbols) stmts(body []stmt) {
	for _, x := range body {
		s.stmt(x)
	}
}

func (s *symbols) stmt(x stmt) {
	switch x := x.(type) {
	case *printStmt:
		s.exprs(x.x)
	case *doStmt:
		s.exprs(x.x)
	case *ifStmt:
		s.ifFrom(x, 0)
	case *forStmt:
		s.exprs(x.iter)
	case *setStmt:
		s.exprs(x.x)
		s.target(x.target, false)
	case *setBlockStmt:
		s.target(x.target, false)
	case *filterStmt:
		s.exprs(x.filter)
	case *withStmt:
		s.exprs(x.values...)
	case *macroStmt:
		s.store(x.def.name)
	case *callStmt:
		s.exprs(x.call)
	}
}

// ifFrom visits test i of an if block, its body, and then the remaining tests.
func (s *symbols) ifFrom(x *ifStmt, i int) {
	s.exprs(x.tests[i])
	rest := func(c *symbols) {
		if i+1 < len(x.tests) {
			c.ifFrom(x, i+1)
		}
	}
	other := func(c *symbols) {
		if i == 0 {
			c.stmts(x.other)
		}
	}
	s.branches(func(c *symbols) { c.stmts(x.bodies[i]) }, rest, other)
}

func (s *symbols) target(t target, param bool) {
	for _, part := range t.tuple {
		s.target(part, param)
	}
	switch {
	case t.attr != "":
		s.load(t.name)
	case t.name != "" && param:
		s.param(t.name)
	case t.name != "":
		s.store(t.name)
	}
}

// exprs records the names that expressions read.
func (s *symbols) exprs(xs ...expr) {
	for _, x := range xs {
		switch x := x.(type) {
		case *nameExpr:
			s.load(x.name)
		case *listExpr:
			s.exprs(x.items...)
		case *tupleExpr:
			s.exprs(x.items...)
		case *dictExpr:
			s.exprs(x.keys...)
			s.exprs(x.vals...)
		case *attrExpr:
			s.exprs(x.obj)
		case *itemExpr:
			s.exprs(x.obj, x.index)
		case *sliceExpr:
			s.exprs(x.obj, x.lo, x.hi, x.step)
		case *callExpr:
			s.exprs(x.fn)
			s.args(&x.args)
		case *filterExpr:
			s.exprs(x.obj)
			s.args(&x.args)
		case *testExpr:
			s.exprs(x.obj)
			s.args(&x.args)
		case *notExpr:
			s.exprs(x.x)
		case *signExpr:
			s.exprs(x.x)
		case *andExpr:
			s.exprs(x.x, x.y)
		case *orExpr:
			s.exprs(x.x, x.y)
		case *concatExpr:
			s.exprs(x.items...)
		case *binExpr:
			s.exprs(x.x, x.y)
		case *compareExpr:
			s.exprs(x.first)
			s.exprs(x.rest...)
		case *condExpr:
			s.exprs(x.test, x.yes, x.no)
		}
	}
}

func (s *symbols) args(a *callArgs) {
	s.exprs(a.pos...)
	s.exprs(a.kw...)
	s.exprs(a.dynPos, a.dynNamed)
}

// scopes records the undefined names in every scope that a statement of body opens.
func (s *symbols) scopes(body []stmt) {
	for _, x := range body {
		switch x := x.(type) {
		case *ifStmt:
			for _, b := range x.bodies {
				s.scopes(b)
			}
			s.scopes(x.other)
		case *forStmt:
			x.undef = s.scope(x.body, func(c *symbols) {
				c.target(x.target, true)
				c.param("loop")
			})
			x.otherUndef = s.scope(x.other, nil)
		case *setBlockStmt:
			x.undef = s.scope(x.body, nil)
		case *filterStmt:
			x.undef = s.scope(x.body, nil)
		case *withStmt:
			x.undef = s.scope(x.body, func(c *symbols) {
				for _, t := range x.targets {
					c.target(t, true)
				}
			})
		case *scopeStmt:
			var none *symbols
			x.undef = none.scope(x.body, nil)
		case *macroStmt:
			s.function(x.def)
		case *callStmt:
			s.function(x.def)
		case *generationStmt:
			s.function(x.def)
		}
	}
}

func (s *symbols) function(def *macroDef) {
	def.undef = s.scope(def.body, func(c *symbols) {
		for _, name := range def.params {
			c.param(name)
		}
		c.exprs(def.defaults...)
		for _, name := range []string{"caller", "kwargs", "varargs"} {
			c.param(name)
		}
	})
}

// scope analyses a scope inside s and returns its undefined names.
func (s *symbols) scope(body []stmt, params func(*symbols)) []string {
	inner := newSymbols(s)
	if params != nil {
		params(inner)
	}
	inner.stmts(body)
	inner.scopes(body)
	return inner.undefs()
}
