package chat

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"godwit/engine/chat/jinja"
)

// CallGrammar is what forces an answer to be a tool call: GBNF rules with the
// start rule root. In it the rules of Schemas stand for the documents of JSON
// schemas, the rules of Tokens for control tokens that GBNF cannot name, and
// <text> for the control token of that text or, where the vocabulary has none,
// for the text.
type CallGrammar struct {
	GBNF      string
	Schemas   []RuleSchema
	Tokens    []RuleToken
	Functions []Function // functions that may be called
}

// Function is a function that a grammar lets the model call.
type Function struct {
	Name   string
	Params []byte   // JSON schema of the arguments
	Strict bool     // the schema must hold as a whole
	Whole  bool     // the grammar writes the arguments by the schema, as one object
	Left   []string // keywords that the syntax has no place for, by their place in the schema
}

// RuleToken is a rule for the control token of a text, or for the text where
// the vocabulary has no such token.
type RuleToken struct{ Rule, Text string }

// RuleSchema is a rule that a JSON schema defines: that of a function, or the part
// of it where At leads.
type RuleSchema struct {
	Rule     string
	Function int // among the grammar's functions
	Schema   []byte
	At       []string
}

// GrammarOptions say which calls a grammar allows.
type GrammarOptions struct {
	Choice   string // the name of the one function to call; empty: any of the tools
	Parallel bool   // several calls are allowed
	Tags     Tags   // reasoning that may come first
	Open     bool   // the prompt ended inside reasoning
	// Form is the name of a rule, to be added by the caller, of the text that
	// may stand in place of calls. Empty: the answer is a call.
	Form   string
	Silent bool // no calls, the answer is the form
}

// Grammar returns the grammar of answers to the prompt: calls, a form, or
// either. Reasoning may come first where the options have no tags of their own.
func (p *Prompt) Grammar(o GrammarOptions) (*CallGrammar, error) {
	kind := p.Kind
	if p.inlined && !o.Silent {
		kind = Generic
	}
	o.Tags, o.Open = p.Tags, p.Open
	return ToolGrammar(kind, p.tools, o)
}

// ToolGrammar returns the grammar of answers in a syntax.
func ToolGrammar(kind ParserKind, tools *List, o GrammarOptions) (*CallGrammar, error) {
	syntax, err := syntaxOf(kind)
	if err != nil || kind == "" {
		return nil, fmt.Errorf("no grammar of calls in the syntax %q", string(kind))
	}
	b := &grammarBuilder{free: map[string]string{}}
	var roots []string
	if !o.Silent {
		if err := b.calls(syntax, tools, o.Choice); err != nil {
			return nil, err
		}
		roots = append(roots, b.around(syntax.Frame, o.Parallel))
	}
	if o.Form != "" {
		roots = append(roots, b.form(syntax.Text, o.Form))
	}
	root := strings.Join(roots, " | ")
	if think := b.thinking(kind, o); think != "" {
		root = think + " (" + root + ")"
	}
	b.rule("root", root)
	slices.Reverse(b.rules) // root first
	return &CallGrammar{GBNF: strings.Join(b.rules, "\n") + "\n", Schemas: b.schemas, Tokens: b.tokens, Functions: b.functions}, nil
}

// calls adds the rule call for the calls of all tools, or of the chosen one.
func (b *grammarBuilder) calls(syntax *Syntax, tools *List, choice string) error {
	var alternatives []string
	if tools != nil {
		for i := range tools.Len() {
			t, ok := tools.At(i).(*Dict)
			if !ok {
				continue
			}
			fn := function(t)
			name, _ := text(lookup(fn, "name"))
			if name == "" || choice != "" && name != choice {
				continue
			}
			params, err := b.function(t, fn, name)
			if err != nil {
				return err
			}
			rule := fmt.Sprintf("call-%d", len(alternatives))
			body, err := syntax.Call(b, rule, name, params)
			if err != nil {
				return err
			}
			b.rule(rule, body)
			alternatives = append(alternatives, rule)
		}
	}
	if len(alternatives) == 0 {
		if choice != "" {
			return badInput("tool_choice", "there is no function %q", choice)
		}
		return badInput("tools", "there is no function to call")
	}
	b.rule("call", strings.Join(alternatives, " | "))
	return nil
}

