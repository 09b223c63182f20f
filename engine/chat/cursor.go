package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode"
)

// reader reads consecutive calls that follow a marker. It only uses the text to
// decide. It returns errMore if more text could change the outcome, and errBad
// if no continuation can be a call.
type reader func(c *cursor) ([]Call, error)

var (
	errMore = errors.New("more text is needed")
	errBad  = errors.New("not a tool call")
	// errClosed reports that a list of items has no closing bracket.
	errClosed = errors.New("the bracket is missing")
)

// cursor is a read position in the text of a call.
type cursor struct {
	s     string
	i     int
	final bool   // whether the text is complete
	gemma string // name of the function whose Gemma 4 call is being read
	slip  bool   // whether a syntax error was tolerated in the text read so far
	p     *Parser
}

func (c *cursor) rest() string { return c.s[c.i:] }

// end returns the error for text that ends too early.
func (c *cursor) end() error {
	if c.final {
		return errBad
	}
	return errMore
}

func (c *cursor) space() {
	c.i = len(c.s) - len(strings.TrimLeftFunc(c.rest(), unicode.IsSpace))
}

// lit reads exactly tag or fails.
func (c *cursor) lit(tag string) error {
	ok, err := c.maybe(tag)
	if err == nil && !ok {
		return errBad
	}
	return err
}

// maybe reads tag if it comes next.
func (c *cursor) maybe(tag string) (bool, error) {
	rest := c.rest()
	switch {
	case strings.HasPrefix(rest, tag):
		c.i += len(tag)
		return true, nil
	case !c.final && strings.HasPrefix(tag, rest):
		return false, errMore
	}
	return false, nil
}

// oneOf reads the longest of several tags that comes next and returns its index, or
// -1 if no tag matches.
func (c *cursor) oneOf(tags ...string) (int, error) {
	best := -1
	for i, tag := range tags {
		rest := c.rest()
		switch {
		case strings.HasPrefix(rest, tag):
			if best < 0 || len(tag) > len(tags[best]) {
				best = i
			}
		case !c.final && strings.HasPrefix(tag, rest):
			return -1, errMore
		}
	}
	if best >= 0 {
		c.i += len(tags[best])
	}
	return best, nil
}

// close reads white space and an optional closing tag. If the tag is missing,
// the white space stays unread. At the end of the text, white space and a
// truncated tag are consumed.
func (c *cursor) close(tags ...string) error {
	at := c.i
	c.space()
	if c.final {
		for _, tag := range tags {
			if strings.HasPrefix(tag, c.rest()) {
				c.i = len(c.s)
			}
		}
	}
	n, err := c.oneOf(tags...)
	if err == nil && n < 0 && c.i < len(c.s) {
		c.i = at
	}
	return err
}

// until returns the text before tag and skips the tag.
func (c *cursor) until(tag string) (string, error) {
	n := strings.Index(c.rest(), tag)
	if n < 0 {
		return "", c.end()
	}
	out := c.rest()[:n]
	c.i += n + len(tag)
	return out, nil
}

// peek returns the next byte, or 0 at the end of the whole text.
func (c *cursor) peek() (byte, error) {
	if c.i < len(c.s) {
		return c.s[c.i], nil
	}
	if c.final {
		return 0, nil
	}
	return 0, errMore
}

// name reads the name of a function or parameter.
func (c *cursor) name() (string, error) {
	n := strings.IndexFunc(c.rest(), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.:/", r)
	})
	if n < 0 {
		return "", c.end()
	}
	if n == 0 {
		return "", errBad
	}
	out := c.rest()[:n]
	c.i += n
	return out, nil
}

// object reads the JSON object or list that comes next.
func (c *cursor) object() (string, error) {
	first, err := c.peek()
	if err != nil {
		return "", err
	}
	if first != '{' && first != '[' {
		return "", errBad
	}
	depth := 0
	for i := c.i; i < len(c.s); i++ {
		switch c.s[i] {
		case '"':
			n := stringEnd(c.s[i:])
			if n < 0 {
				return "", c.end()
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				out := c.s[c.i : i+1]
				if !json.Valid([]byte(out)) {
					return "", errBad
				}
				c.i = i + 1
				return out, nil
			}
		}
	}
	return "", c.end()
}

// stringEnd returns the length of the JSON string at the start of s, or -1 if the
// string is not closed.
func stringEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// callsOf returns the calls in a JSON document. The document is an object with a
// name and arguments under one of several keys, a list of such objects, or an
// object that contains the list.
func callsOf(doc string) ([]Call, error) {
	if strings.HasPrefix(doc, "[") {
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(doc), &list); err != nil {
			return nil, errBad
		}
		var out []Call
		for _, item := range list {
			calls, err := callsOf(strings.TrimSpace(string(item)))
			if err != nil {
				return nil, err
			}
			out = append(out, calls...)
		}
		if len(out) == 0 {
			return nil, errBad
		}
		return out, nil
	}
	var obj map[string]json.RawMessage
	if err := json.Unmarshal([]byte(doc), &obj); err != nil {
		return nil, errBad
	}
	for _, key := range []string{"tool_calls", "tool_call", "function_call"} {
		if inner, ok := obj[key]; ok && len(obj) == 1 {
			return callsOf(strings.TrimSpace(string(inner)))
		}
	}
	call, err := callOf(obj)
	return []Call{call}, err
}

func callOf(obj map[string]json.RawMessage) (Call, error) {
	var c Call
	if inner, ok := obj["function"]; ok {
		var fn map[string]json.RawMessage
		if json.Unmarshal(inner, &fn) == nil {
			return callOf(fn)
		}
		obj["name"] = inner // {"function": "f", …}
	}
	for _, key := range []string{"name", "tool_name"} {
		if raw, ok := obj[key]; ok && json.Unmarshal(raw, &c.Name) == nil && c.Name != "" {
			break
		}
	}
	if c.Name == "" {
		return c, errBad
	}
	var id string
	if raw, ok := obj["id"]; ok && json.Unmarshal(raw, &id) == nil && len(id) >= 9 {
		c.ID = id
	}
	for _, key := range []string{"arguments", "parameters", "args"} {
		if raw, ok := obj[key]; ok {
			args, err := arguments(string(raw))
			c.Arguments = args
			return c, err
		}
	}
	for _, key := range []string{"name", "tool_name", "tool_call_id", "id", "type", "function"} {
		delete(obj, key)
	}
	flat, err := json.Marshal(obj) // the arguments are the remaining keys of the object
	c.Arguments = string(flat)
	return c, err
}

// arguments reads the arguments of a call.
func (c *cursor) arguments() (string, error) {
	doc, err := c.object()
	if err != nil {
		return "", err
	}
	return arguments(doc)
}

// arguments returns the JSON object that a model gave as arguments. The model may
// have written the object itself or a string that contains it.
func arguments(raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if strings.HasPrefix(raw, `"`) {
		var inner string
		if err := json.Unmarshal([]byte(raw), &inner); err != nil {
			return "", errBad
		}
		if raw = strings.TrimSpace(inner); raw == "" {
			raw = "{}"
		}
	}
	if raw == "null" {
		raw = "{}"
	}
	if !strings.HasPrefix(raw, "{") || !json.Valid([]byte(raw)) {
		return "", errBad
	}
	return raw, nil
}
