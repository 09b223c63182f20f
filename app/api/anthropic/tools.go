package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
)

// Tool is a function that the model may call.
type Tool struct {
	Type        string          `json:"type" doc:"custom or missing for a client function, otherwise one of Anthropic's tools."`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	Cache       json.RawMessage `json:"cache_control" doc:"Has no effect."`
	Strict      *bool           `json:"strict" doc:"Reject a schema that a forced call cannot follow completely."`
	Defer       *bool           `json:"defer_loading" doc:"Has no effect: every tool is in the prompt."`
	Examples    json.RawMessage `json:"input_examples" doc:"Has no effect."`
	Streaming   *bool           `json:"eager_input_streaming" doc:"Has no effect: input is streamed as it is generated."`
	Callers     json.RawMessage `json:"allowed_callers" doc:"Has no effect: only the model makes calls."`
}

// known lists Anthropic's tools that run on the client, by the prefix of their
// types. Requests contain these tools without a schema.
var known = []struct{ prefix, about, schema string }{
	{
		"bash_", "Run a command in a shell that stays open, or restart that shell.",
		`{"type":"object","properties":{"command":{"type":"string","description":"The command to run"},"restart":{"type":"boolean","description":"Restart the shell instead"}}}`,
	},
	{
		"text_editor_", "View, create and edit text files.",
		`{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string","description":"Path of the file or folder"},"file_text":{"type":"string","description":"Content of a created file"},"old_str":{"type":"string","description":"Text to replace, which occurs once"},"new_str":{"type":"string","description":"Text in its place"},"insert_line":{"type":"integer","description":"Line behind which to insert"},"insert_text":{"type":"string","description":"Text to insert"},"view_range":{"type":"array","items":{"type":"integer"},"description":"First and last line to view"}},"required":["command","path"]}`,
	},
}

// function returns the tool as a client function. It reports false for a tool that
// runs only on Anthropic's servers.
func (t *Tool) function() bool {
	if t.Type == "" || t.Type == "custom" || t.Type == "function" || !wire.IsNull(t.Schema) {
		return true
	}
	for _, k := range known {
		if strings.HasPrefix(t.Type, k.prefix) {
			t.Schema = json.RawMessage(k.schema)
			if t.Description == "" {
				t.Description = k.about
			}
			return true
		}
	}
	return false
}

// tools translates the tools and returns the names of the tools that are
// offered to the model.
func (p *Prompt) tools(r *reading) (map[string]bool, error) {
	names := map[string]bool{}
	var tools []json.RawMessage
	for i := range p.Tools {
		t, path := &p.Tools[i], fmt.Sprintf("tools[%d]", i)
		if !t.function() {
			r.notices.Add("%s skipped: this server does not run tools of type %.64q", path, t.Type)
			continue
		}
		if err := openai.CheckFunction(t.Name, t.Schema, path, "input_schema"); err != nil {
			return nil, err
		}
		names[t.Name] = true
		tools = append(tools, t.openai())
	}
	if len(p.Tools) > 0 && len(tools) == 0 {
		return nil, wire.Bad("tools[0].type", "%.64q is not supported, and the request has no other tool", p.Tools[0].Type)
	}
	if len(tools) > 0 {
		r.chat.Tools = wire.RawList(tools)
	}
	return names, nil
}

func (p *Prompt) choice(names map[string]bool) (string, error) {
	if p.Choice == nil {
		return "", nil
	}
	switch p.Choice.Type {
	case "any":
		if len(names) == 0 {
			return "", wire.Bad("tool_choice", "\"any\" requires at least one tool")
		}
		return "required", nil
	case "tool":
		if !names[p.Choice.Name] {
			return "", wire.Bad("tool_choice.name", "there is no tool named %.64q", p.Choice.Name)
		}
		return p.Choice.Name, nil
	}
	return p.Choice.Type, nil // the choice is auto or none
}

// openai returns the tool in OpenAI's form.
func (t *Tool) openai() json.RawMessage {
	f := wire.Object{}
	f.SetText("name", t.Name)
	if t.Description != "" {
		f.SetText("description", t.Description)
	}
	if !wire.IsNull(t.Schema) {
		f.Set("parameters", t.Schema)
	}
	if t.Strict != nil && *t.Strict {
		f.Set("strict", wire.JSON(true))
	}
	o := wire.Object{}
	o.SetText("type", "function")
	o.Set("function", f.Raw())
	return o.Raw()
}
