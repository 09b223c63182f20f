package chat

import (
	"fmt"
	"slices"
	"strings"

	"godwit/engine/chat/jinja"
)

// InputError is a conversation that is wrong in itself.
type InputError struct {
	Path string // path of the field, such as messages[2].content
	Msg  string
}

func (e *InputError) Error() string { return e.Path + ": " + e.Msg }

func badInput(path, format string, args ...any) error {
	return &InputError{Path: path, Msg: fmt.Sprintf(format, args...)}
}

// roles are the roles that templates know. They are part of a template's
// markup, so they are trusted; any other role stays typed text.
var roles = []string{"system", "developer", "user", "assistant", "model", "tool", "function", "ipython", "observation", "documents", "context"}

func trustRole(m *Dict) *Dict {
	if role, ok := text(lookup(m, "role")); ok && slices.Contains(roles, role) {
		m.Set("role", jinja.Trusted(role))
	}
	return m
}

// conversation is an Input on its way into a template.
type conversation struct {
	form     *form
	messages []*Dict
	tools    *List
	inlined  bool // the tools are written as text
	notices  []string
	relaxed  int // how many relaxations were tried

	continues bool // the last message is to be continued
}

// conversation checks the input and brings it into the form that the template
// takes.
func (f *form) conversation(in Input) (*conversation, error) {
	c := &conversation{form: f, continues: in.Continue}
	if in.Messages == nil || in.Messages.Len() == 0 {
		return nil, badInput("messages", "at least one message is needed")
	}
	for _, name := range []string{"messages", "tools"} {
		if lookup(in.Kwargs, name) != nil {
			return nil, badInput("chat_template_kwargs."+name, "is a field of the request, not of the template alone")
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
			return nil, badInput("messages", "the last message must be the assistant's to be continued")
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

// function returns the description inside a tool or a call; some clients send
// it bare.
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

// content brings a message's content into the form that the template takes.
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

// wrap makes a part of a string where the template prints parts only.
func (f *form) wrap(m *Dict) error {
	if !f.caps.Strings && f.caps.Parts {
		m.Set("content", jinja.NewList(dict("type", "text", "text", lookup(m, "content"))))
	}
	return nil
}

// parts checks a list of parts. Templates that print parts get them, others
// their texts, one a line.
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

// calls checks a message's tool calls and brings their arguments into the form
// that the template takes.
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

// arguments turns JSON text into an object or an object into JSON text.
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
		return v, nil // a model may have written anything
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

// lastContent is the text of the last message.
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