// form returns the body of text that a rule describes, in its frame.
func (b *grammarBuilder) form(f textFrame, rule string) string {
	mark := func(s string) string {
		switch {
		case s == "":
			return ""
		case f.must:
			return b.literal(s) + " "
		}
		return "(" + b.literal(s) + ")? "
	}
	return strings.TrimSpace(mark(f.open) + rule + " " + mark(f.close))
}

// around returns the body of the rule for all calls.
func (b *grammarBuilder) around(f frame, parallel bool) string {
	parts := []string{}
	if f.open != "" {
		parts = append(parts, b.literal(f.open))
	}
	parts = append(parts, "call")
	if parallel {
		if f.sep != "" {
			parts = append(parts, "("+b.literal(f.sep)+" call)*")
		} else {
			parts[len(parts)-1] = "call+"
		}
	}
	if f.close != "" {
		parts = append(parts, b.literal(f.close))
	}
	return strings.Join(parts, " ")
}

// plain writes a string in GBNF.
func plain(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s) + `"`
}

// markers are parts of a syntax that may be control tokens.
var markers = regexp.MustCompile(`<\|"\|>|<[^<>\s="]+>|\[/?[A-Z_]+\]`)

// literal writes a string in GBNF, its markers as tokens.
func (b *grammarBuilder) literal(s string) string {
	var parts []string
	at := 0
	for _, m := range markers.FindAllStringIndex(s, -1) {
		if m[0] > at {
			parts = append(parts, plain(s[at:m[0]]))
		}
		parts = append(parts, b.marker(s[m[0]:m[1]]))
		at = m[1]
	}
	if at < len(s) || s == "" {
		parts = append(parts, plain(s[at:]))
	}
	return strings.Join(parts, " ")
}

// marker writes a token that GBNF can name by its text, or the rule of one
// that it cannot.
func (b *grammarBuilder) marker(s string) string {
	if s[0] == '<' {
		return s
	}
	for _, t := range b.tokens {
		if t.Text == s {
			return t.Rule
		}
	}
	rule := fmt.Sprintf("token-%d", len(b.tokens))
	b.tokens = append(b.tokens, RuleToken{rule, s})
	return rule
}

type grammarBuilder struct {
	rules   []string
	schemas []RuleSchema
	tokens  []RuleToken

	functions []Function

	free  map[string]string // rules of free text by the tag that ends it
	gemma bool              // the rules of Gemma 4's values are there

	gemmaRoot *Dict // parameters of the function in Gemma 4's notation
}

func (b *grammarBuilder) rule(name, body string) {
	b.rules = append(b.rules, name+" ::= "+body)
}

// function begins the rules of a function and returns its parameters.
func (b *grammarBuilder) function(tool, fn *Dict, name string) (*Dict, error) {
	params, _ := lookup(fn, "parameters").(*Dict)
	if params == nil {
		params = dict("type", "object")
	}
	schema, err := jinja.EncodeJSON(params)
	if err != nil {
		return nil, badInput("tools", "schema: %v", err)
	}
	strict := func(v Value) bool { yes, ok := v.(jinja.Bool); return ok && bool(yes) }
	b.functions = append(b.functions, Function{
		Name: name, Params: schema, Strict: strict(lookup(fn, "strict")) || strict(lookup(tool, "strict")),
	})
	return params, nil
}

// arguments adds a rule for all arguments of the function as one object.
func (b *grammarBuilder) arguments(rule string) string {
	n := len(b.functions) - 1
	b.functions[n].Whole = true
	b.schemas = append(b.schemas, RuleSchema{Rule: rule, Function: n, Schema: b.functions[n].Params})
	return rule
}

