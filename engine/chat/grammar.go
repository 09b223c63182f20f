package chat

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"godwit/engine/chat/jinja"
)

// CallGrammar is a grammar that forces an answer to be a tool call, as GBNF
// rules with the start rule root. The caller must add the rules in Schemas and
// Tokens, to which it refers. A rule in Schemas matches the documents of a JSON
// schema. A rule in Tokens matches a control token that GBNF cannot name.
// <text> stands for the control token of that name, or for the plain text if
// the vocabulary has no such token.
type CallGrammar struct {
	GBNF      string
	Schemas   []RuleSchema
	Tokens    []RuleToken
	Functions []Function // functions that the answer may call
}

// Function is a function that a grammar lets the model call.
type Function struct {
	Name   string
	Params []byte   // JSON schema of the arguments
	Strict bool     // whether the arguments must match the whole schema
	Whole  bool     // whether the arguments are one JSON object that follows the schema
	Left   []string // schema keywords that the syntax cannot enforce, as paths in the schema
}

// RuleToken is a rule for a control token, or for the plain text if the vocabulary
// has no such token.
type RuleToken struct{ Rule, Text string }

// RuleSchema is a rule that matches the documents of a function's schema, or of
// the subschema at the path At.
type RuleSchema struct {
	Rule     string
	Function int // index into the grammar's Functions
	Schema   []byte
	At       []string
}

// GrammarOptions decides which calls a grammar allows.
type GrammarOptions struct {
	Choice   string // name of the only function that may be called; empty allows all
	Parallel bool   // whether several calls are allowed
	Tags     Tags   // tags of reasoning that may come first
	Open     bool   // whether the prompt ended inside reasoning
	// Form is the name of a rule that matches the text that is allowed instead
	// of calls. The caller adds the rule. If Form is empty, the answer must be
	// a call.
	Form   string
	Silent bool // whether calls are forbidden, so that the answer must match Form
}

// Grammar returns the grammar of answers to the prompt, which are calls, a
// form, or either. The reasoning tags come from the prompt. The tags in o are
// ignored.
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
	slices.Reverse(b.rules) // the root rule comes first
	return &CallGrammar{GBNF: strings.Join(b.rules, "\n") + "\n", Schemas: b.schemas, Tokens: b.tokens, Functions: b.functions}, nil
}

// calls adds the rule call, which matches a call of any tool, or of the chosen
// one.
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

// form returns a rule body for text that matches rule, between the syntax's markers
// for plain answers.
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

// around returns the rule body for all calls, including the markers around
// them.
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

// markers lists the parts of a syntax that may be control tokens.
var markers = regexp.MustCompile(`<\|"\|>|<[^<>\s="]+>|\[/?[A-Z_]+\]`)

// literal returns text as GBNF, with its markers written as tokens.
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

// marker returns the GBNF name of a token, or the name of a rule for a token that
// GBNF cannot name.
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

	free  map[string]string // rules for free text, by the tag that ends the text
	gemma bool              // whether the rules for Gemma 4's values have been added

	gemmaRoot *Dict // parameters of the function in Gemma 4's notation
}

func (b *grammarBuilder) rule(name, body string) {
	b.rules = append(b.rules, name+" ::= "+body)
}

// function starts the rules of a function and returns its parameters.
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

// arguments adds one rule for all arguments of the function as an object.
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
	if bytes.Contains(text, []byte(`"$`)) { // the schema refers to other parts
		s.Schema, s.At = b.functions[n].Params, []string{"properties", p.name}
	}
	b.schemas = append(b.schemas, s)
	return rule, nil
}

// textKeywords are schema keywords for strings. A syntax that writes strings
// without quotes cannot enforce them.
var textKeywords = []string{"pattern", "format", "minLength", "maxLength", "const"}

// leave records the keywords of a parameter that the syntax cannot enforce.
func (b *grammarBuilder) leave(p param, keywords []string) {
	f := &b.functions[len(b.functions)-1]
	for _, k := range keywords {
		if field(p.schema, k) != nil {
			f.Left = append(f.Left, "#/properties/"+p.name+"/"+k)
		}
	}
}

// upTo returns a rule for text up to and including a tag. The first character
// of the tag, f, must not occur in the rest of the tag. Text without the tag is
// then a sequence of characters other than f, of tag prefixes followed by a
// wrong character, and of tag prefixes cut off by another f.
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

// class returns a character escaped for a GBNF character class.
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

// thinking returns the rule body for reasoning that may come before a call.
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

// wrapped returns the rule body for a call whose arguments are one JSON object.
func (b *grammarBuilder) wrapped(rule, before, after string) string {
	return b.literal(before) + " " + b.arguments(rule+"-args") + " " + b.literal(after)
}

// jsonCall returns the rule body for a call as a JSON object with the arguments
// under key.
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
	text     bool            // whether only text is allowed
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

// field looks up a key in a value that may not be a mapping.
func field(v Value, key string) Value {
	d, _ := v.(*Dict)
	return lookup(d, key)
}

// tagged returns the rule body for a call whose parameters are written in tags.
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

// enumText returns the alternatives of an enum, with strings unquoted.
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

// listed joins parameters with commas. Optional parameters may be missing.
func (b *grammarBuilder) listed(rule string, params []param, sep string, value func(i int, p param) (string, error)) (string, error) {
	vals := make([]string, len(params))
	for i, p := range params {
		var err error
		if vals[i], err = value(i, p); err != nil {
			return "", err
		}
	}
	// rest-i matches what may follow once a parameter was written and parameter i
	// is next
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

// python returns the rule body for a call in Python's notation.
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
