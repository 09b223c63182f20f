package pool

import (
	"slices"
	"strings"

	"godwit/app/hub"
)

// Find returns the model for the name in a request. A server with a single model
// returns that model for every name.
func (p *Pool) Find(name string) (hub.Model, error) {
	if p.fixed != nil {
		return p.fixed.info, nil
	}
	if name == "" {
		return p.unnamed()
	}
	return p.Named(name)
}

// Named returns the model with the given name. Case, tag and quantisation are ignored,
// but no other differences.
func (p *Pool) Named(name string) (hub.Model, error) {
	list, err := p.list()
	if err != nil {
		return hub.Model{}, err
	}
	return lookup(list, name)
}

// Only reports whether the pool serves a single model under every name.
func (p *Pool) Only() bool { return p.fixed != nil }

// lookup finds a model by name. It does not accept paths, so that clients of the
// API cannot reach files outside of the library.
func lookup(list []hub.Model, name string) (hub.Model, error) {
	bare := strings.TrimSuffix(name, ":latest")
	for _, ok := range []func(m *hub.Model) bool{
		func(m *hub.Model) bool { return m.Name == name },
		func(m *hub.Model) bool { return strings.EqualFold(m.Name, bare) },
		func(m *hub.Model) bool { return m.Ref != "" && strings.EqualFold(m.Ref, bare) },
		func(m *hub.Model) bool {
			repo, _, ok := strings.Cut(m.Ref, ":")
			return ok && strings.EqualFold(repo, bare)
		},
	} {
		for i := range list {
			if ok(&list[i]) && list[i].Error == "" {
				return list[i], nil
			}
		}
	}
	return hub.Model{}, &MissingError{name}
}

// unnamed returns the model for requests without a name: the model that was
// used last, or otherwise the only one in the library.
func (p *Pool) unnamed() (hub.Model, error) {
	p.mu.Lock()
	var last *entry
	for _, e := range p.entries {
		if e.state == Loaded && (last == nil || e.users > 0 || last.users == 0 && e.used.After(last.used)) {
			last = e
		}
	}
	p.mu.Unlock()
	if last != nil {
		return last.info, nil
	}
	list, err := p.list()
	if err != nil {
		return hub.Model{}, err
	}
	if len(list) == 1 {
		return list[0], nil
	}
	var names []string
	for _, m := range list[:min(len(list), 8)] {
		names = append(names, m.Name)
	}
	if len(list) > len(names) {
		names = append(names, "...")
	}
	return hub.Model{}, &UnnamedError{names}
}

// list returns the models that requests can name.
func (p *Pool) list() ([]hub.Model, error) {
	if p.fixed != nil {
		return []hub.Model{p.fixed.info}, nil
	}
	if p.library == nil {
		return nil, nil
	}
	all, err := p.library.List()
	return slices.DeleteFunc(all, func(m hub.Model) bool { return m.Error != "" }), err
}