// argument adds a rule for one argument of the function.
func (b *grammarBuilder) argument(rule string, p param) (string, error) {
	text, err := jinja.EncodeJSON(p.schema)
	if err != nil {
		return "", badInput("tools", "schema: %v", err)
	}
	n := len(b.functions) - 1
	s := RuleSchema{Rule: rule, Function: n, Schema: text}
	if bytes.Contains(text, []byte(`"$`)) { // refers to other parts
		s.Schema, s.At = b.functions[n].Params, []string{"properties", p.name}
	}
	b.schemas = append(b.schemas, s)
	return rule, nil
}

// textKeywords are about strings, and have no place in a syntax that writes
// strings without quotes.
var textKeywords = []string{"pattern", "format", "minLength", "maxLength", "const"}

// leave notes the keywords of a parameter that the syntax has no place for.
func (b *grammarBuilder) leave(p param, keywords []string) {
	f := &b.functions[len(b.functions)-1]
	for _, k := range keywords {
		if field(p.schema, k) != nil {
			f.Left = append(f.Left, "#/properties/"+p.name+"/"+k)
		}
	}
}

// upTo returns a rule for text up to a tag and over it. The tag's first
// character f must not occur in it again: text without the tag then is a row of
// other characters, of beginnings of the tag that a wrong character follows,
// and of beginnings that f cuts off.
func (b *grammarBuilder) upTo(tag string) string {
	if rule, ok := b.free[tag]; ok {
		return rule
	}
	rule := fmt.Sprintf("free-%d", len(b.free))
	b.free[tag] = rule
	runes := []rune(tag)
	f := class(runes[0])
	var begun, broken []string
	for i := 1; i < len(runes); i++ {
		head := plain(string(runes[:i]))
		begun = append(begun, head)
		broken = append(broken, fmt.Sprintf("%s [^%s%s]", head, f, class(runes[i])))
	}
	begin := "(" + strings.Join(begun, " | ") + ")*"
	b.rule(rule, fmt.Sprintf("([^%s] | %s (%s))* %s %s", f, begin, strings.Join(broken, " | "), begin, b.literal(tag)))
	return rule
}

