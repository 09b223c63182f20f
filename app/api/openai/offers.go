package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"godwit/app/api/wire"
)

// origin is the tool of the request that a function stands for.
type origin struct {
	kind      string // type of the output item for a call
	name      string
	namespace string
}

// offers holds the tools of a responses request, converted to functions.
type offers struct {
	list    []json.RawMessage // functions in the form of chat completions
	from    map[string]origin // origins by the name that the model sees
	skipped string            // type of the first tool that was left out
}

// localShell is the function that replaces a tool of type local_shell.
const localShell = `{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"},"description":"The command and its arguments"},"working_directory":{"type":"string"},"timeout_ms":{"type":"integer"},"env":{"type":"object"}},"required":["command"]}`

// qualified returns the name that the model sees for a function in a namespace.
func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return strings.TrimSuffix(namespace, "__") + "__" + name
}

// offers reads the tools. Tools that this server cannot offer are left out with a
// notice. A request that has only such tools is rejected.
func (c *Responses) offers() (*offers, error) {
	o := &offers{from: map[string]origin{}}
	for i, raw := range c.Tools {
		if err := c.tool(o, raw, "", fmt.Sprintf("tools[%d]", i)); err != nil {
			return nil, err
		}
	}
	if len(o.list) == 0 && o.skipped != "" {
		return nil, wire.Bad("tools[0].type", "%.64q is not supported, and the request has no other tool", o.skipped)
	}
	return o, nil
}

