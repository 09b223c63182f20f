package grammar

import (
	"fmt"
	"math/big"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// maxChecks bounds the work of one check.
const maxChecks = 1 << 18

// patternTime limits the time of one search for a non-regular pattern.
const patternTime = time.Second

// Check validates documents by all validating keywords of a schema except format,
// $dynamicRef and $recursiveRef.
type Check struct {
	doc      *document
	patterns map[string]pattern
}

// pattern is a schema's pattern, compiled for searching.
type pattern interface {
	matches(text string) (bool, error)
}

// NewCheck compiles a schema.
func NewCheck(schema []byte) (*Check, error) {
	root, err := readValue(schema)
	if err != nil {
		return nil, err
	}
	return &Check{newDocument(root), map[string]pattern{}}, nil
}

// Validate returns an error that names the first keyword that a JSON document
// violates, and the place in the document.
func (c *Check) Validate(doc []byte) error {
	v, err := readValue(doc)
	if err != nil {
		return err
	}
	r := &checking{c: c}
	why, _, err := r.schema(raw{c.doc.root, "#"}, v, "")
	switch {
	case err != nil:
		return err
	case why != "":
		return fmt.Errorf("%w: %s", ErrInvalid, why)
	}
	return nil
}

// checking is the state of one validation.
type checking struct {
	c     *Check
	steps int
	depth int
}

// seen records the members and items that a schema has evaluated, for
// unevaluatedProperties and unevaluatedItems.
type seen struct {
	members map[string]bool
	items   map[int]bool
	all     bool // all items were evaluated
}

func (s *seen) add(o seen) {
	for k := range o.members {
		s.member(k)
	}
	for i := range o.items {
		s.item(i)
	}
	s.all = s.all || o.all
}

func (s *seen) member(name string) {
	if s.members == nil {
		s.members = map[string]bool{}
	}
	s.members[name] = true
}

func (s *seen) item(i int) {
	if s.items == nil {
		s.items = map[int]bool{}
	}
	s.items[i] = true
}

// schema validates a value. why is empty if the value is valid.
func (r *checking) schema(at raw, v *value, place string) (why string, ev seen, err error) {
	if r.steps++; r.steps > maxChecks {
		return "", ev, fault(at.path, "validation takes more than %d steps", maxChecks)
	}
	if r.depth++; r.depth > 8*maxDepth {
		return "", ev, fault(at.path, "validation is nested more than %d deep", 8*maxDepth)
	}
	defer func() { r.depth-- }()
	switch at.v.kind {
	case isBool:
		if !at.v.yes {
			why = broken(at, place)
		}
		return why, ev, nil
	case isObject:
	default:
		return "", ev, fault(at.path, "want a schema, got %s", kindNames[at.v.kind])
	}
	if at.v.at["$ref"] != nil {
		to, err := r.c.doc.resolve(at)
		if err != nil {
			return "", ev, err
		}
		if why, ev, err = r.schema(to, v, place); why != "" || err != nil {
			return why, ev, err
		}
	}
	for _, step := range []func(raw, *value, string, *seen) (string, error){r.plain, r.applied, r.array, r.object, r.leftOver} {
		if why, err = step(at, v, place, &ev); why != "" || err != nil {
			return why, ev, err
		}
	}
	return "", ev, nil
}

func broken(at raw, place string) string {
	if place == "" {
		place = "/"
	}
	return fmt.Sprintf("%s does not satisfy %s", place, at.path)
}

// plain validates a value by the keywords that contain no schemas.
func (r *checking) plain(at raw, v *value, place string, _ *seen) (string, error) {
	if t := at.v.at["type"]; t != nil {
		if ok := hasType(t, v) || v.kind == isNull && isYes(at.v.at["nullable"]); !ok {
			return broken(at.sub("type"), place), nil
		}
	}
	if e := at.v.at["enum"]; e != nil && !slices.ContainsFunc(e.items, func(x *value) bool { return x.key() == v.key() }) {
		return broken(at.sub("enum"), place), nil
	}
	if e := at.v.at["const"]; e != nil && e.key() != v.key() {
		return broken(at.sub("const"), place), nil
	}
	switch v.kind {
	case isNumber:
		return checkNumber(at, v, place), nil
	case isText:
		if k := counted(at.v, utf8.RuneCountInString(v.text), "minLength", "maxLength"); k != "" {
			return broken(at.sub(k), place), nil
		}
		if p := at.v.at["pattern"]; p != nil {
			ok, err := r.c.match(at.sub("pattern"), p.text, v.text)
			if err != nil || !ok {
				return broken(at.sub("pattern"), place), err
			}
		}
	}
	return "", nil
}

func isYes(v *value) bool { return v != nil && v.kind == isBool && v.yes }

func hasType(t, v *value) bool {
	list := t.items
	if t.kind == isText {
		list = []*value{t}
	}
	have := [...]typeSet{isNull: tNull, isBool: tBool, isNumber: tNumber, isText: tText, isArray: tArray, isObject: tObject}[v.kind]
	if v.kind == isNumber && v.num.IsInt() {
		have = tWhole
	}
	return slices.ContainsFunc(list, func(name *value) bool { return typeNames[name.text]&have != 0 })
}

// counted returns the keyword that the count n violates, which is least, most,
// or "" if there is no violation.
func counted(schema *value, n int, least, most string) string {
	count := big.NewRat(int64(n), 1)
	if m := schema.at[least]; m != nil && m.kind == isNumber && count.Cmp(m.num) < 0 {
		return least
	}
	if m := schema.at[most]; m != nil && m.kind == isNumber && count.Cmp(m.num) > 0 {
		return most
	}
	return ""
}

func checkNumber(at raw, v *value, place string) string {
	for _, k := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} {
		b := at.v.at[k]
		if b == nil || b.kind != isNumber {
			continue
		}
		cmp, ok := v.num.Cmp(b.num), true
		switch k {
		case "minimum":
			ok = cmp > 0 || cmp == 0 && !isYes(at.v.at["exclusiveMinimum"])
		case "maximum":
			ok = cmp < 0 || cmp == 0 && !isYes(at.v.at["exclusiveMaximum"])
		case "exclusiveMinimum":
			ok = cmp > 0
		case "exclusiveMaximum":
			ok = cmp < 0
		case "multipleOf":
			ok = b.num.Sign() > 0 && new(big.Rat).Quo(v.num, b.num).IsInt()
		}
		if !ok {
			return broken(at.sub(k), place)
		}
	}
	return ""
}

