package grammar

import (
	"fmt"
	"slices"
)

// Builder puts a grammar together from GBNF and JSON schemas, such as the
// syntax of tool calls around the schema of a tool's arguments:
//
//	b := grammar.NewBuilder()
//	err = b.AddSchema("weather-args", schema)
//	err = b.AddRule("root", `"{\"name\": \"weather\", \"arguments\": " weather-args "}"`)
//	g, err := b.Grammar("root")
//
// Rules may be used before they are added.
type Builder struct {
	rules   []rule
	names   map[string]int
	missing map[int]func() error // rules that are used but not yet defined
	json    *jsonRules
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder {
	return &Builder{names: map[string]int{}, missing: map[int]func() error{}}
}

// AddGBNF adds rules in the notation of [ParseGBNF].
func (b *Builder) AddGBNF(text string) error {
	return (&parser{b: b, src: text}).rules()
}

// AddRule adds one rule. gbnf is the text after ::=.
func (b *Builder) AddRule(name, gbnf string) error {
	for i := range len(name) {
		if !isWord(name[i]) {
			return fmt.Errorf("%w: rule name %q", ErrSyntax, name)
		}
	}
	if name == "" {
		return fmt.Errorf("%w: empty rule name", ErrSyntax)
	}
	p := &parser{b: b, src: gbnf}
	p.depth = 1 // line breaks count as blanks here
	p.space(true)
	body, err := p.alternatives()
	if err != nil {
		return err
	}
	if p.pos < len(p.src) {
		return p.fail(p.pos, "unexpected %q", p.rune())
	}
	if err := b.define(name, body); err != nil {
		return fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return nil
}

// AddSchema adds a rule that matches the documents of a JSON schema, with the
// limits that [FromSchema] describes.
//
// at is the path of a subschema. Without it, the whole schema is used.
// References in the subschema may point anywhere in the schema.
func (b *Builder) AddSchema(name string, schema []byte, at ...string) error {
	body, _, err := b.schema(name, schema, at, false)
	return b.addSchema(name, body, err)
}

// AddLooseSchema adds a rule like AddSchema, but ignores keywords that this
// package cannot enforce. It returns the paths of those keywords in the schema.
func (b *Builder) AddLooseSchema(name string, schema []byte, at ...string) (left []string, err error) {
	body, left, err := b.schema(name, schema, at, true)
	return left, b.addSchema(name, body, err)
}

func (b *Builder) addSchema(name string, body *expr, err error) error {
	if err != nil {
		return err
	}
	if err := b.define(name, body); err != nil {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return nil
}

// AddJSON adds a rule that matches any JSON object.
func (b *Builder) AddJSON(name string) error {
	return b.define(name, ref(b.jsonRules().object))
}

// AddLiteral adds a rule that matches exactly the text.
func (b *Builder) AddLiteral(name, text string) error {
	return b.define(name, lit(text))
}

// AddGrammar adds a rule that matches everything that another grammar matches.
func (b *Builder) AddGrammar(name string, g *Grammar) error {
	first := len(b.rules)
	for _, r := range g.rules {
		r.body = shifted(r.body, first)
		if _, err := b.add(r); err != nil {
			return fmt.Errorf("%w: %w", ErrLimit, err)
		}
	}
	return b.define(name, ref(first+g.root))
}

// shifted returns a copy of e whose rule numbers are increased by the given amount.
func shifted(e *expr, by int) *expr {
	if e == nil {
		return nil
	}
	out := *e
	if e.op == opRef {
		out.id += by
	}
	out.subs = make([]*expr, len(e.subs))
	for i, sub := range e.subs {
		out.subs[i] = shifted(sub, by)
	}
	if e.auto != nil {
		a := *e.auto
		a.edges = make([]arc, len(e.auto.edges))
		for i, x := range e.auto.edges {
			x.on = shifted(x.on, by)
			a.edges[i] = x
		}
		out.auto = &a
	}
	return &out
}

// Grammar returns the grammar that starts at the named rule. Every rule that is
// used must have been added.
func (b *Builder) Grammar(root string) (*Grammar, error) {
	id, ok := b.names[root]
	if !ok {
		return nil, fmt.Errorf("%w: no rule %q", ErrSyntax, root)
	}
	if len(b.missing) > 0 {
		ids := make([]int, 0, len(b.missing))
		for id := range b.missing {
			ids = append(ids, id)
		}
		return nil, b.missing[slices.Min(ids)]()
	}
	return &Grammar{rules: slices.Clone(b.rules), root: id}, nil
}

// define gives a rule its body.
func (b *Builder) define(name string, body *expr) error {
	id, ok := b.names[name]
	switch {
	case !ok:
		var err error
		if id, err = b.add(rule{name: name}); err != nil {
			return err
		}
		b.names[name] = id
	case b.missing[id] == nil:
		return fmt.Errorf("rule %q is defined twice", name)
	}
	delete(b.missing, id)
	b.rules[id].body = body
	return nil
}

// use returns the number of the rule with the given name. undefined is the
// error to return if the rule is never defined.
func (b *Builder) use(name string, undefined func() error) (int, error) {
	if id, ok := b.names[name]; ok {
		return id, nil
	}
	id, err := b.add(rule{name: name})
	if err != nil {
		return 0, err
	}
	b.names[name] = id
	b.missing[id] = undefined
	return id, nil
}

// add appends a rule that GBNF text cannot refer to.
func (b *Builder) add(r rule) (int, error) {
	if len(b.rules) >= maxRules {
		return 0, fmt.Errorf("more than %d rules", maxRules)
	}
	b.rules = append(b.rules, r)
	return len(b.rules) - 1, nil
}

// After returns a grammar of free text. Once the text contains one of the markers,
// g must match everything after the marker. Text without a marker may continue and
// may end anywhere. A marker that is a control token's text stands for that token.
func (g *Grammar) After(markers ...string) (*Grammar, error) { return g.behind(0, markers) }

// Behind is like After, but the text must contain a marker before it ends. An
// example is reasoning before an answer that g describes.
func (g *Grammar) Behind(markers ...string) (*Grammar, error) { return g.behind(1, markers) }

func (g *Grammar) behind(least int, markers []string) (*Grammar, error) {
	if len(markers) == 0 || slices.Contains(markers, "") {
		return nil, fmt.Errorf("%w: empty marker", ErrSyntax)
	}
	return g.wrap("after", func(root *expr) *expr {
		subs := []*expr{root}
		for _, m := range markers {
			subs = append(subs, &expr{op: opSpecial, lit: []byte(m)})
		}
		return &expr{op: opAfter, subs: subs, min: least}
	}), nil
}