func (c *Responses) tool(o *offers, raw json.RawMessage, namespace, path string) error {
	t, err := wire.ReadObject(raw, path)
	if err != nil {
		return err
	}
	kind, err := wire.Text(t.Value("type"), path+".type")
	if err != nil {
		return err
	}
	switch kind {
	case "function":
		return c.function(o, t, namespace, path)
	case "custom":
		return c.custom(o, t, namespace, path)
	case "local_shell":
		f := wire.Object{}
		f.SetText("name", kind)
		f.SetText("description", "Run a command on the user's machine.")
		f.Set("parameters", json.RawMessage(localShell))
		o.add(c, f, origin{"local_shell_call", kind, ""})
		return nil
	case "namespace":
		name, err := wire.Text(t.Value("name"), path+".name")
		if err != nil {
			return err
		}
		list, err := wire.List(t.Value("tools"), path+".tools")
		if err != nil {
			return err
		}
		if namespace != "" {
			return wire.Bad(path, "a namespace cannot contain a namespace")
		}
		for i, inner := range list {
			if err := c.tool(o, inner, name, fmt.Sprintf("%s.tools[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	}
	if o.skipped == "" {
		o.skipped = kind
	}
	c.notices.Add("%s skipped: this server does not run tools of type %.64q", path, kind)
	return nil
}

// add offers a function under a unique name.
func (o *offers) add(c *Responses, f wire.Object, from origin) {
	name := qualified(from.namespace, from.name)
	if _, taken := o.from[name]; taken {
		c.notices.Add("a second tool named %.128q skipped", name)
		return
	}
	f.SetText("name", name)
	t := wire.Object{}
	t.SetText("type", "function")
	t.Set("function", f.Raw())
	o.list, o.from[name] = append(o.list, t.Raw()), from
}

func (c *Responses) function(o *offers, t wire.Object, namespace, path string) error {
	name, err := wire.Text(t.Value("name"), path+".name")
	if err != nil {
		return err
	}
	if err := CheckFunction(name, t.Value("parameters"), path, "parameters"); err != nil {
		return err
	}
	f := wire.Object{}
	for _, m := range t {
		if m.Key != "type" && m.Key != "defer_loading" && m.Key != "output_schema" && !wire.IsNull(m.Value) {
			f.Set(m.Key, m.Value)
		}
	}
	o.add(c, f, origin{"function_call", name, namespace})
	return nil
}

// custom offers a tool with text input as a function with one string parameter.
// The model sees the tool's grammar as text. If the call is forced and the
// grammar is a regular expression, the grammar is also enforced.
func (c *Responses) custom(o *offers, t wire.Object, namespace, path string) error {
	name, err := wire.Text(t.Value("name"), path+".name")
	if err != nil {
		return err
	}
	about := ""
	if v := t.Value("description"); v != nil {
		if about, err = wire.Text(v, path+".description"); err != nil {
			return err
		}
	}
	input := wire.Object{}
	input.SetText("type", "string")
	if v := t.Value("format"); v != nil {
		words, pattern, err := customFormat(v, path+".format")
		if err != nil {
			return err
		}
		about = strings.TrimPrefix(about+words, "\n")
		if pattern != "" {
			with := append(input[:1:1], wire.Member{Key: "pattern", Value: wire.JSON(pattern)})
			strict := true
			if _, err := wire.SchemaGrammar(with.Raw(), &strict, path); err == nil {
				input = with
			}
		}
	}
	properties, schema, f := wire.Object{}, wire.Object{}, wire.Object{}
	properties.Set("input", input.Raw())
	schema.SetText("type", "object")
	schema.Set("properties", properties.Raw())
	schema.Set("required", json.RawMessage(`["input"]`))
	f.SetText("name", name)
	if about != "" {
		f.SetText("description", about)
	}
	f.Set("parameters", schema.Raw())
	if err := CheckFunction(name, nil, path, ""); err != nil {
		return err
	}
	o.add(c, f, origin{"custom_tool_call", name, namespace})
	return nil
}

// customFormat describes the required form of a custom tool's input.
func customFormat(raw json.RawMessage, path string) (words, pattern string, err error) {
	f, err := wire.ReadObject(raw, path)
	if err != nil {
		return "", "", err
	}
	kind, err := wire.Text(f.Value("type"), path+".type")
	if err != nil {
		return "", "", err
	}
	switch kind {
	case "text":
		return "", "", nil
	case "grammar":
	default:
		return "", "", wire.Bad(path+".type", "%.64q is not one of text, grammar", kind)
	}
	syntax, err := wire.Text(f.Value("syntax"), path+".syntax")
	if err != nil {
		return "", "", err
	}
	if syntax != "lark" && syntax != "regex" {
		return "", "", wire.Bad(path+".syntax", "%.64q is not one of lark, regex", syntax)
	}
	text, err := wire.Text(f.Value("definition"), path+".definition")
	if err != nil {
		return "", "", err
	}
	if syntax == "regex" {
		return "\nThe input matches this regular expression:\n" + text, "^(?:" + text + ")$", nil
	}
	return "\nThe input follows this Lark grammar:\n" + text, "", nil
}

// plainChoice converts tool_choice to the form for functions, and uses the
// names that the model sees.
func (c *Responses) plainChoice() (json.RawMessage, error) {
	if wire.Kind(c.ToolChoice) != "an object" {
		return c.ToolChoice, nil
	}
	o, err := wire.ReadObject(c.ToolChoice, choiceField)
	if err != nil {
		return nil, err
	}
	if string(o.Value("type")) != `"allowed_tools"` {
		return plainTool(o), nil
	}
	list, err := wire.List(o.Value("tools"), choiceField+".tools")
	if err != nil {
		return c.ToolChoice, nil //nolint:nilerr // the reader of choices says so
	}
	var left []json.RawMessage
	for _, raw := range list {
		t, err := wire.ReadObject(raw, choiceField)
		if err != nil {
			return c.ToolChoice, nil //nolint:nilerr // the reader of choices says so
		}
		p := plainTool(t)
		if t, err = wire.ReadObject(p, choiceField); err != nil {
			return nil, err
		}
		if t.Value("name") != nil || t.Value("function") != nil {
			left = append(left, p)
		}
	}
	if len(left) > 0 { // tools that were left out cannot be called
		o.Set("tools", wire.RawList(left))
	}
	return o.Raw(), nil
}

// plainTool converts the choice of one tool to the choice of a function.
func plainTool(o wire.Object) json.RawMessage {
	var kind, name, namespace string
	for key, dst := range map[string]*string{"type": &kind, "name": &name, "namespace": &namespace} {
		_ = json.Unmarshal(o.Value(key), dst) // other forms are checked when the choice is read
	}
	switch kind {
	case "local_shell":
		name = kind
	case "function", "custom":
	default:
		return o.Raw()
	}
	if name == "" {
		return o.Raw()
	}
	f := wire.Object{}
	f.SetText("type", "function")
	f.SetText("name", qualified(namespace, name))
	return f.Raw()
}
