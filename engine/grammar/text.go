package grammar

import (
	"math/big"
	"slices"
	"strings"
)

// formats maps string formats to patterns. The patterns are strict: every
// interpretation of a standard accepts their strings.
var formats = func() map[string]string {
	const (
		clock  = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
		date   = `(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|\d\d(0[48]|[2468][048]|[13579][26])-02-29)`
		label  = `[A-Za-z0-9]{1,30}(-[A-Za-z0-9]{1,30})?`
		host   = label + `(\.` + label + `){0,3}\.[A-Za-z]{2,12}`
		octet  = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
		person = `[A-Za-z0-9_]{1,20}([.+-][A-Za-z0-9_]{1,20}){0,2}`
		path   = `(/[A-Za-z0-9_~.-]{0,40}){0,10}(\?[A-Za-z0-9_=&-]{0,80})?(#[A-Za-z0-9_-]{0,40})?`
		group  = `[0-9a-f]{1,4}`
	)
	return map[string]string{
		"date":                  date,
		"time":                  clock,
		"date-time":             date + `T` + clock,
		"duration":              `P(\d{1,4}W|\d{1,4}D(T\d{1,4}H(\d{1,4}M)?)?|T\d{1,6}[HMS])`,
		"uuid":                  `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
		"email":                 person + `@` + host,
		"idn-email":             person + `@` + host,
		"hostname":              host,
		"idn-hostname":          host,
		"ipv4":                  octet + `(\.` + octet + `){3}`,
		"ipv6":                  group + `(:` + group + `){7}`,
		"uri":                   `https?://` + host + `(:[1-9]\d{0,3})?` + path,
		"iri":                   `https?://` + host + `(:[1-9]\d{0,3})?` + path,
		"url":                   `https?://` + host + `(:[1-9]\d{0,3})?` + path,
		"uri-reference":         `(https?://` + host + `)?` + path,
		"iri-reference":         `(https?://` + host + `)?` + path,
		"uri-template":          `https?://` + host + `(/[A-Za-z0-9_~.-]{1,40}|/\{[A-Za-z0-9_]{1,20}\}){0,10}`,
		"regex":                 `[A-Za-z0-9_ -]{0,60}`,
		"json-pointer":          `(/[A-Za-z0-9_-]{0,40}){0,10}`,
		"relative-json-pointer": `(0|[1-9]\d{0,3})(/[A-Za-z0-9_-]{0,40}){0,10}`,
		"byte":                  `([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?`,
		"base64url":             `([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2}(==)?|[A-Za-z0-9_-]{3}=?)?`,
		"base32":                `([A-Z2-7]{8})*([A-Z2-7]{2}======|[A-Z2-7]{4}====|[A-Z2-7]{5}===|[A-Z2-7]{7}=)?`,
		"base16":                `([0-9A-Fa-f]{2})*`,
	}
}()

// textFormats are formats that do not restrict strings.
var textFormats = []string{"password", "binary", "char", "file"}

// numberFormats are the formats for numbers, with their ranges.
var numberFormats = map[string][2]int64{
	"int8": {-1 << 7, 1<<7 - 1}, "int16": {-1 << 15, 1<<15 - 1}, "int32": {-1 << 31, 1<<31 - 1}, "int64": {-1 << 63, 1<<63 - 1},
	"uint8": {0, 1<<8 - 1}, "uint16": {0, 1<<16 - 1}, "uint32": {0, 1<<32 - 1}, "uint64": {0, 1<<63 - 1}, "uint": {0, 1<<63 - 1},
	"float": {0, 0}, "double": {0, 0}, "decimal": {0, 0}, "number": {0, 0},
}

func (s *schemaBuilder) format(f *flat, at raw) error {
	name := at.v.text
	if bounds, ok := numberFormats[name]; ok {
		if bounds[0] != bounds[1] {
			f.num.atLeast(new(big.Rat).SetInt64(bounds[0]), false)
			f.num.atMost(new(big.Rat).SetInt64(bounds[1]), false)
		}
		return nil
	}
	if slices.Contains(textFormats, name) {
		return nil
	}
	if formats[name] == "" {
		return s.lack(at.path, "unknown format %q", name)
	}
	f.hints |= tText
	if !slices.Contains(f.formats, name) {
		f.formats = append(f.formats, name)
	}
	return nil
}

// encodings are the supported values of contentEncoding. Strings with another
// encoding may contain any text.
var encodings = map[string]string{"base64": "byte", "base64url": "base64url", "base32": "base32", "base16": "base16"}

// encoding applies the keyword contentEncoding.
func (s *schemaBuilder) encoding(f *flat, at raw) error {
	if at.v.kind != isText {
		return fault(at.path, "want a text, got %s", kindNames[at.v.kind])
	}
	f.hints |= tText
	if name := encodings[strings.ToLower(at.v.text)]; name != "" && !slices.Contains(f.formats, name) {
		f.formats = append(f.formats, name)
	}
	return nil
}

