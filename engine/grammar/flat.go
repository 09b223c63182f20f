package grammar

import (
	"fmt"
	"math/big"
	"slices"
)

// typeSet is a set of JSON types. number includes whole numbers.
type typeSet uint8

const (
	tNull typeSet = 1 << iota
	tBool
	tWhole
	tNumber
	tText
	tArray
	tObject

	everyType = tNull | tBool | tWhole | tNumber | tText | tArray | tObject
)

var typeNames = map[string]typeSet{
	"null": tNull, "boolean": tBool, "integer": tWhole, "number": tWhole | tNumber, "string": tText, "array": tArray, "object": tObject,
}

// flat is one alternative of a schema, with references and combinations resolved.
// All its restrictions apply at once.
type flat struct {
	path  string
	why   string  // reason why no document matches; empty if some document may match
	types typeSet // allowed types
	typed bool    // whether a "type" keyword restricted the types
	hints typeSet // types that the other keywords apply to
	enum  []*value
	keys  map[string]bool // keys of the values in enum
	fixed bool            // whether enum restricts the values
	all   conj            // schemas that the alternative was built from; used to validate values

	num      numbers
	min, max int // bounds of a string's length; max is -1 for no limit
	patterns []string
	formats  []string

	lists              []raw // schemas with items or prefixItems
	minItems, maxItems int
	unique             bool
	sealedItems        bool

	objects            []raw // schemas with properties, additionalProperties or patternProperties
	required           []string
	names              conj
	minProps, maxProps int
	sealed             bool

	chosen []choice // chosen alternative of each oneOf
}

type choice struct {
	group raw // schema of the oneOf keyword
	i     int
}

func (f *flat) clone() *flat {
	g := *f
	g.all = slices.Clone(f.all)
	g.patterns, g.formats = slices.Clone(f.patterns), slices.Clone(f.formats)
	g.lists, g.objects = slices.Clone(f.lists), slices.Clone(f.objects)
	g.required, g.names = slices.Clone(f.required), slices.Clone(f.names)
	g.chosen = slices.Clone(f.chosen)
	return &g
}

// flatten returns the alternatives of c, or none if no document is valid. The
// caller must not change them.
func (s *schemaBuilder) flatten(c conj) ([]*flat, error) {
	if len(c) == 1 {
		if flats, ok := s.flats[c[0].v]; ok {
			return flats, nil
		}
	}
	start := &flat{types: everyType, max: -1, maxItems: -1, maxProps: -1}
	if len(c) > 0 {
		start.path = c[0].path
	}
	flats := []*flat{start}
	lone := s.lone
	s.lone = len(c) == 1
	defer func() { s.lone = lone }()
	var err error
	for _, r := range c {
		if flats, err = s.apply(flats, r, 0); err != nil {
			return nil, err
		}
	}
	flats = slices.DeleteFunc(flats, (*flat).impossible)
	if len(c) == 1 {
		s.flats[c[0].v] = flats
	}
	return flats, nil
}

// impossible reports whether the types and the enum alone allow no value.
func (f *flat) impossible() bool {
	return f.types == 0 || f.fixed && len(f.enum) == 0
}

// apply restricts each alternative by a schema, except alternatives that the schema
// already restricts.
func (s *schemaBuilder) apply(flats []*flat, r raw, depth int) ([]*flat, error) {
	if err := s.spend(r.path, 32*max(1, len(flats))); err != nil {
		return nil, err
	}
	if s.open[r.v] || depth > maxRefs {
		return nil, fault(r.path, "refers to itself, or nests deeper than %d", maxRefs)
	}
	switch {
	case r.v.kind == isBool && r.v.yes:
		return flats, nil
	case r.v.kind == isBool:
		return nil, nil
	case r.v.kind != isObject:
		return nil, fault(r.path, "want a schema, got %s", kindNames[r.v.kind])
	}
	for _, k := range unsupported {
		if r.v.at[k] != nil {
			if err := s.lack(r.path+"/"+k, "%s is not supported", k); err != nil {
				return nil, err
			}
		}
	}
	var done, left []*flat
	for _, f := range flats {
		if slices.ContainsFunc(f.all, func(o raw) bool { return o.v == r.v }) {
			done = append(done, f)
		} else {
			f.all = append(f.all, r)
			left = append(left, f)
		}
	}
	if len(left) == 0 && len(done) > 0 {
		return done, nil
	}
	s.open[r.v] = true
	left, err := s.parts(left, r, depth)
	delete(s.open, r.v)
	return append(done, left...), err
}

