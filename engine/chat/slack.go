package chat

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"godwit/engine/chat/jinja"
)

// slack reads values with typical mistakes of models: keys and strings with any
// quotes or without quotes, parentheses instead of braces, = instead of a
// colon, surplus commas, Python's constants, or a missing bracket at the end.
// It uses the schema to find where an unquoted string ends.
type slack struct {
	s    string
	i    int
	root *Dict // schema of the function's parameters, which references point into
}

// quoteMarks may enclose a string. The longest come first.
var quoteMarks = []string{gemmaQuote, `"""`, `"`, `'`, "`"}

func (r *slack) rest() string { return r.s[r.i:] }

func (r *slack) space() {
	r.i = len(r.s) - len(strings.TrimLeftFunc(r.rest(), unicode.IsSpace))
}

// accept reads one of several texts and returns it, or "" if none comes next.
func (r *slack) accept(texts ...string) string {
	for _, t := range texts {
		if strings.HasPrefix(r.rest(), t) {
			r.i += len(t)
			return t
		}
	}
	return ""
}

// value reads a value that a schema describes and returns it as JSON. end
// reports whether rest can follow an unquoted word.
func (r *slack) value(schema Value, depth int, end func(rest string) bool) (string, bool) {
	if depth > maxArgDepth {
		return "", false
	}
	r.space()
	types := schemaTypes(r.root, schema, 0)
	for _, q := range quoteMarks {
		if strings.HasPrefix(r.rest(), q) {
			at := r.i
			s, ok := r.quoted(q)
			switch {
			case ok:
				return unquote(s, types), true
			case q != gemmaQuote:
				return "", false
			}
			r.i = at + len(q) // the closing quote is missing
			return r.word(map[string]bool{"string": true}, end)
		}
	}
	switch {
	case r.accept("{", "(") != "":
		return r.object(schema, depth)
	case r.accept("[") != "":
		return r.list(schema, depth)
	}
	return r.word(types, end)
}

// unquote returns a string as JSON. If the schema does not allow a string, it
// returns the value inside the string.
func unquote(s string, types map[string]bool) string {
	if len(types) > 0 && !types["string"] {
		if v := strings.TrimSpace(s); json.Valid([]byte(v)) && types[jsonType(v)] {
			return v
		}
	}
	return quote(s)
}