// text returns the expression for the strings of f.
func (s *schemaBuilder) text(f *flat) (*expr, error) {
	if f.max >= 0 && f.min > f.max {
		f.why = "no string is long enough"
		return nil, nil
	}
	bounded := f.min > 0 || f.max >= 0
	switch len(f.patterns) + len(f.formats) {
	case 0:
		if !bounded {
			return ref(s.b.jsonRules().text), nil
		}
		return seq(quote, repeat(textUnit, f.min, f.max), quote), nil
	case 1:
		if list, _ := lookAheads(f.regexes()[0]); !bounded && len(list) == 0 {
			e, err := s.regex(f.path+"/pattern", f.regexes()[0])
			if err != nil {
				return nil, err
			}
			return seq(quote, written(e), quote), nil
		}
	}
	steps := s.steps
	d, err := s.textDFA(f)
	if err != nil && s.loose {
		s.steps = steps
		return s.looseText(f, err)
	}
	if err != nil {
		return nil, err
	}
	if d.empty() {
		f.why = "no string satisfies pattern, format and length together"
		return nil, nil
	}
	return seq(quote, d.expr(func(set []span) *expr { return inText(set, false) }), quote), nil
}

// looseText returns an expression for the strings of f if their pattern and
// length together need too many states. It enforces either the first pattern or the length.
func (s *schemaBuilder) looseText(f *flat, why error) (*expr, error) {
	if len(f.patterns)+len(f.formats) == 0 {
		return nil, why
	}
	steps := s.steps
	g := f.clone()
	g.min, g.max = 0, -1
	if f.min > 0 || f.max >= 0 || len(f.patterns)+len(f.formats) > 1 {
		g.patterns, g.formats = g.patterns[:min(1, len(g.patterns))], g.formats[:min(1-min(1, len(g.patterns)), len(g.formats))]
		if e, err := s.text(g); err == nil {
			return e, s.lack(f.path+"/maxLength", "%v", why)
		}
	}
	s.steps = steps
	g.min, g.max, g.patterns, g.formats = f.min, f.max, nil, nil
	if err := s.lack(f.path+"/pattern", "%v", why); err != nil {
		return nil, err
	}
	return s.text(g)
}

// regexes returns the patterns of f, including the patterns of its formats.
func (f *flat) regexes() []string {
	out := slices.Clone(f.patterns)
	for _, name := range f.formats {
		out = append(out, `^(?:`+formats[name]+`)$`)
	}
	return out
}

// textDFA returns the strings of f as an automaton.
func (s *schemaBuilder) textDFA(f *flat) (*dfa, error) {
	var d *dfa
	keywords := []string{}
	for i, p := range f.regexes() {
		e, err := s.pattern(f.path+"/pattern", p)
		if err != nil {
			return nil, err
		}
		if i < len(f.patterns) {
			keywords = append(keywords, "pattern")
		} else {
			keywords = append(keywords, "format")
		}
		if d == nil {
			d = e
		} else if d, err = d.intersect(e, &s.steps); err != nil {
			return nil, fault(f.path, "%s: %v", strings.Join(keywords, " and "), err)
		}
	}
	if f.min == 0 && f.max < 0 && d != nil {
		return d, nil
	}
	length, err := ofLength(f.min, f.max, &s.steps)
	if d != nil && err == nil {
		length, err = d.intersect(length, &s.steps)
	}
	if err != nil {
		return nil, fault(f.path, "%s: %v", strings.Join(append(keywords, "minLength", "maxLength"), " and "), err)
	}
	return length, nil
}

// usable reports whether strings can be generated from a pattern. It returns an
// error if the pattern is invalid or, in a strict schema, not regular.
func (s *schemaBuilder) usable(path, src string) (bool, error) {
	list, rest := lookAheads(src)
	_, err := s.regex(path, rest)
	for _, a := range list {
		if err == nil {
			_, err = s.regex(path, a.src)
		}
	}
	switch {
	case err == nil && len(list) > 0: // look-ahead is supported only in loose schemas
		err = s.lack(path, "%q: look-ahead is not a regular expression", src)
		return err == nil, err
	case err == nil || !s.loose:
		return err == nil, err
	}
	if _, wrong := newIrregular(src); wrong != nil {
		return false, err
	}
	return false, s.lack(path, "%q is not regular", src)
}

// regex returns a pattern as an expression over code points.
func (s *schemaBuilder) regex(path, src string) (*expr, error) {
	if e := s.regexes[src]; e != nil {
		return e, nil
	}
	e, err := parseRegex(src)
	if err != nil {
		return nil, fault(path, "%q: %v", src, err)
	}
	s.regexes[src] = e
	return e, s.spend(path, len(src))
}

// pattern returns a pattern as an automaton.
func (s *schemaBuilder) pattern(path, src string) (*dfa, error) {
	if d := s.dfas[src]; d != nil {
		return d, nil
	}
	ok, err := s.usable(path, src)
	if err != nil {
		return nil, err
	}
	d := &dfa{edges: make([][]dfaEdge, 1), final: make([]bool, 1)} // an automaton that matches nothing, for a pattern that cannot be used
	if ok {
		if d, err = patternDFA(src, false, &s.steps); err != nil {
			return nil, fault(path, "%q: %v", src, err)
		}
	}
	s.dfas[src] = d
	return d, nil
}

// written returns the expression for one code point as it is written inside a
// JSON string.
func written(e *expr) *expr {
	switch e.op {
	case opLit:
		var subs []*expr
		for _, r := range string(e.lit) {
			subs = append(subs, inText([]span{{r, r}}, false))
		}
		return seq(subs...)
	case opClass:
		return inText(e.set, false)
	}
	out := *e
	out.subs = make([]*expr, len(e.subs))
	for i, sub := range e.subs {
		out.subs[i] = written(sub)
	}
	return &out
}