// parts applies the keywords and subschemas of r.
func (s *schemaBuilder) parts(flats []*flat, r raw, depth int) ([]*flat, error) {
	if r.v.at["$ref"] != nil {
		to, err := s.doc.resolve(r)
		if err != nil {
			return nil, err
		}
		if flats, err = s.apply(flats, to, depth+1); err != nil {
			return nil, err
		}
	}
	s.outer = depth == 0 && s.lone
	for _, f := range flats {
		if err := s.keywords(f, r); err != nil {
			return nil, err
		}
	}
	flats = slices.DeleteFunc(flats, (*flat).impossible)
	var err error
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		if r.v.at[k] == nil {
			continue
		}
		if flats, err = s.combine(flats, r.sub(k), k, depth+1); err != nil {
			return nil, err
		}
	}
	return flats, nil
}

// combine applies allOf, anyOf or oneOf.
func (s *schemaBuilder) combine(flats []*flat, group raw, k string, depth int) ([]*flat, error) {
	if group.v.kind != isArray || len(group.v.items) == 0 {
		return nil, fault(group.path, "want a list of schemas")
	}
	var err error
	if k == "allOf" {
		for i := range group.v.items {
			if flats, err = s.apply(flats, group.item(i), depth); err != nil {
				return nil, err
			}
		}
		return flats, nil
	}
	var out []*flat
	for i := range group.v.items {
		var copies []*flat
		for _, f := range flats {
			g := f.clone()
			if k == "oneOf" {
				g.chosen = append(g.chosen, choice{group, i})
			}
			copies = append(copies, g)
		}
		if copies, err = s.apply(copies, group.item(i), depth); err != nil {
			return nil, err
		}
		if out = append(out, copies...); len(out) > maxBranches {
			return flats, s.lack(group.path, "more than %d combinations", maxBranches)
		}
	}
	return out, nil
}

