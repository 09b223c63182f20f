package api

import (
	"strings"

	"godwit/app/api/wire"
)

// endpoints holds the routes by path and method, and the error forms by path
// and by path prefix.
type endpoints struct {
	all    []wire.Route
	routes map[string]map[string]wire.Route
	forms  map[string]func(*wire.Error) any
	below  map[string]func(*wire.Error) any
}

func newEndpoints(list []wire.Dialect) *endpoints {
	e := &endpoints{routes: map[string]map[string]wire.Route{}, forms: map[string]func(*wire.Error) any{}, below: map[string]func(*wire.Error) any{}}
	for _, d := range list {
		for _, r := range d.Routes {
			if r.Form == nil {
				r.Form = d.Form
			}
			if e.routes[r.Path] == nil {
				e.routes[r.Path], e.forms[r.Path] = map[string]wire.Route{}, r.Form
			}
			e.routes[r.Path][r.Method] = r
			e.all = append(e.all, r)
		}
		for _, path := range d.Below {
			e.below[path] = d.Form
		}
	}
	return e
}

// form returns the error form for a path: the form of its endpoint, or of the longest
// matching prefix.
func (e *endpoints) form(path string) func(*wire.Error) any {
	if f := e.forms[path]; f != nil {
		return f
	}
	form, length := (*wire.Error).Body, 0
	for prefix, f := range e.below {
		if len(prefix) > length && strings.HasPrefix(path, prefix) {
			form, length = f, len(prefix)
		}
	}
	return form
}
