package grammar

import (
	"slices"
	"unicode/utf8"
)

// valid reports whether a value satisfies all of c.
func (s *schemaBuilder) valid(v *value, c conj) (bool, error) {
	flats, err := s.flatten(c)
	if err != nil {
		return false, err
	}
	matched := map[*value]int{} // chosen alternative of each oneOf
	any := false
	for _, f := range flats {
		ok, err := s.fits(v, f)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		any = true
		for _, ch := range f.chosen {
			if i, seen := matched[ch.group.v]; seen && i != ch.i {
				return false, nil
			}
			matched[ch.group.v] = ch.i
		}
	}
	return any, nil
}

// fits reports whether a value satisfies one alternative.
func (s *schemaBuilder) fits(v *value, f *flat) (bool, error) {
	if err := s.spend(f.path, 16); err != nil {
		return false, err
	}
	if f.fixed && !f.keys[v.key()] {
		return false, nil
	}
	switch v.kind {
	case isNull:
		return f.types&tNull != 0, nil
	case isBool:
		return f.types&tBool != 0, nil
	case isNumber:
		t := tNumber
		if v.num.IsInt() {
			t = tWhole
		}
		n := f.num
		return f.types&t != 0 && n.has(v.num), nil
	case isText:
		if f.types&tText == 0 {
			return false, nil
		}
		n := utf8.RuneCountInString(v.text)
		if n < f.min || f.max >= 0 && n > f.max {
			return false, nil
		}
		for _, p := range f.regexes() {
			d, err := s.pattern(f.path, p)
			if err != nil || !d.match(v.text) {
				return false, err
			}
		}
		return true, nil
	case isArray:
		return s.fitsArray(v, f)
	}
	return s.fitsObject(v, f)
}

func (s *schemaBuilder) fitsArray(v *value, f *flat) (bool, error) {
	n := len(v.items)
	if f.types&tArray == 0 || n < f.minItems || f.maxItems >= 0 && n > f.maxItems {
		return false, nil
	}
	seen := map[string]bool{}
	for i, item := range v.items {
		if k := item.key(); f.unique && seen[k] {
			return false, nil
		} else {
			seen[k] = true
		}
		if ok, err := s.valid(item, f.element(i)); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (s *schemaBuilder) fitsObject(v *value, f *flat) (bool, error) {
	n := len(v.keys)
	if f.types&tObject == 0 || n < f.minProps || f.maxProps >= 0 && n > f.maxProps {
		return false, nil
	}
	for _, k := range f.required {
		if v.at[k] == nil {
			return false, nil
		}
	}
	for _, k := range v.keys {
		if ok, err := s.valid(&value{kind: isText, text: k}, f.names); err != nil || !ok {
			return false, err
		}
		c, err := s.member(f, k)
		if err != nil {
			return false, err
		}
		if ok, err := s.valid(v.at[k], c); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// meets reports whether a document generated for f may satisfy all of c. If the
// answer is too hard to compute, it returns true.
func (s *schemaBuilder) meets(f *flat, c conj, depth int) (bool, error) {
	flats, err := s.flatten(c)
	if err != nil {
		return false, err
	}
	for _, g := range flats {
		if ok, err := s.overlap(f, g, depth); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

const maxOverlap = 6 // maximum number of nested levels that meets examines

func (s *schemaBuilder) overlap(f, g *flat, depth int) (bool, error) {
	if depth > maxOverlap {
		return true, nil
	}
	for _, side := range [][2]*flat{{f, g}, {g, f}} {
		if !side[0].fixed {
			continue
		}
		for _, v := range side[0].enum {
			a, err := s.fits(v, side[0])
			if err != nil {
				return false, err
			}
			b, err := s.fits(v, side[1])
			if err != nil || a && b {
				return a && b, err
			}
		}
		return false, nil
	}
	for t := tNull; t <= tObject; t <<= 1 {
		if f.made()&g.types&t == 0 {
			continue
		}
		ok, err := true, error(nil)
		switch t {
		case tWhole, tNumber:
			ok = !f.num.apart(&g.num)
		case tText:
			ok = s.overlapText(f, g)
		case tArray:
			ok, err = s.overlapArray(f, g, depth)
		case tObject:
			ok, err = s.overlapObject(f, g, depth)
		}
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (s *schemaBuilder) overlapText(f, g *flat) bool {
	if f.max >= 0 && f.max < g.min || g.max >= 0 && g.max < f.min {
		return false
	}
	if len(f.regexes()) == 0 || len(g.regexes()) == 0 {
		return true
	}
	a, err := s.textDFA(f)
	if err != nil {
		return true
	}
	b, err := s.textDFA(g)
	if err != nil {
		return true
	}
	both, err := a.intersect(b, &s.steps)
	return err != nil || !both.empty()
}

func (s *schemaBuilder) overlapArray(f, g *flat, depth int) (bool, error) {
	if f.maxItems >= 0 && f.maxItems < g.minItems || g.maxItems >= 0 && g.maxItems < f.minItems {
		return false, nil
	}
	for i := range min(f.minItems, 8) { // items that are always present
		if ok, err := s.meetAny(f.element(i), g.element(i), depth); err != nil || !ok {
			return ok, err
		}
	}
	return true, nil
}

func (s *schemaBuilder) overlapObject(f, g *flat, depth int) (bool, error) {
	sh := f.shape()
	for _, k := range g.required {
		if !sh.open && len(sh.patterns) == 0 && !slices.Contains(sh.names, k) {
			return false, nil
		}
	}
	for _, k := range f.required { // members that are always present
		a, err := s.member(f, k)
		if err != nil {
			return false, err
		}
		b, err := s.member(g, k)
		if err != nil {
			return false, err
		}
		if ok, err := s.meetAny(a, b, depth); err != nil || !ok {
			return ok, err
		}
	}
	return true, nil
}

func (s *schemaBuilder) meetAny(a, b conj, depth int) (bool, error) {
	flats, err := s.flatten(a)
	if err != nil {
		return false, err
	}
	for _, f := range flats {
		if ok, err := s.meets(f, b, depth+1); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
