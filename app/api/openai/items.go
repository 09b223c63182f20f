package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"godwit/app/api/wire"
)

// items collects messages. Reasoning, text and calls of one assistant turn are
// separate items in the request. Here they become one message.
type items struct {
	c     *Responses
	out   []json.RawMessage
	turn  wire.Object // assistant turn that is being collected; nil without one
	calls []json.RawMessage
	names map[string]string // names of called functions, by call id
}

func (in *items) say(role, content string) {
	o := wire.Object{}
	o.SetText("role", role)
	o.SetText("content", content)
	in.out = append(in.out, o.Raw())
}

// flush ends the assistant's turn.
func (in *items) flush() {
	if in.turn == nil && in.calls == nil {
		return
	}
	o := wire.Object{}
	o.SetText("role", "assistant")
	for _, m := range in.turn {
		o.Set(m.Key, m.Value)
	}
	if in.calls != nil {
		o.Set("tool_calls", wire.RawList(in.calls))
	}
	in.out, in.turn, in.calls = append(in.out, o.Raw()), nil, nil
}

// kindOf returns the type of an item. Messages may leave it out.
func kindOf(o wire.Object, path string) (string, error) {
	if v := o.Value("type"); v != nil {
		return wire.Text(v, path+".type")
	}
	return "message", nil
}

// resolve replaces a reference by the referenced item.
func (c *Responses) resolve(raw json.RawMessage, path string) (json.RawMessage, error) {
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(o, path)
	// an object with only an id is also a reference
	if err != nil || kind != "item_reference" && !(len(o) == 1 && o.Value("id") != nil) {
		return raw, err
	}
	id, err := wire.Text(o.Value("id"), path+".id")
	if err != nil {
		return nil, err
	}
	return c.memory.item(id, path+".id")
}

func (in *items) add(raw json.RawMessage, path string) error {
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return err
	}
	kind, err := kindOf(o, path)
	if err != nil {
		return err
	}
	switch kind {
	case "message":
		return in.message(o, path)
	case "reasoning":
		return in.reasoning(o, path)
	case "function_call":
		return in.function(o, path)
	case "custom_tool_call":
		return in.custom(o, path)
	case "local_shell_call":
		action := o.Value("action")
		if wire.Kind(action) != "an object" {
			return wire.Bad(path+".action", "want an object, got %s", wire.Kind(action))
		}
		a, err := wire.ReadObject(action, path+".action")
		if err != nil {
			return err
		}
		a.Remove("type")
		return in.call(o, "local_shell", a.Raw(), path)
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
		return in.output(o, path)
	}
	if strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_call_output") || strings.HasPrefix(kind, "mcp_") || strings.HasSuffix(kind, "compaction") {
		in.c.notices.Add("items of type %.64q skipped, because another server made them", kind)
		return nil
	}
	return wire.Bad(path+".type", "items of type %.64q are not supported", kind)
}

func (in *items) message(o wire.Object, path string) error {
	role, err := wire.Text(o.Value("role"), path+".role")
	if err != nil {
		return err
	}
	content, err := wire.ReadParts(o.Value("content"), path+".content")
	if err != nil {
		return err
	}
	if role != "assistant" {
		in.flush()
		m := wire.Object{}
		m.SetText("role", role)
		m.Set("content", content)
		in.out = append(in.out, m.Raw())
		return nil
	}
	if in.turn.Has("content") || in.calls != nil {
		in.flush()
	}
	in.turn.Set("content", content)
	return nil
}

