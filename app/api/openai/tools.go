package openai

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"godwit/app/api/wire"
)

// functionName matches valid names of functions.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)

// CheckTools checks tools in OpenAI's form.
func CheckTools(tools []json.RawMessage) error {
	_, err := checkTools(tools)
	return err
}

// readTool reads a tool, which is a function.
func readTool(raw json.RawMessage, path string) (wire.Object, error) {
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return nil, err
	}
	kind, err := wire.Text(o.Value("type"), path+".type")
	if err == nil && kind != "function" {
		err = wire.Bad(path+".type", "%.64q is not supported, want function", kind)
	}
	return o, err
}

// checkTools checks the tools and returns their names.
func checkTools(tools []json.RawMessage) ([]string, error) {
	names := make([]string, len(tools))
	for i, raw := range tools {
		path := fmt.Sprintf("tools[%d]", i)
		o, err := readTool(raw, path)
		if err != nil {
			return nil, err
		}
		f, err := wire.ReadObject(o.Value("function"), path+".function")
		if err != nil {
			return nil, err
		}
		name, err := wire.Text(f.Value("name"), path+".function.name")
		if err != nil {
			return nil, err
		}
		if err := CheckFunction(name, f.Value("parameters"), path+".function", "parameters"); err != nil {
			return nil, err
		}
		names[i] = name
	}
	return names, nil
}

// CheckFunction checks the name of a function and the optional schema of its
// arguments.
func CheckFunction(name string, schema json.RawMessage, path, key string) error {
	if !functionName.MatchString(name) {
		return wire.Bad(path+".name", "%.64q: want up to 128 letters, digits, dots, dashes and underscores", name)
	}
	if k := wire.Kind(schema); k != "an object" && k != "nothing" {
		return wire.Bad(path+"."+key, "want a JSON schema, got %s", k)
	}
	return nil
}

// offer checks the tools. It decides which tools the model sees, and whether it
// must call one.
func (c *Chat) offer(tools []json.RawMessage, choice json.RawMessage) error {
	names, err := checkTools(tools)
	if err != nil {
		return err
	}
	var allowed []string
	if c.choice, allowed, err = toolChoice(choice, names); err != nil {
		return err
	}
	var told []json.RawMessage
	for i, name := range names {
		if slices.Contains(allowed, name) {
			told = append(told, tools[i])
		}
	}
	if len(told) > 0 {
		c.tools = wire.RawList(told)
	}
	return nil
}

const choiceField = "tool_choice"

// toolChoice reads tool_choice. It returns auto, none, required or a function's
// name, and the names of the tools that may be called.
func toolChoice(raw json.RawMessage, names []string) (choice string, allowed []string, err error) {
	switch wire.Kind(raw) {
	case "null", "nothing":
		return "", names, nil
	case "a string":
		choice, err = choiceMode(raw, choiceField, names)
		return choice, names, err
	}
	o, err := wire.ReadObject(raw, choiceField)
	if err != nil {
		return "", nil, err
	}
	kind := "function"
	if v := o.Value("type"); v != nil {
		if kind, err = wire.Text(v, choiceField+".type"); err != nil {
			return "", nil, err
		}
	}
	switch kind {
	case "function":
		choice, err = choiceName(o, choiceField, names)
		return choice, names, err
	case "allowed_tools":
		return allowedTools(o, names)
	}
	return "", nil, wire.Bad(choiceField+".type", "%.64q is not supported, want function or allowed_tools", kind)
}

// choiceMode reads none, auto or required.
func choiceMode(raw json.RawMessage, path string, names []string) (string, error) {
	s, err := wire.Text(raw, path)
	if err != nil {
		return "", err
	}
	switch s {
	case "auto", "none":
		return s, nil
	case "required":
		if len(names) == 0 {
			return "", wire.Bad(path, "required is only possible with at least one tool")
		}
		return s, nil
	}
	return "", wire.Bad(path, "%.64q is not one of none, auto, required", s)
}

// choiceName reads the name of an offered function, in the form of chat completions
// or of the responses API.
func choiceName(o wire.Object, path string, names []string) (string, error) {
	raw, at := o.Value("name"), path+".name"
	if f := o.Value("function"); f != nil || raw == nil {
		at = path + ".function"
		inner, err := wire.ReadObject(f, at)
		if err != nil {
			return "", err
		}
		raw, at = inner.Value("name"), at+".name"
	}
	s, err := wire.Text(raw, at)
	if err != nil {
		return "", err
	}
	if !slices.Contains(names, s) {
		return "", wire.Bad(path, "there is no tool named %.64q", s)
	}
	return s, nil
}

// allowedTools reads a choice of some of the tools. The model does not see the
// other tools, so it cannot call them.
func allowedTools(o wire.Object, names []string) (choice string, allowed []string, err error) {
	path := choiceField
	if v := o.Value("allowed_tools"); v != nil { // chat completions have this form
		path += ".allowed_tools"
		if o, err = wire.ReadObject(v, path); err != nil {
			return "", nil, err
		}
	}
	list, err := wire.List(o.Value("tools"), path+".tools")
	if err != nil {
		return "", nil, err
	}
	if len(list) == 0 {
		return "", nil, wire.Bad(path+".tools", "the list is empty")
	}
	for i, raw := range list {
		at := fmt.Sprintf("%s.tools[%d]", path, i)
		tool, err := wire.ReadObject(raw, at)
		if err != nil {
			return "", nil, err
		}
		name, err := choiceName(tool, at, names)
		if err != nil {
			return "", nil, err
		}
		allowed = append(allowed, name)
	}
	choice, err = choiceMode(o.Value("mode"), path+".mode", allowed)
	return choice, allowed, err
}
