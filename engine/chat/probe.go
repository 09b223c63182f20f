package chat

import (
	"context"
	"strings"
	"time"

	"godwit/engine/chat/jinja"
)

// Caps records what a template supports. It is found by rendering short
// conversations.
type Caps struct {
	System    bool // prints a system message
	Late      bool // prints a system message that follows other turns, at its place
	Developer bool // prints a message of the role developer
	Strings   bool // prints content that is a string
	Parts     bool // prints content that is a list of parts
	Tools     bool // prints the tools
	Calls     bool // prints the tool calls of assistant messages
	Object    bool // requires the arguments of calls as objects instead of JSON text
	Results   bool // prints messages of the role tool
	Null      bool // accepts null as the content of a message with calls
	Reasoning bool // prints the reasoning of assistant messages
	Thinking  bool // has a switch for thinking
}

// The words that probes search for in the output. None of them occurs in a
// template.
const (
	probeUser   = "Xq7user"
	probeSystem = "Xq7system"
	probeAnswer = "Xq7answer"
	probeTool   = "xq7_function"
	probeKey    = "xq7_key"
	probeValue  = "Xq7value"
	probeResult = "Xq7result"
	probeThink  = "Xq7think"
)

// dict returns a mapping with the given keys and values, which alternate.
func dict(pairs ...any) *Dict {
	d := jinja.NewDict()
	for i := 0; i < len(pairs); i += 2 {
		d.Set(pairs[i].(string), value(pairs[i+1]))
	}
	return d
}

// value converts a string, bool or Value to a template value.
func value(v any) Value {
	switch v := v.(type) {
	case string:
		return jinja.Trusted(v)
	case bool:
		return jinja.Bool(v)
	case Value:
		return v
	}
	return jinja.None
}

func message(role string, content any, more ...any) *Dict {
	return dict(append([]any{"role", role, "content", content}, more...)...)
}

// probeLimits are ample for a template that prints a few messages, but low enough
// that some twenty probes do not delay a model's first request.
var probeLimits = jinja.Limits{Steps: 500_000, Memory: 16 << 20}

// try renders messages and returns the text, or "" if the template fails.
func (f *form) try(o Options, tools *List, messages ...Value) string {
	return f.tryInput(o, Input{}, tools, messages...)
}

// thinkingText returns the prompt of a user turn, with thinking switched on or
// off.
func (f *form) thinkingText(o Options, user Value, on bool) string {
	return f.tryInput(o, Input{Thinking: &on, AddGenerationPrompt: true}, nil, user)
}

func (f *form) tryInput(o Options, in Input, tools *List, messages ...Value) string {
	in.Now = time.Unix(0, 0).UTC()
	vars := f.variables(o, in, jinja.NewList(messages...), tools)
	pieces, err := f.tmpl.Render(context.Background(), vars, jinja.Options{Now: in.Now, Limits: &probeLimits})
	if err != nil {
		return ""
	}
	return jinja.Text(pieces)
}

func (f *form) probe(o Options) Caps {
	var c Caps
	f.probeNoTools(o)
	user := message("user", probeUser)
	parts := func(text string) *List { return jinja.NewList(dict("type", "text", "text", text)) }
	c.Strings = strings.Contains(f.try(o, nil, user), probeUser)
	partsText := f.try(o, nil, message("user", parts(probeUser)))
	c.Parts = strings.Contains(partsText, probeUser) && !strings.Contains(partsText, "'type'") && !strings.Contains(partsText, `"type"`)
	if !c.Strings && c.Parts {
		user = message("user", parts(probeUser))
	}
	system := func(role string) bool {
		return strings.Contains(f.try(o, nil, message(role, probeSystem), user), probeSystem) ||
			c.Parts && strings.Contains(f.try(o, nil, message(role, parts(probeSystem)), user), probeSystem)
	}
	c.System = system("system")
	late := f.try(o, nil, user, message("assistant", probeAnswer), message("system", probeSystem), user)
	c.Late = c.System && strings.Index(late, probeSystem) > strings.Index(late, probeAnswer)
	c.Developer = system("developer")
	tools := probeTools()
	c.Tools = strings.Contains(f.try(o, tools, user), probeTool)
	f.probeCalls(o, &c, tools, user)
	think := func(field string) bool {
		return strings.Contains(f.try(o, nil, user, message("assistant", probeAnswer, field, probeThink)), probeThink)
	}
	c.Reasoning = think("reasoning_content") || think("reasoning") || think("thinking")
	c.Thinking = f.thinkingText(o, user, true) != f.thinkingText(o, user, false)
	return c
}

// probeTools is a list of one tool with every field that templates read.
func probeTools() *List {
	return jinja.NewList(dict("type", "function", "function", dict(
		"name", probeTool, "description", "d",
		"parameters", dict("type", "object", "properties", dict("city", dict("type", "string", "description", "d")), "required", jinja.NewList()))))
}

// probeNoTools finds out which value the variable tools must have when there are no
// tools. transformers passes None, but some templates need an empty list.
func (f *form) probeNoTools(o Options) {
	f.noTools = jinja.None
	user := message("user", probeUser)
	for _, v := range []Value{jinja.None, nil, jinja.NewList()} {
		f.noTools = v
		if f.try(o, nil, user) != "" {
			return
		}
	}
	f.noTools = jinja.None
}

// probeCalls finds out how the template accepts tool calls and their results.
func (f *form) probeCalls(o Options, c *Caps, tools *List, user Value) {
	call := func(arguments any, content any) *Dict {
		return message("assistant", content, "tool_calls", jinja.NewList(dict(
			"id", "Xq7000000", "type", "function", "function", dict("name", probeTool, "arguments", arguments))))
	}
	works := func(arguments any, wrong string) bool {
		for _, content := range []any{"", nil} {
			s := f.try(o, tools, user, call(arguments, content))
			if strings.Contains(s, probeValue) && !strings.Contains(s, wrong) {
				return true
			}
		}
		return false
	}
	// the template prints an object in Python's notation, or encodes text twice
	object := works(dict(probeKey, probeValue), "'"+probeKey+"'")
	text := works(`{"`+probeKey+`": "`+probeValue+`"}`, `\"`+probeKey)
	c.Object = object
	c.Calls = object || text
	if !c.Calls {
		return
	}
	var arguments any = dict(probeKey, probeValue)
	if !object {
		arguments = `{"` + probeKey + `": "` + probeValue + `"}`
	}
	c.Null = f.try(o, tools, user, call(arguments, nil)) != "" &&
		strings.Count(f.try(o, tools, user, call(arguments, nil)), "None") == strings.Count(f.try(o, tools, user, call(arguments, "")), "None")
	result := message("tool", probeResult, "tool_call_id", "Xq7000000", "name", probeTool)
	for _, content := range []any{"", nil} {
		if strings.Contains(f.try(o, tools, user, call(arguments, content), result), probeResult) {
			c.Results = true
		}
	}
}
