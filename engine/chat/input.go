package chat

import (
	"fmt"
	"slices"
	"strings"

	"godwit/engine/chat/jinja"
)

// InputError reports a conversation that is invalid by itself, with any template.
type InputError struct {
	Path string // path of the field, such as messages[2].content
	Msg  string
}

func (e *InputError) Error() string { return e.Path + ": " + e.Msg }

func badInput(path, format string, args ...any) error {
	return &InputError{Path: path, Msg: fmt.Sprintf(format, args...)}
}

// roles are the roles that templates handle. They are trusted, because they are
// part of a template's markup. Any other role is treated as typed text.
var roles = []string{"system", "developer", "user", "assistant", "model", "tool", "function", "ipython", "observation", "documents", "context"}

func trustRole(m *Dict) *Dict {
	if role, ok := text(lookup(m, "role")); ok && slices.Contains(roles, role) {
		m.Set("role", jinja.Trusted(role))
	}
	return m
}

// conversation is an Input that is being adapted to a template.
type conversation struct {
	form     *form
	messages []*Dict
	tools    *List
	inlined  bool // whether the tools were written as text
	notices  []string
	relaxed  int // number of relaxations tried

	continues bool // whether the model continues the last message
}

// conversation checks the input and converts it to the form that the template
// accepts.
func (f *form) conversation(in Input) (*conversation, error) {
	c := &conversation{form: f, continues: in.Continue}
	if in.Messages == nil || in.Messages.Len() == 0 {
		return nil, badInput("messages", "at least one message is needed")
	}
	for _, name := range []string{"messages", "tools"} {
		if lookup(in.Kwargs, name) != nil {
			return nil, badInput("chat_template_kwargs."+name, "must be set as a field of the request, not as a template variable")
		}
	}
	for i := range in.Messages.Len() {
		m, err := f.message(in.Messages.At(i), fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return nil, err
		}
		c.messages = append(c.messages, m)
	}
	if in.Continue {
		if role, _ := text(lookup(c.messages[len(c.messages)-1], "role")); role != "assistant" {
			return nil, badInput("messages", "the last message must be from the assistant to be continued")
		}
	}
	if hasTools(in) {
		if err := checkTools(in.Tools); err != nil {
			return nil, err
		}
		c.tools = in.Tools
	}
	if c.tools != nil && !f.caps.Tools {
		c.inlineTools()
	}
	if !f.caps.Calls || !f.caps.Results {
		c.wordCalls()
	}
	if !f.caps.System && c.has("system") {
		c.foldSystem()
	} else if !f.caps.Late {
		c.gatherSystem()
	}
	return c, nil
}

func checkTools(tools *List) error {
	for i := range tools.Len() {
		path := fmt.Sprintf("tools[%d]", i)
		t, ok := tools.At(i).(*Dict)
		if !ok {
			return badInput(path, "must be an object")
		}
		fn := function(t)
		if name, ok := text(lookup(fn, "name")); !ok || name == "" {
			return badInput(path+".function.name", "must be a string")
		}
		if p := lookup(fn, "parameters"); !isNull(p) {
			if _, ok := p.(*Dict); !ok {
				return badInput(path+".function.parameters", "must be an object")
			}
		}
	}
	return nil
}

// function returns the function object inside a tool or call. Some clients send
// that object without the enclosing one.
func function(t *Dict) *Dict {
	if fn, ok := lookup(t, "function").(*Dict); ok {
		return fn
	}
	return t
}

// message checks one message and returns a copy for the template.
func (f *form) message(v Value, path string) (*Dict, error) {
	in, ok := v.(*Dict)
	if !ok {
		return nil, badInput(path, "must be an object")
	}
	m := in.Clone()
	role, ok := text(lookup(m, "role"))
	if !ok || role == "" {
		return nil, badInput(path+".role", "must be a string")
	}
	switch {
	case role == "developer" && !f.caps.Developer:
		m.Set("role", jinja.Trusted("system"))
	case role == "function":
		m.Set("role", jinja.Trusted("tool"))
	}
	trustRole(m)
	for _, key := range []string{"name", "tool_call_id", "reasoning_content"} {
		if v, ok := m.Get(key); ok && !isNull(v) {
			if _, ok := text(v); !ok {
				return nil, badInput(path+"."+key, "must be a string")
			}
		}
	}
	if err := f.content(m, path); err != nil {
		return nil, err
	}
	return m, f.calls(m, path)
}

// content converts a message's content to the form that the template accepts.
func (f *form) content(m *Dict, path string) error {
	path += ".content"
	switch v := lookup(m, "content").(type) {
	case nil, jinja.NoneType:
		if roleOf(m) != "assistant" || isNull(lookup(m, "tool_calls")) || !f.caps.Null {
			m.Set("content", jinja.Trusted(""))
			return f.wrap(m)
		}
		m.Set("content", jinja.None)
		return nil
	case *jinja.Str:
		return f.wrap(m)
	case *List:
		return f.parts(m, v, path)
	}
	return badInput(path, "must be a string, null or a list of parts")
}