// class writes a character inside a GBNF class.
func class(r rune) string {
	switch r {
	case '\\', ']', '[':
		return `\` + string(r)
	case '^', '-':
		return fmt.Sprintf(`\x%02x`, r)
	case '\n':
		return `\n`
	}
	return string(r)
}

// thinking returns the body of reasoning that may come before a call.
func (b *grammarBuilder) thinking(kind ParserKind, o GrammarOptions) string {
	space := `[ \n]*`
	switch {
	case kind == Harmony:
		return "(" + b.literal("<|channel|>analysis<|message|>") + " " + b.upTo("<|end|>") + " " + b.literal("<|start|>assistant") + ")?"
	case o.Tags.Open == "":
		return ""
	case o.Open:
		return b.upTo(o.Tags.Close) + " " + space
	}
	return "(" + b.literal(o.Tags.Open) + " " + b.upTo(o.Tags.Close) + " " + space + ")?"
}

// wrapped returns the body of a call whose arguments are one JSON object.
func (b *grammarBuilder) wrapped(rule, before, after string) string {
	return b.literal(before) + " " + b.arguments(rule+"-args") + " " + b.literal(after)
}

// jsonCall writes a call as a JSON object with the arguments under a key.
func jsonCall(key string) func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
	return func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
		return b.wrapped(rule, `{"name": `+quote(name)+`, `+quote(key)+`: `, "}"), nil
	}
}

// param is a parameter of a function.
type param struct {
	name     string
	schema   Value
	types    map[string]bool // allowed types
	text     bool            // takes text and nothing else
	required bool
}

func paramsOf(params *Dict) []param {
	props, _ := lookup(params, "properties").(*Dict)
	if props == nil {
		return nil
	}
	required, _ := lookup(params, "required").(*List)
	var out []param
	for name, s := range props.All() {
		p := param{name: name, schema: s}
		p.schema = deref(params, s)
		types := schemaTypes(params, s, 0)
		p.types = types
		p.text = types["string"] && len(types) == 1 && field(p.schema, "enum") == nil
		if required != nil {
			for i := range required.Len() {
				if r, ok := text(required.At(i)); ok && r == name {
					p.required = true
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// field is lookup in a value that may be no mapping.
func field(v Value, key string) Value {
	d, _ := v.(*Dict)
	return lookup(d, key)
}

// tagged returns the body of a call whose parameters stand in tags.
func (b *grammarBuilder) tagged(rule string, params *Dict, open, key, end, sep, close string) (string, error) {
	body := b.literal(open)
	for i, p := range paramsOf(params) {
		head := fmt.Sprintf(key, p.name)
		var value string
		switch {
		case p.text:
			b.leave(p, textKeywords)
			value = b.upTo(end)
		case field(p.schema, "enum") != nil && p.types["string"]:
			value = b.enumText(p.schema) + " " + b.literal(end)
		default:
			head = strings.Replace(head, `string="true"`, `string="false"`, 1)
			v, err := b.argument(fmt.Sprintf("%s-arg-%d", rule, i), p)
			if err != nil {
				return "", err
			}
			value = v + " " + b.literal(end)
		}
		one := b.literal(head) + " " + value + " " + b.literal(sep)
		if !p.required {
			one = "(" + one + ")?"
		}
		body += " " + one
	}
	return body + " " + b.literal(close), nil
}

// enumText returns the alternatives of an enum, strings without quotes.
func (b *grammarBuilder) enumText(schema Value) string {
	var out []string
	if l, ok := field(schema, "enum").(*List); ok {
		for i := range l.Len() {
			s, ok := text(l.At(i))
			if !ok {
				raw, err := jinja.EncodeJSON(l.At(i))
				if err != nil {
					continue
				}
				s = string(raw)
			}
			out = append(out, b.literal(s))
		}
	}
	return "(" + strings.Join(out, " | ") + ")"
}

// listed joins parameters, of which some may be left out, with commas.
func (b *grammarBuilder) listed(rule string, params []param, sep string, value func(i int, p param) (string, error)) (string, error) {
	vals := make([]string, len(params))
	for i, p := range params {
		var err error
		if vals[i], err = value(i, p); err != nil {
			return "", err
		}
	}
	// rest-i is what may follow when parameter i is next and one stands before
	next := ""
	for i := len(params) - 1; i >= 0; i-- {
		rest := strings.TrimSpace(b.literal(sep) + " " + vals[i] + " " + next)
		if !params[i].required {
			if next == "" {
				rest = "(" + rest + ")?"
			} else {
				rest += " | " + next
			}
		}
		next = fmt.Sprintf("%s-rest-%d", rule, i)
		b.rule(next, rest)
	}
	// the first parameter has no comma before it
	var starts []string
	optional := true
	for i, p := range params {
		v := vals[i]
		if i+1 < len(params) {
			v += fmt.Sprintf(" %s-rest-%d", rule, i+1)
		}
		starts = append(starts, v)
		if p.required {
			optional = false
			break
		}
	}
	if len(starts) == 0 {
		return "", nil
	}
	out := "(" + strings.Join(starts, " | ") + ")"
	if optional {
		out += "?"
	}
	return out, nil
}

// python returns the body of a call in Python's notation.
func (b *grammarBuilder) python(rule, name string, params *Dict) (string, error) {
	list := paramsOf(params)
	args, err := b.listed(rule, list, ", ", func(i int, p param) (string, error) {
		if p.types["boolean"] && len(p.types) == 1 {
			return b.literal(p.name+"=") + ` ("True" | "False")`, nil
		}
		v, err := b.argument(fmt.Sprintf("%s-arg-%d", rule, i), p)
		return b.literal(p.name+"=") + " " + v, err
	})
	return b.literal(name+"(") + " " + args + " " + b.literal(")"), err
}