// match reports whether a text contains a match of a pattern.
func (c *Check) match(at raw, src, text string) (bool, error) {
	p := c.patterns[src]
	if p == nil {
		var err error
		if p, err = newPattern(src); err != nil {
			return false, fault(at.path, "%q: %v", src, err)
		}
		c.patterns[src] = p
	}
	return p.matches(text)
}

type regular struct{ *dfa }

func (p regular) matches(text string) (bool, error) { return p.match(text), nil }

type irregular struct{ *regexp2.Regexp }

func (p irregular) matches(text string) (bool, error) { return p.MatchString(text) }

// newPattern compiles a pattern. Regular patterns use the package's own automata.
// Others use a backtracking engine with time limits.
func newPattern(src string) (pattern, error) {
	steps := 0
	if d, err := patternDFA(src, true, &steps); err == nil {
		return regular{d}, nil
	}
	return newIrregular(src)
}

func newIrregular(src string) (irregular, error) {
	if len(src) > maxPattern {
		return irregular{}, fmt.Errorf("%d bytes, at most %d", len(src), maxPattern)
	}
	re, err := regexp2.Compile(src, regexp2.ECMAScript|regexp2.Unicode)
	if err != nil {
		return irregular{}, err
	}
	re.MatchTimeout = patternTime
	return irregular{re}, nil
}
