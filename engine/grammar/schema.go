package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// FromSchema returns a grammar for the JSON documents that a schema (draft 7 or
// 2020-12) describes. If it cannot build a schema, it returns an error that names
// the keyword and its place. It never falls back to free text.
//
// Every document of the grammar is valid, but the grammar does not match all valid
// documents:
//
//   - Members come in the order of "properties", and optional ones may be left
//     out. Required names that are not declared follow.
//   - Members that are not declared appear only if "additionalProperties" or
//     "patternProperties" allows them, or if no member is declared. No name occurs
//     twice.
//   - All "prefixItems" are written. Further items appear only if "items" is set.
//   - At most one blank follows ":" and ",", and there are no line breaks. Numbers
//     have at most 16 digits before the point. Numbers with bounds or a multipleOf
//     have no exponent and at most 15 decimals.
//   - A schema without "type" has the types that its keywords apply to.
//   - "oneOf" is built only if its alternatives are distinguishable, so that
//     exactly one matches.
//
// Supported: type, enum, const, anyOf, oneOf, allOf, $ref, $defs, $anchor, $id,
// nullable; dynamic references if no part of the schema has an $id; properties,
// required, additionalProperties, patternProperties, propertyNames, minProperties,
// maxProperties; items, prefixItems, additionalItems, minItems, maxItems,
// uniqueItems of finitely many values; minLength, maxLength, pattern (regular
// ones), format, contentEncoding; minimum, maximum, exclusiveMinimum,
// exclusiveMaximum, multipleOf. Annotations and unknown keywords are ignored.
func FromSchema(schema []byte) (*Grammar, error) {
	b := NewBuilder()
	if err := b.AddSchema("root", schema); err != nil {
		return nil, err
	}
	g, err := b.Grammar("root")
	if err == nil {
		g.json = true
	}
	return g, err
}

// FromLooseSchema returns a grammar like FromSchema, but ignores keywords that
// the grammar cannot enforce. Look-ahead at the start of a pattern (after ^) is
// still enforced. [Grammar.Left] returns the paths of the ignored keywords, and
// [Grammar.Check] validates documents against them.
func FromLooseSchema(schema []byte) (*Grammar, error) {
	b := NewBuilder()
	left, err := b.AddLooseSchema("root", schema)
	if err != nil {
		return nil, err
	}
	g, err := b.Grammar("root")
	if err != nil {
		return nil, err
	}
	g.json, g.left = true, left
	if len(left) > 0 {
		g.check, err = NewCheck(schema)
	}
	return g, err
}

// unsupported keywords restrict documents in ways that grammars here cannot
// enforce. Keywords that only modify if and contains have no meaning without them.
var unsupported = []string{
	"not", "if", "dependentRequired", "dependentSchemas", "dependencies", "contains", "$dynamicRef", "$recursiveRef",
}

// raw is a schema with its place in the document.
type raw struct {
	v    *value
	path string
}

// conj is a list of schemas that must all be satisfied.
type conj []raw

// Limits of the work on one schema.
const (
	maxBranches = 256     // maximum number of alternatives at one place
	maxSteps    = 1 << 22 // number of built states plus 16 times the number of visited schemas
	maxRefs     = 64      // consecutive references
)

// schemaBuilder converts schemas to rules.
type schemaBuilder struct {
	b       *Builder
	name    string
	doc     *document
	rules   map[string]int // rules by the paths of their conj
	dfas    map[string]*dfa
	regexes map[string]*expr
	flats   map[*value][]*flat
	open    map[*value]bool // schemas that apply is currently processing
	steps   int
	depth   int
	lone    bool     // whether a single schema is being flattened, so that nothing else restricts its documents
	outer   bool     // whether the schema's own keywords are being read
	loose   bool     // whether keywords that cannot be enforced are ignored
	left    []string // paths of the ignored keywords
}

// spend adds to the work and fails if it is too much.
func (s *schemaBuilder) spend(path string, n int) error {
	if s.steps += n; s.steps > maxSteps {
		return fault(path, "the schema takes more than %d steps to build", maxSteps)
	}
	return nil
}

// lack handles a keyword that cannot be enforced. A strict schema fails. A loose
// schema is built without the keyword.
func (s *schemaBuilder) lack(path, format string, args ...any) error {
	if !s.loose {
		return fault(path, format, args...)
	}
	if !slices.Contains(s.left, path) {
		s.left = append(s.left, path)
	}
	return nil
}

func fault(path, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrSchema, path, fmt.Sprintf(format, args...))
}