// keywords applies r's own keywords.
func (s *schemaBuilder) keywords(f *flat, r raw) error {
	for _, k := range r.v.keys {
		at := r.sub(k)
		var err error
		switch k {
		case "type":
			err = f.setType(at, r.v.at["nullable"])
		case "enum":
			if at.v.kind != isArray {
				return fault(at.path, "want a list of values")
			}
			f.allow(at.v.items)
		case "const":
			f.allow([]*value{at.v})
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
			f.hints |= tNumber | tWhole
			err = f.number(k, at, r.v)
		case "minLength", "maxLength", "pattern", "format":
			err = s.string(f, k, at)
		case "contentEncoding": // contentMediaType and contentSchema do not restrict strings
			err = s.encoding(f, at)
		case "minItems", "maxItems", "uniqueItems", "items", "prefixItems", "additionalItems", "unevaluatedItems":
			f.hints |= tArray
			err = s.arrayKeyword(f, k, at, r)
		case "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
			"minProperties", "maxProperties", "unevaluatedProperties":
			f.hints |= tObject
			err = s.objectKeyword(f, k, at, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *flat) setType(at raw, nullable *value) error {
	list := at.v.items
	if at.v.kind == isText {
		list = []*value{at.v}
	}
	if len(list) == 0 {
		return fault(at.path, "want the name of a type or a list of them")
	}
	var set typeSet
	for _, v := range list {
		t, ok := typeNames[v.text]
		if v.kind != isText || !ok {
			return fault(at.path, "unknown type %q", v.text)
		}
		set |= t
	}
	if nullable != nil && nullable.kind == isBool && nullable.yes {
		set |= tNull
	}
	f.types &= set
	f.typed = true
	return nil
}

// allow keeps only the enum values that are in the list.
func (f *flat) allow(list []*value) {
	keys := make(map[string]bool, len(list))
	var kept []*value
	for _, v := range list {
		if k := v.key(); !keys[k] && (!f.fixed || f.keys[k]) {
			keys[k] = true
			kept = append(kept, v)
		}
	}
	f.enum, f.keys, f.fixed = kept, keys, true
}

func (f *flat) number(k string, at raw, parent *value) error {
	if at.v.kind == isBool && (k == "exclusiveMinimum" || k == "exclusiveMaximum") {
		return nil // in draft 4, a boolean that is read together with minimum and maximum
	}
	if at.v.kind != isNumber {
		return fault(at.path, "want a number, got %s", kindNames[at.v.kind])
	}
	open := func(k string) bool { return parent.at[k] != nil && parent.at[k].kind == isBool && parent.at[k].yes }
	switch k {
	case "minimum":
		f.num.atLeast(at.v.num, open("exclusiveMinimum"))
	case "exclusiveMinimum":
		f.num.atLeast(at.v.num, true)
	case "maximum":
		f.num.atMost(at.v.num, open("exclusiveMaximum"))
	case "exclusiveMaximum":
		f.num.atMost(at.v.num, true)
	case "multipleOf":
		if at.v.num.Sign() <= 0 {
			return fault(at.path, "want a number above 0")
		}
		f.num.multiple(at.v.num)
	}
	return nil
}

// count reads a keyword that holds a count.
func count(at raw) (int, error) {
	if at.v.kind != isNumber || !at.v.num.IsInt() || at.v.num.Sign() < 0 || at.v.num.Cmp(big.NewRat(maxRepeat, 1)) > 0 {
		return 0, fault(at.path, "want a whole number of 0 to %d", maxRepeat)
	}
	return int(at.v.num.Num().Int64()), nil
}

func least(a, b int) int { // least returns the smaller limit; -1 means no limit
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

func (s *schemaBuilder) string(f *flat, k string, at raw) error {
	var n int
	var err error
	if k == "minLength" || k == "maxLength" {
		n, err = count(at)
	} else if at.v.kind != isText {
		err = fault(at.path, "want a string, got %s", kindNames[at.v.kind])
	}
	if err != nil {
		return err
	}
	if k != "format" {
		f.hints |= tText
	}
	switch k {
	case "minLength":
		f.min = max(f.min, n)
	case "maxLength":
		f.max = least(f.max, n)
	case "pattern":
		ok, err := s.usable(at.path, at.v.text)
		if ok && !slices.Contains(f.patterns, at.v.text) {
			f.patterns = append(f.patterns, at.v.text)
		}
		return err
	case "format":
		return s.format(f, at)
	}
	return nil
}

func (s *schemaBuilder) arrayKeyword(f *flat, k string, at, parent raw) error {
	switch k {
	case "minItems", "maxItems":
		n, err := count(at)
		if err != nil {
			return err
		}
		if k == "minItems" {
			f.minItems = max(f.minItems, n)
		} else {
			f.maxItems = least(f.maxItems, n)
		}
	case "uniqueItems":
		f.unique = f.unique || at.v.kind == isBool && at.v.yes
	case "unevaluatedItems":
		if isYes(at.v) {
			return nil
		}
		if at.v.kind != isBool || !s.outer {
			return s.lack(at.path, "only false is supported, and not together with other schemas")
		}
		f.sealedItems = true
	case "prefixItems":
		if at.v.kind != isArray {
			return fault(at.path, "want a list of schemas")
		}
		fallthrough
	default:
		if !slices.ContainsFunc(f.lists, func(r raw) bool { return r.v == parent.v }) {
			f.lists = append(f.lists, parent)
		}
	}
	return nil
}

func (s *schemaBuilder) objectKeyword(f *flat, k string, at, parent raw) error {
	switch k {
	case "minProperties", "maxProperties":
		n, err := count(at)
		if err != nil {
			return err
		}
		if k == "minProperties" {
			f.minProps = max(f.minProps, n)
		} else {
			f.maxProps = least(f.maxProps, n)
		}
	case "required":
		if at.v.kind != isArray {
			return fault(at.path, "want a list of names")
		}
		for _, v := range at.v.items {
			if v.kind != isText {
				return fault(at.path, "want a list of names")
			}
			if !slices.Contains(f.required, v.text) {
				f.required = append(f.required, v.text)
			}
		}
	case "propertyNames":
		f.names = append(f.names, at)
	case "unevaluatedProperties":
		if isYes(at.v) {
			return nil
		}
		if at.v.kind != isBool || !s.outer {
			return s.lack(at.path, "only false is supported, and not together with other schemas")
		}
		f.sealed = true
	case "properties", "patternProperties":
		if at.v.kind != isObject {
			return fault(at.path, "want an object of schemas")
		}
		for _, p := range at.v.keys {
			if k != "patternProperties" {
				break
			}
			if _, err := s.usable(at.path, p); err != nil {
				return err
			}
		}
		fallthrough
	default:
		if !slices.ContainsFunc(f.objects, func(r raw) bool { return r.v == parent.v }) {
			f.objects = append(f.objects, parent)
		}
	}
	return nil
}

// checkOneOf verifies that a document of one alternative of a oneOf matches none of
// the other alternatives.
func (s *schemaBuilder) checkOneOf(flats []*flat) error {
	for _, f := range flats {
		for _, c := range f.chosen {
			for i := range c.group.v.items {
				if i == c.i {
					continue
				}
				meet, err := s.meets(f, conj{c.group.item(i)}, 0)
				if err != nil {
					return err
				}
				if meet {
					if err := s.lack(c.group.path, "a document may match both %s and %s",
						fmt.Sprint("alternative ", c.i), fmt.Sprint("alternative ", i)); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