// quoted reads a string opened by q. The string ends at the first closing quote
// that is followed by a comma, a colon or a bracket.
func (r *slack) quoted(q string) (string, bool) {
	r.i += len(q)
	s := r.rest()
	var b strings.Builder
	for i := 0; i < len(s); {
		end := ""
		for _, mark := range []string{gemmaQuote, q} {
			if strings.HasPrefix(s[i:], mark) {
				end = mark
				break
			}
		}
		if end != "" && closes(s[i+len(end):]) {
			r.i += i + len(end)
			return b.String(), true
		}
		if s[i] == '\\' && q != gemmaQuote && i+1 < len(s) {
			c := &cursor{s: s[i:], final: true}
			if c.pythonEscape(&b) != nil {
				return "", false
			}
			i += c.i
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return "", false
}

// closes reports whether s can follow a string.
func closes(s string) bool {
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	return s == "" || strings.IndexByte(",:=}])", s[0]) >= 0
}

// word reads a value that is not quoted.
func (r *slack) word(types map[string]bool, end func(rest string) bool) (string, bool) {
	s := r.rest()
	n := strings.IndexFunc(s, func(c rune) bool { return strings.ContainsRune("}])\n", c) })
	if n < 0 {
		n = len(s)
	}
	for i := range n {
		if s[i] == ',' && end(s[i+1:]) {
			n = i
			break
		}
	}
	word := strings.TrimSpace(s[:n])
	r.i += n
	if closed, ok := strings.CutSuffix(word, gemmaQuote); ok {
		word = closed
		types = map[string]bool{"string": true}
	}
	switch {
	case word == "" || strings.ContainsAny(word, "{[(\"<"):
		return "", false
	case word == "True", word == "False":
		word = strings.ToLower(word)
	case word == "None":
		word = "null"
	}
	if json.Valid([]byte(word)) && (len(types) == 0 || types[jsonType(word)]) {
		return word, true
	}
	if !types["string"] {
		return "", false
	}
	return quote(word), true
}

// object reads members up to a closing bracket or the end of the text.
func (r *slack) object(schema Value, depth int) (string, bool) {
	r.space()
	doubled := depth == 0 && r.accept("{") != "" // {{…}} and ({…})
	schema = deref(r.root, schema)
	props, _ := field(schema, "properties").(*Dict)
	var args argList
	for {
		r.space()
		if r.accept(",", ";") != "" {
			continue
		}
		if r.rest() == "" {
			break
		}
		if r.accept("}", ")") != "" {
			if doubled {
				r.space()
				r.accept("}", ")")
			}
			break
		}
		key, ok := r.key()
		if !ok {
			return "", false
		}
		value, ok := r.value(field(props, key), depth+1, func(rest string) bool { return props == nil || nextKey(rest, props) })
		if !ok {
			return "", false
		}
		args.add(key, value)
	}
	return args.String(), true
}

// nextKey reports whether another member of the object follows or the object ends.
func nextKey(rest string, props *Dict) bool {
	r := &slack{s: rest}
	if r.space(); r.rest() == "" || strings.ContainsRune("})", rune(r.rest()[0])) {
		return true
	}
	key, ok := r.key()
	return ok && lookup(props, key) != nil
}

// key reads the name of a member and the separator before its value.
func (r *slack) key() (string, bool) {
	var key string
	for _, q := range quoteMarks {
		if strings.HasPrefix(r.rest(), q) {
			s, ok := r.quoted(q)
			if !ok {
				return "", false
			}
			key = s
			break
		}
	}
	if key == "" {
		n := strings.IndexFunc(r.rest(), func(c rune) bool {
			return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-.@$", c)
		})
		if n <= 0 {
			return "", false
		}
		key = r.rest()[:n]
		r.i += n
	}
	r.space()
	return key, r.accept(":", "=") != ""
}

// list reads items up to a closing bracket or the end of the text.
func (r *slack) list(schema Value, depth int) (string, bool) {
	items := field(deref(r.root, schema), "items")
	var out []string
	for {
		r.space()
		if r.accept(",") != "" {
			continue
		}
		if r.rest() == "" || r.accept("]") != "" {
			return "[" + strings.Join(out, ", ") + "]", true
		}
		v, ok := r.value(items, depth+1, func(string) bool { return true })
		if !ok {
			return "", false
		}
		out = append(out, v)
	}
}

// fits reports whether JSON arguments match the schema of a function. They must
// have all required parameters, no unknown ones, and values of the right types.
func fits(root *Dict, schema Value, raw string, depth int) bool {
	raw = strings.TrimSpace(raw)
	if raw == "" || depth > maxArgDepth {
		return false
	}
	schema = deref(root, schema)
	if types := schemaTypes(root, schema, 0); len(types) > 0 {
		kind := jsonType(raw)
		if raw[0] == '"' {
			kind = "string"
		}
		if !types[kind] {
			return false
		}
	}
	if !enumerated(schema, raw) {
		return false
	}
	switch raw[0] {
	case '[':
		var list []json.RawMessage
		if json.Unmarshal([]byte(raw), &list) != nil {
			return false
		}
		items := field(schema, "items")
		return !slices.ContainsFunc(list, func(item json.RawMessage) bool { return !fits(root, items, string(item), depth+1) })
	case '{':
		return membersFit(root, schema, raw, depth)
	}
	return true
}

func membersFit(root *Dict, schema Value, raw string, depth int) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &members) != nil {
		return false
	}
	if req, ok := field(schema, "required").(*List); ok {
		for i := range req.Len() {
			if key, ok := text(req.At(i)); ok && members[key] == nil {
				return false
			}
		}
	}
	props, _ := field(schema, "properties").(*Dict)
	open := props == nil || field(schema, "patternProperties") != nil
	if more := field(schema, "additionalProperties"); more != nil && more != Value(jinja.Bool(false)) {
		open = true
	}
	for key, value := range members {
		to := lookup(props, key)
		if to == nil && !open || !fits(root, to, string(value), depth+1) {
			return false
		}
	}
	return true
}

// enumerated reports whether a value is in the schema's enum. If there is no
// enum, it returns true.
func enumerated(schema Value, raw string) bool {
	enum, ok := field(schema, "enum").(*List)
	if !ok {
		return true
	}
	var v any
	if json.Unmarshal([]byte(raw), &v) != nil {
		return false
	}
	for i := range enum.Len() {
		var e any
		if b, err := jinja.EncodeJSON(enum.At(i)); err == nil && json.Unmarshal(b, &e) == nil && reflect.DeepEqual(e, v) {
			return true
		}
	}
	return false
}
