package kv

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknown is the class of errors about unknown cache type names.
var ErrUnknown = errors.New("kv: unknown cache type")

// registry holds every named type in the order of registration; init fills it.
var registry []*Type

// register adds types at init. It panics on a duplicate name or alias.
func register(types ...*Type) {
	for _, t := range types {
		for _, name := range append([]string{t.Name}, t.Aliases...) {
			if find(name) != nil {
				panic("kv: type " + name + " is registered twice")
			}
		}
		registry = append(registry, t)
	}
}

func find(name string) *Type {
	for _, t := range registry {
		if t.Name == name || slices.Contains(t.Aliases, name) {
			return t
		}
	}
	return nil
}

// named is find for names in this module, which always exist.
func named(name string) *Type {
	t := find(name)
	if t == nil {
		panic("kv: unknown type " + name)
	}
	return t
}

// Types returns the offered cache types, by group and then by size, largest first.
func Types() []*Type {
	groups := []string{Safe, Balanced, Small, Experimental}
	var types []*Type
	for _, t := range registry {
		if slices.Contains(groups, t.Group) && t.Retired == "" {
			types = append(types, t)
		}
	}
	slices.SortStableFunc(types, func(a, b *Type) int {
		return cmp.Or(
			cmp.Compare(slices.Index(groups, a.Group), slices.Index(groups, b.Group)),
			cmp.Compare(b.NominalBits(), a.NominalBits()),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return types
}

// Forms returns every named encoding that ParseForm accepts, including the
// explicit forms of shorthands.
func Forms() []*Type {
	var forms []*Type
	for _, t := range registry {
		if t.Heads.By == nil {
			forms = append(forms, t)
		}
	}
	return forms
}

// Names returns the names of Types.
func Names() []string {
	var names []string
	for _, t := range Types() {
		names = append(names, t.Name)
	}
	return names
}

// Parse returns the cache type with a name or alias, in any case. For an unknown
// name it returns ErrUnknown with a list of the accepted names.
func Parse(name string) (*Type, error) {
	key := strings.ToLower(strings.TrimSpace(name))
	if why, ok := removed[key]; ok {
		return nil, fmt.Errorf("%w %q: %s", ErrUnknown, name, why)
	}
	t := find(key)
	switch {
	case t == nil:
		return nil, fmt.Errorf("%w %q; choose one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	case t.Retired != "":
		return nil, fmt.Errorf("%w %q: %s", ErrUnknown, name, t.Retired)
	}
	return t, nil
}

// ParseForm returns a named encoding, without mapping or policy, for kv encode and
// kv decode. For shorthands, which are resolved by head size, it returns ErrUnknown
// with a list of their forms.
func ParseForm(name string) (*Type, error) {
	key := strings.ToLower(strings.TrimSpace(name))
	if why, ok := removed[key]; ok {
		return nil, fmt.Errorf("%w %q: %s", ErrUnknown, name, why)
	}
	t := find(key)
	switch {
	case t == nil:
		var names []string
		for _, f := range Forms() {
			names = append(names, f.Name)
		}
		return nil, fmt.Errorf("%w %q; forms are %s", ErrUnknown, name, strings.Join(names, ", "))
	case t.Heads.By != nil:
		return nil, fmt.Errorf("%w %q: it stands for one of %s, by head size; name the form", ErrUnknown, name, strings.Join(t.forms(), ", "))
	}
	return t, nil
}

// forms lists the names that a shorthand may stand for.
func (t *Type) forms() []string {
	var names []string
	for _, pair := range t.Heads.By {
		for _, n := range pair {
			if n != "" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	slices.Sort(names)
	return names
}