// schema returns the expression for the documents of a schema, or of its
// subschema at the path at.
func (b *Builder) schema(name string, text []byte, at []string, loose bool) (e *expr, left []string, err error) {
	root, err := readValue(text)
	if err != nil {
		return nil, nil, err
	}
	s := &schemaBuilder{
		b: b, name: name, doc: newDocument(root), rules: map[string]int{}, dfas: map[string]*dfa{}, regexes: map[string]*expr{},
		flats: map[*value][]*flat{}, open: map[*value]bool{}, loose: loose,
	}
	first := len(b.rules)
	start := raw{root, "#"}
	for _, key := range at {
		if start.v.at[key] == nil {
			return nil, nil, fault(start.path, "there is no %q", key)
		}
		start = start.sub(key)
	}
	if e, err = s.emit(conj{start}); err != nil {
		return nil, nil, err
	}
	if !b.canEnd(e, first) {
		return nil, nil, fault("#", "every document would be endless")
	}
	return e, s.left, nil
}

// annotation reports whether a keyword does not affect validity.
func annotation(k string) bool {
	switch k {
	case "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
		"$comment", "$schema", "$id", "$defs", "definitions", "$anchor", "$dynamicAnchor", "$recursiveAnchor":
		return true
	}
	return false
}

// direct replaces schemas that only contain a reference with the schemas they
// refer to. It removes duplicates and schemas without restrictions.
func (s *schemaBuilder) direct(c conj) (conj, error) {
	var out conj
	for _, r := range c {
		for n := 0; r.v.kind == isObject && r.v.at["$ref"] != nil; n++ {
			if n > maxRefs {
				return nil, fault(r.path+"/$ref", "refers to itself")
			}
			if slices.ContainsFunc(r.v.keys, func(k string) bool { return k != "$ref" && !annotation(k) }) {
				break
			}
			var err error
			if r, err = s.doc.resolve(r); err != nil {
				return nil, err
			}
		}
		if r.v.kind == isBool && r.v.yes || slices.ContainsFunc(out, func(o raw) bool { return o.v == r.v }) {
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

// emit returns the expression for the documents that satisfy all of c. Equal
// lists share one rule, so that a schema may refer to itself.
func (s *schemaBuilder) emit(c conj) (*expr, error) {
	c, err := s.direct(c)
	if err != nil {
		return nil, err
	}
	if len(c) == 0 {
		return ref(s.b.jsonRules().value), nil
	}
	paths := make([]string, len(c))
	for i, r := range c {
		paths[i] = r.path
	}
	slices.Sort(paths)
	key := strings.Join(paths, " & ")
	if id, ok := s.rules[key]; ok {
		return ref(id), nil
	}
	id, err := s.b.add(rule{name: s.name + " " + c[0].path})
	if err != nil {
		return nil, fault(c[0].path, "%v", err)
	}
	s.rules[key] = id
	if s.depth++; s.depth > 4*maxDepth {
		return nil, fault(c[0].path, "references are nested more than %d deep", 4*maxDepth)
	}
	body, err := s.body(c)
	s.depth--
	if err != nil {
		return nil, err
	}
	s.b.rules[id].body = body
	return ref(id), nil
}

// possible reports whether some document may satisfy all of c. It does not look
// inside the documents.
func (s *schemaBuilder) possible(c conj) (bool, error) {
	flats, err := s.flatten(c)
	return len(flats) > 0, err
}

// body builds the expression for the alternatives of c.
func (s *schemaBuilder) body(c conj) (*expr, error) {
	flats, err := s.flatten(c)
	if err != nil {
		return nil, err
	}
	if len(flats) == 0 {
		return nil, fault(c[0].path, "no document is valid")
	}
	if err := s.checkOneOf(flats); err != nil {
		return nil, err
	}
	var alts []*expr
	var why error
	for _, f := range flats {
		e, err := s.flat(f)
		if err != nil {
			return nil, err
		}
		if e == nil {
			why = fault(f.path, "no document is valid: %v", f.why)
			continue
		}
		alts = append(alts, e)
	}
	if len(alts) == 0 {
		return nil, why
	}
	return alt(alts...), nil
}

// canEnd reports whether an expression matches some finite text. Only the rules
// from first on are examined.
func (b *Builder) canEnd(e *expr, first int) bool {
	ends := make([]bool, len(b.rules))
	for i := range first {
		ends[i] = true
	}
	for grown := true; grown; {
		grown = false
		for i := first; i < len(ends); i++ {
			if !ends[i] && b.rules[i].body != nil && finite(b.rules[i].body, ends) {
				ends[i], grown = true, true
			}
		}
	}
	return finite(e, ends)
}

func finite(e *expr, ends []bool) bool {
	sub := func(e *expr) bool { return finite(e, ends) }
	switch e.op {
	case opSeq:
		return !slices.ContainsFunc(e.subs, func(e *expr) bool { return !sub(e) })
	case opAlt:
		return slices.ContainsFunc(e.subs, sub)
	case opRepeat:
		return e.min == 0 || sub(e.subs[0])
	case opClass:
		return len(e.set) > 0
	case opRef:
		return ends[e.id]
	case opAuto:
		return e.auto.ends(sub)
	}
	return true
}