func (in *items) reasoning(o wire.Object, path string) error {
	text := ""
	for _, key := range []string{"content", "encrypted_content", "summary"} {
		raw := o.Value(key)
		if raw == nil || text != "" {
			continue
		}
		if key == "encrypted_content" {
			s, err := wire.Text(raw, path+"."+key)
			if err != nil {
				return err
			}
			text = wire.Carried(s)
			continue
		}
		list, err := wire.List(raw, path+"."+key)
		if err != nil {
			return err
		}
		for i, part := range list {
			p, err := wire.ReadObject(part, fmt.Sprintf("%s.%s[%d]", path, key, i))
			if err != nil {
				return err
			}
			s, err := wire.Text(p.Value("text"), fmt.Sprintf("%s.%s[%d].text", path, key, i))
			if err != nil {
				return err
			}
			text += s
		}
	}
	in.flush()
	if text != "" {
		in.turn.SetText("reasoning_content", text)
	}
	return nil
}

// named returns the name that the model uses for the tool of a call.
func named(o wire.Object, path string) (string, error) {
	name, err := wire.Text(o.Value("name"), path+".name")
	if err != nil {
		return "", err
	}
	namespace := ""
	if v := o.Value("namespace"); v != nil {
		if namespace, err = wire.Text(v, path+".namespace"); err != nil {
			return "", err
		}
	}
	return qualified(namespace, name), nil
}

func (in *items) function(o wire.Object, path string) error {
	name, err := named(o, path)
	if err != nil {
		return err
	}
	args, err := wire.Text(o.Value("arguments"), path+".arguments")
	if err != nil {
		return err
	}
	return in.call(o, name, json.RawMessage(args), path)
}

func (in *items) custom(o wire.Object, path string) error {
	name, err := named(o, path)
	if err != nil {
		return err
	}
	input, err := wire.Text(o.Value("input"), path+".input")
	if err != nil {
		return err
	}
	args := wire.Object{}
	args.SetText("input", input)
	return in.call(o, name, args.Raw(), path)
}

// call adds a call to the assistant turn.
func (in *items) call(o wire.Object, name string, args json.RawMessage, path string) error {
	id, err := wire.Text(o.Value("call_id"), path+".call_id")
	if err != nil {
		return err
	}
	if in.names == nil {
		in.names = map[string]string{}
	}
	in.names[id] = name
	f, call := wire.Object{}, wire.Object{}
	f.SetText("name", name)
	f.SetText("arguments", string(args))
	call.SetText("id", id)
	call.SetText("type", "function")
	call.Set("function", f.Raw())
	in.calls = append(in.calls, call.Raw())
	return nil
}

func (in *items) output(o wire.Object, path string) error {
	key := "call_id"
	if o.Value(key) == nil && o.Value("id") != nil { // local shell calls have their id here
		key = "id"
	}
	id, err := wire.Text(o.Value(key), path+"."+key)
	if err != nil {
		return err
	}
	text, err := in.outputText(o.Value("output"), path+".output")
	if err != nil {
		return err
	}
	in.flush()
	m := wire.Object{}
	m.SetText("role", "tool")
	if name := in.names[id]; name != "" {
		m.SetText("name", name)
	}
	m.SetText("tool_call_id", id)
	m.SetText("content", text)
	in.out = append(in.out, m.Raw())
	return nil
}

// outputText returns the text of a tool's output. Images and files are replaced
// by their name instead of being rejected, because the user cannot change the
// result of an agent's tool.
func (in *items) outputText(raw json.RawMessage, path string) (string, error) {
	if wire.Kind(raw) != "a list" {
		return wire.ReadContent(raw, path)
	}
	list, err := wire.List(raw, path)
	if err != nil {
		return "", err
	}
	for i, part := range list {
		o, err := wire.ReadObject(part, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			continue // plain text, or a form that ReadContent rejects
		}
		var kind string
		_ = json.Unmarshal(o.Value("type"), &kind) // ReadContent rejects other forms
		if kind == "input_image" || kind == "input_file" {
			in.c.notices.Add("parts of type %.64q in tool outputs left out, because only text is supported", kind)
			text := wire.Object{}
			text.SetText("type", "input_text")
			text.SetText("text", fmt.Sprintf("[%s left out: only text is read here]", kind))
			list[i] = text.Raw()
		}
	}
	return wire.ReadContent(wire.RawList(list), path)
}
