package grammar

import "slices"

// member returns the schemas that the member with a name must satisfy.
func (s *schemaBuilder) member(f *flat, name string) (conj, error) {
	var c conj
	for _, r := range f.objects {
		known := false
		if p := r.v.at["properties"]; p != nil && p.at[name] != nil {
			c = append(c, r.sub("properties").sub(name))
			known = true
		}
		if p := r.v.at["patternProperties"]; p != nil {
			for _, pattern := range p.keys {
				d, err := s.pattern(r.path+"/patternProperties", pattern)
				if err != nil {
					return nil, err
				}
				if d.match(name) {
					c = append(c, r.sub("patternProperties").sub(pattern))
					known = true
				}
			}
		}
		if !known && r.v.at["additionalProperties"] != nil {
			c = append(c, r.sub("additionalProperties"))
		}
	}
	return c, nil
}

// shape describes the members of an alternative's objects.
type shape struct {
	names    []string // declared or required names, in order
	patterns []string
	open     bool // whether other names are allowed
}

func (f *flat) shape() shape {
	var sh shape
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	asked, banned := false, false
	for _, r := range f.objects {
		if p := r.v.at["properties"]; p != nil {
			for _, k := range p.keys {
				add(&sh.names, k)
			}
		}
		if p := r.v.at["patternProperties"]; p != nil {
			for _, k := range p.keys {
				add(&sh.patterns, k)
			}
		}
		if a := r.v.at["additionalProperties"]; a != nil {
			if a.kind == isBool && !a.yes {
				banned = true
			}
			asked = true
		}
	}
	sh.open = !banned && (asked || !f.sealed && len(sh.names) == 0 && len(sh.patterns) == 0)
	for _, k := range f.required {
		add(&sh.names, k)
	}
	return sh
}

// object returns the expression for the objects of f.
func (s *schemaBuilder) object(f *flat) (*expr, error) {
	sh := f.shape()
	var parts []part
	var taken []string
	have := map[string]bool{}
	add := func(name string, must bool) (bool, error) {
		if have[name] {
			return true, nil
		}
		have[name] = true
		taken = append(taken, quoted(name))
		e, err := s.pair(f, name)
		if err != nil || e == nil {
			return false, err
		}
		parts = append(parts, part{seq(lit(quoted(name)), colon, e), must})
		return true, nil
	}
	for _, name := range sh.names {
		must := slices.Contains(f.required, name)
		ok, err := add(name, must)
		if err != nil {
			return nil, err
		}
		if !ok && must {
			f.why = "required member " + quoted(name) + " cannot be"
			return nil, nil
		}
	}
	kinds, words, err := s.keyKinds(f, sh)
	if err != nil {
		return nil, err
	}
	for _, name := range words {
		if _, err := add(name, false); err != nil {
			return nil, err
		}
	}
	lo, hi := f.minProps, f.maxProps
	if hi > len(parts) && len(kinds) == 0 {
		hi = -1
	}
	if hi >= 0 && lo > hi || len(kinds) == 0 && lo > len(parts) || hi >= 0 && len(f.required) > hi {
		f.why = "no member count is possible"
		return nil, nil
	}
	e, err := s.sequence(f.path, "{", "}", parts, kinds, lo, hi)
	if err != nil {
		return nil, err
	}
	if len(kinds) == 0 {
		return e, nil
	}
	id, err := s.b.add(rule{name: s.name + " " + f.path + " members", body: e, taken: taken})
	if err != nil {
		return nil, fault(f.path, "%v", err)
	}
	return ref(id), nil
}

// pair returns the expression for the value of a member, or nil if no value is
// possible.
func (s *schemaBuilder) pair(f *flat, name string) (*expr, error) {
	if ok, err := s.valid(&value{kind: isText, text: name}, f.names); err != nil || !ok {
		return nil, err
	}
	c, err := s.member(f, name)
	if err != nil {
		return nil, err
	}
	if ok, err := s.possible(c); err != nil || !ok {
		return nil, err
	}
	return s.emit(c)
}

// maxWords is the maximum number of names of a pattern for which the names are
// listed like declared ones.
const maxWords = 64

