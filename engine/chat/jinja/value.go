package jinja

import (
	"fmt"
	"math/big"
)

// Value is a value that a template computes with: a NoneType, Bool, Int, Float,
// *Str, *List or *Dict, or a value that only the interpreter makes.
type Value interface {
	// pyType is the type's name in Python, as its error messages print it.
	pyType() string
}

// NoneType is the type of None, JSON's null.
type NoneType struct{}

// None is Python's None.
var None = NoneType{}

// Bool is a boolean. In arithmetic it is the number 0 or 1.
type Bool bool

// Int is a 64-bit integer. Larger integers are *bigInt.
type Int int64

// Float is a float64.
type Float float64

// bigInt is an integer that does not fit Int.
type bigInt struct{ v *big.Int }

// List is a list. Templates may append to it.
type List struct{ items []Value }

// tuple is an immutable list. If names is set, it holds the attribute names of
// the elements.
type tuple struct {
	items []Value
	names []string
}

// undefined is the value of a name, key or attribute that does not exist.
type undefined struct {
	msg    string
	unsafe bool // whether using the value is a security error
}

// rangeValue is range(start, stop, step).
type rangeValue struct{ start, stop, step, n int }

// dictView is the result of a mapping's keys, values or items method.
type dictView struct {
	kind string // "keys", "values" or "items"
	d    *Dict
}

// iterValue is a lazy sequence that can be read once.
type iterValue struct {
	name string // "generator", "list_reverseiterator" …
	iter iterator
}

// namespace is an object whose attributes are written by `set ns.x = …`.
type namespace struct{ attrs *Dict }

// function is a global function, a method bound to its value, or a special
// function.
type function struct {
	name string
	kind string // "function" or "method", as it is printed
	call func(st *state, a *args) (Value, error)
	attr map[string]Value
}

// iterator yields the elements of a value. ok is false after the last one.
type iterator func() (v Value, ok bool, err error)

func (NoneType) pyType() string     { return "NoneType" }
func (Bool) pyType() string         { return "bool" }
func (Int) pyType() string          { return "int" }
func (*bigInt) pyType() string      { return "int" }
func (Float) pyType() string        { return "float" }
func (s *Str) pyType() string       { return strType(s) }
func (*List) pyType() string        { return "list" }
func (*tuple) pyType() string       { return "tuple" }
func (*Dict) pyType() string        { return "dict" }
func (*undefined) pyType() string   { return "Undefined" }
func (*rangeValue) pyType() string  { return "range" }
func (v *dictView) pyType() string  { return "dict_" + v.kind }
func (v *iterValue) pyType() string { return v.name }
func (*namespace) pyType() string   { return "Namespace" }
func (*function) pyType() string    { return "function" }

func strType(s *Str) string {
	if s.safe {
		return "Markup"
	}
	return "str"
}

// NewList returns a list of the given elements.
func NewList(items ...Value) *List { return &List{items: items} }

// Len returns the number of elements.
func (l *List) Len() int { return len(l.items) }

// At returns element i.
func (l *List) At(i int) Value { return l.items[i] }

// Append adds an element.
func (l *List) Append(v Value) { l.items = append(l.items, v) }

// use returns the error for an operation on an undefined value other than printing
// it, looping over it or testing it.
func (u *undefined) use() error {
	if u.unsafe {
		return fail(ErrSecurity, "%s", u.msg)
	}
	return fail(ErrUndefined, "%s", u.msg)
}

func undefinedName(name string) *undefined {
	return &undefined{msg: fmt.Sprintf("'%s' is undefined", name)}
}

// describe names a value's type as Jinja2 does in messages about missing
// attributes.
func describe(v Value) string {
	switch v.(type) {
	case NoneType:
		return "None"
	case *namespace:
		return "jinja2.utils.Namespace object"
	case *loop:
		return "jinja2.runtime.LoopContext object"
	case *macro:
		return "jinja2.runtime.Macro object"
	}
	return v.pyType() + " object"
}

// sequence returns the elements of a list or tuple.
func sequence(v Value) ([]Value, bool) {
	switch v := v.(type) {
	case *List:
		return v.items, true
	case *tuple:
		return v.items, true
	}
	return nil, false
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case NoneType, *undefined:
		return false
	case Bool:
		return bool(v)
	case Int:
		return v != 0
	case Float:
		return v != 0
	case *Str:
		return v.s != ""
	case *rangeValue:
		return v.n > 0
	case *loop:
		return v.truth()
	}
	if n, ok := length(v); ok {
		return n > 0
	}
	return true
}

// length is Python's len(v) for values whose length is known without reading their
// elements. The length of a loop is not.
func length(v Value) (int, bool) {
	switch v := v.(type) {
	case *Str:
		return v.count(), true
	case *List:
		return len(v.items), true
	case *tuple:
		return len(v.items), true
	case *Dict:
		return v.Len(), true
	case *dictView:
		return v.d.Len(), true
	case *rangeValue:
		return v.n, true
	case *undefined:
		return 0, true
	}
	return 0, false
}

func isString(v Value) bool {
	_, ok := v.(*Str)
	return ok
}

func isNone(v Value) bool {
	_, ok := v.(NoneType)
	return ok
}

func isUndefined(v Value) bool {
	_, ok := v.(*undefined)
	return ok
}