// wrap turns string content into a list with one part if the template prints only
// parts.
func (f *form) wrap(m *Dict) error {
	if !f.caps.Strings && f.caps.Parts {
		m.Set("content", jinja.NewList(dict("type", "text", "text", lookup(m, "content"))))
	}
	return nil
}

// parts checks a list of parts. A template that prints parts gets the list. Other
// templates get the texts, one per line.
func (f *form) parts(m *Dict, l *List, path string) error {
	var texts []Value
	out := jinja.NewList()
	for i := range l.Len() {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch part := l.At(i).(type) {
		case *jinja.Str:
			texts = append(texts, part)
			out.Append(dict("type", "text", "text", part))
		case *Dict:
			s, err := partText(part, at)
			if err != nil {
				return err
			}
			texts = append(texts, s)
			out.Append(dict("type", "text", "text", s))
		default:
			return badInput(at, "must be an object")
		}
	}
	if f.caps.Parts && (len(texts) != 1 || !f.caps.Strings) {
		m.Set("content", out)
		return nil
	}
	m.Set("content", joined(texts))
	return nil
}

// partText returns the text of a part.
func partText(part *Dict, path string) (Value, error) {
	kind, ok := text(lookup(part, "type"))
	if !ok {
		return nil, badInput(path+".type", "must be a string")
	}
	key := ""
	switch kind {
	case "text", "input_text", "output_text":
		key = "text"
	case "refusal":
		key = "refusal"
	case "image_url", "input_image":
		if imageURL(part) == "" {
			return nil, badInput(path+".image_url", "must be the URL of a picture")
		}
		return jinja.Trusted(ImageMarker), nil
	default:
		return nil, badInput(path, "a part of type %q is not supported, only text and image_url are", kind)
	}
	v := lookup(part, key)
	if _, ok := text(v); !ok {
		return nil, badInput(path+"."+key, "must be a string")
	}
	return v, nil
}

// calls checks a message's tool calls and converts their arguments to the form
// that the template accepts.
func (f *form) calls(m *Dict, path string) error {
	v, ok := m.Get("tool_calls")
	if !ok || isNull(v) {
		return nil
	}
	path += ".tool_calls"
	l, ok := v.(*List)
	if !ok {
		return badInput(path, "must be a list")
	}
	out := jinja.NewList()
	for i := range l.Len() {
		at := fmt.Sprintf("%s[%d]", path, i)
		in, ok := l.At(i).(*Dict)
		if !ok {
			return badInput(at, "must be an object")
		}
		call := in.Clone()
		fn, ok := lookup(call, "function").(*Dict)
		if !ok {
			return badInput(at+".function", "must be an object")
		}
		if name, ok := text(lookup(fn, "name")); !ok || name == "" {
			return badInput(at+".function.name", "must be a string")
		}
		fn = fn.Clone()
		args, err := f.arguments(lookup(fn, "arguments"), at+".function.arguments")
		if err != nil {
			return err
		}
		fn.Set("arguments", args)
		call.Set("function", fn)
		out.Append(call)
	}
	m.Set("tool_calls", out)
	return nil
}

// arguments converts JSON text to an object or an object to JSON text, as the
// template requires.
func (f *form) arguments(v Value, path string) (Value, error) {
	switch v := v.(type) {
	case nil, jinja.NoneType:
		return f.arguments(jinja.NewDict(), path)
	case *jinja.Str:
		s := v.String()
		if strings.TrimSpace(s) == "" {
			s = "{}"
		}
		if !f.caps.Object {
			return v, nil
		}
		if obj, err := Decode([]byte(s)); err == nil {
			if _, ok := obj.(*Dict); ok {
				return obj, nil
			}
		}
		return v, nil // text from a model need not be JSON
	case *Dict:
		if f.caps.Object {
			return v, nil
		}
		b, err := jinja.EncodeJSON(v)
		if err != nil {
			return nil, badInput(path, "%v", err)
		}
		return jinja.Typed(string(b)), nil
	}
	return nil, badInput(path, "must be a string or an object")
}

func (c *conversation) has(role string) bool {
	return slices.ContainsFunc(c.messages, func(m *Dict) bool { return roleOf(m) == role })
}

func roleOf(m *Dict) string {
	role, _ := text(lookup(m, "role"))
	return role
}

// list returns the messages as a template value.
func (c *conversation) list() *List {
	l := jinja.NewList()
	for _, m := range c.messages {
		l.Append(m)
	}
	return l
}

// lastContent returns the text of the last message.
func (c *conversation) lastContent() string {
	v := lookup(c.messages[len(c.messages)-1], "content")
	if l, ok := v.(*List); ok && l.Len() > 0 {
		if d, ok := l.At(l.Len() - 1).(*Dict); ok {
			v = lookup(d, "text")
		}
	}
	s, _ := text(v)
	return s
}