// keyKinds returns expressions for the members whose names are not declared. One
// expression is for the names that match a pattern, and one for all other names. If
// these are few, they are returned as words instead.
func (s *schemaBuilder) keyKinds(f *flat, sh shape) (kinds []*expr, words []string, err error) {
	at := f.path + "/patternProperties"
	names, err := s.nameDFA(f)
	if err != nil {
		return nil, nil, err
	}
	all := make([]*dfa, len(sh.patterns))
	for i, p := range sh.patterns {
		if all[i], err = s.pattern(at, p); err != nil {
			return nil, nil, err
		}
	}
	for i, p := range sh.patterns {
		d := all[i]
		for j, other := range all {
			if j != i && err == nil {
				d, err = d.without(other, &s.steps)
			}
		}
		if names != nil && err == nil {
			d, err = d.intersect(names, &s.steps)
		}
		if err != nil {
			return nil, nil, fault(at, "%q: %v", p, err)
		}
		if list := d.words(maxWords); list != nil {
			words = append(words, list...)
			continue
		}
		if kinds, err = s.kind(kinds, f, d, f.patterned(p)); err != nil {
			return nil, nil, err
		}
	}
	if !sh.open {
		return kinds, words, nil
	}
	c := f.patterned("")
	if len(all) == 0 && names == nil {
		kinds, err = s.kind(kinds, f, nil, c)
		return kinds, words, err
	}
	d := names
	if d == nil {
		if d, err = ofLength(0, -1, &s.steps); err != nil {
			return nil, nil, err
		}
	}
	for _, other := range all {
		if d, err = d.without(other, &s.steps); err != nil {
			return nil, nil, fault(at, "%v", err)
		}
	}
	if list := d.words(maxWords); list != nil {
		return kinds, append(words, list...), nil
	}
	kinds, err = s.kind(kinds, f, d, c)
	return kinds, words, err
}

// kind appends an expression for the members with names that d matches, or with any
// name if d is nil.
func (s *schemaBuilder) kind(kinds []*expr, f *flat, d *dfa, c conj) ([]*expr, error) {
	ok, err := s.possible(c)
	if err != nil || !ok {
		return kinds, err
	}
	e, err := s.emit(c)
	if err != nil {
		return nil, err
	}
	key := s.b.jsonRules().key
	if d != nil {
		body := seq(quote, d.expr(func(set []span) *expr { return inText(set, true) }), quote)
		if key, err = s.b.add(rule{name: s.name + " " + f.path + " key", body: body, key: true}); err != nil {
			return nil, fault(f.path, "%v", err)
		}
	}
	return append(kinds, seq(ref(key), colon, e)), nil
}

// patterned returns the schemas for an undeclared member whose name matches only
// the given pattern, or no pattern if it is "".
func (f *flat) patterned(pattern string) conj {
	var c conj
	for _, r := range f.objects {
		p := r.v.at["patternProperties"]
		switch {
		case pattern != "" && p != nil && p.at[pattern] != nil:
			c = append(c, r.sub("patternProperties").sub(pattern))
		case r.v.at["additionalProperties"] != nil:
			c = append(c, r.sub("additionalProperties"))
		}
	}
	return c
}

// nameDFA returns a dfa for the names that propertyNames allows, or nil if it allows
// all names.
func (s *schemaBuilder) nameDFA(f *flat) (*dfa, error) {
	if len(f.names) == 0 {
		return nil, nil
	}
	flats, err := s.flatten(f.names)
	if err != nil {
		return nil, err
	}
	var alts []*expr
	var out *dfa
	for _, g := range flats {
		switch {
		case g.types&tText == 0:
		case g.fixed:
			for _, v := range g.enum {
				if v.kind == isText {
					alts = append(alts, lit(v.text))
				}
			}
		default:
			d, err := s.textDFA(g)
			if err != nil {
				return nil, err
			}
			if out != nil {
				return nil, s.lack(f.path+"/propertyNames", "only one alternative is supported")
			}
			out = d
		}
	}
	if out == nil {
		return newDFA(alt(alts...), &s.steps)
	}
	if len(alts) > 0 {
		return nil, s.lack(f.path+"/propertyNames", "only one alternative is supported")
	}
	return out, nil
}
