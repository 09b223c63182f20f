package chat

import (
	"encoding/json"
	"strings"

	"godwit/engine/chat/jinja"
)

// argList collects the arguments of a call that is not written as JSON.
type argList struct{ buf []byte }

func (a *argList) add(key, value string) {
	if len(a.buf) == 0 {
		a.buf = append(a.buf, '{')
	} else {
		a.buf = append(a.buf, ", "...)
	}
	a.buf = append(a.buf, quote(key)...)
	a.buf = append(a.buf, ": "...)
	a.buf = append(a.buf, value...)
}

func (a *argList) String() string {
	if len(a.buf) == 0 {
		return "{}"
	}
	return string(a.buf) + "}"
}

// quote returns text as a JSON string.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return `""` // a string can always be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// typed converts the text of an argument to JSON. The function's schema decides
// whether the parameter is a string or has another type. If the schema does not
// decide it, text that is valid JSON is used as it is.
func (p *Parser) typed(function, key, value string) string {
	params := p.schemas[function]
	props, _ := lookup(params, "properties").(*Dict)
	types := schemaTypes(params, lookup(props, key), 0)
	trimmed := strings.TrimSpace(value)
	isJSON := json.Valid([]byte(trimmed))
	if !isJSON {
		if !types["string"] {
			if v, ok := pythonLiteral(trimmed); ok {
				return v
			}
		}
		return quote(value)
	}
	switch {
	case len(types) == 0:
		return trimmed
	case types["string"] && (len(types) == 1 || !types[jsonType(trimmed)]):
		return quote(value)
	}
	return trimmed
}

// pythonLiteral converts a list, dict or constant in Python's notation to JSON. It
// rejects plain text.
func pythonLiteral(s string) (string, bool) {
	if s == "" || strings.IndexByte("[{(TFN", s[0]) < 0 {
		return "", false
	}
	c := &cursor{s: s + " ", final: true}
	v, err := c.pythonValue(0)
	return v, err == nil && c.i == len(s)
}

// jsonType names the type of a JSON value as schemas do.
func jsonType(v string) string {
	switch v[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "quoted" // the text is quoted because it would otherwise have another type
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	if strings.ContainsAny(v, ".eE") {
		return "number"
	}
	return "integer"
}

// deref follows $ref references in a schema to other parts of root, which is the
// parameter schema of a function. A reference that cannot be resolved leaves the
// schema as it is.
func deref(root *Dict, v Value) Value {
	for range 8 {
		ref, ok := text(field(v, "$ref"))
		pointer, local := strings.CutPrefix(ref, "#/")
		if !ok || !local {
			return v
		}
		var to Value = root
		for _, key := range strings.Split(pointer, "/") {
			to = field(to, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
		}
		if to == nil {
			return v
		}
		v = to
	}
	return v
}

// schemaTypes returns the types that a schema states. root is the parameter
// schema of the function.
func schemaTypes(root *Dict, v Value, depth int) map[string]bool {
	d, ok := deref(root, v).(*Dict)
	if !ok || depth > 8 {
		return nil
	}
	out := map[string]bool{}
	add := func(name string) {
		out[name] = true
		if name == "number" {
			out["integer"] = true
		}
	}
	switch t := lookup(d, "type").(type) {
	case *jinja.Str:
		add(t.String())
	case *List:
		for i := range t.Len() {
			if name, ok := text(t.At(i)); ok {
				add(name)
			}
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if l, ok := lookup(d, key).(*List); ok {
			for i := range l.Len() {
				for name := range schemaTypes(root, l.At(i), depth+1) {
					add(name)
				}
			}
		}
	}
	if l, ok := lookup(d, "enum").(*List); ok && len(out) == 0 {
		for i := range l.Len() {
			if _, ok := text(l.At(i)); ok {
				add("string")
			}
		}
	}
	return out
}
