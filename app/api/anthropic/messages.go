// Package anthropic is the dialect of Anthropic's Messages API, with tools,
// thinking, and named stream events.
package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
)

// Request is the body of POST /v1/messages.
type Request struct {
	Prompt
	MaxTokens *int `json:"max_tokens" need:"" min:"1" doc:"Most tokens of the answer."`
	wire.Sampling
	Stop   wire.Stops `json:"stop_sequences" doc:"Texts that end the answer."`
	Stream bool       `json:"stream" doc:"Send the answer as named events."`
}

// Prompt is what a request and a count of its tokens share.
type Prompt struct {
	Model    string            `json:"model" most:"512" doc:"Name of the model."`
	Messages []json.RawMessage `json:"messages" need:"" doc:"Turns of user and assistant; content is a string or a list of blocks."`
	System   wire.Content      `json:"system" doc:"A string or a list of text blocks."`
	Tools    []Tool            `json:"tools" most:"128" doc:"Functions that the model may call."`
	Choice   *ToolChoice       `json:"tool_choice"`
	Thinking *Thinking         `json:"thinking"`
	Output   *Output           `json:"output_config"`
	Format   *Format           `json:"output_format" doc:"Where the form of the answer was before output_config."`
}

// Tool is a function that the model may call.
type Tool struct {
	Type        string          `json:"type" enum:"custom,function"`
	Name        string          `json:"name" need:""`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

// ToolChoice says whether the model has to call a tool.
type ToolChoice struct {
	Type   string `json:"type" need:"" enum:"auto,any,tool,none"`
	Name   string `json:"name"`
	Single bool   `json:"disable_parallel_tool_use"`
}

// Output says how much effort goes into the answer, and its form.
type Output struct {
	Effort string  `json:"effort" enum:"low,medium,high,xhigh,max"`
	Format *Format `json:"format"`
}

// Format asks for JSON.
type Format struct {
	Type   string          `json:"type" need:"" enum:"json_schema"`
	Schema json.RawMessage `json:"schema" need:""`
}

// Thinking says whether the model thinks first.
type Thinking struct {
	Type   string `json:"type" need:"" enum:"enabled,disabled,adaptive,between_tools"`
	Budget *int   `json:"budget_tokens" min:"1"`
}

// Call is a request, checked.
type Call struct {
	Request
	chat    engine.Chat
	grammar *engine.Grammar
}

// ParseMessages reads and checks a body.
func ParseMessages(body []byte) (*Call, error) {
	c := &Call{}
	if err := wire.Decode(body, &c.Request); err != nil {
		return nil, err
	}
	var err error
	if c.chat, err = c.Prompt.chat(); err != nil {
		return nil, err
	}
	switch {
	case c.Output != nil && c.Output.Format != nil:
		c.grammar, err = wire.SchemaGrammar(c.Output.Format.Schema, "output_config.format.schema")
	case c.Format != nil:
		c.grammar, err = wire.SchemaGrammar(c.Format.Schema, "output_format.schema")
	}
	return c, err
}

// ParseCount reads and checks the body of POST /v1/messages/count_tokens.
func ParseCount(body []byte) (*Prompt, *engine.Chat, error) {
	var p Prompt
	if err := wire.Decode(body, &p); err != nil {
		return nil, nil, err
	}
	chat, err := p.chat()
	return &p, &chat, err
}

// Count is the answer of POST /v1/messages/count_tokens.
type Count struct {
	Tokens int `json:"input_tokens"`
}

// chat translates the prompt.
func (p *Prompt) chat() (engine.Chat, error) {
	var c engine.Chat
	var list []json.RawMessage
	if p.System.Text != "" {
		list = append(list, text("system", p.System.Text))
	}
	if len(p.Messages) == 0 {
		return c, wire.Bad("messages", "want at least one message")
	}
	t := turns{out: list, names: map[string]string{}}
	for i, raw := range p.Messages {
		if err := t.add(raw, fmt.Sprintf("messages[%d]", i)); err != nil {
			return c, err
		}
	}
	c.Messages, c.Continue = wire.RawList(t.out), t.last == "assistant"
	names := map[string]bool{}
	var tools []json.RawMessage
	for i, tool := range p.Tools {
		if err := openai.CheckFunction(tool.Name, tool.Schema, fmt.Sprintf("tools[%d]", i), "input_schema"); err != nil {
			return c, err
		}
		names[tool.Name] = true
		tools = append(tools, tool.openai())
	}
	if len(tools) > 0 {
		c.Tools = wire.RawList(tools)
	}
	if p.Thinking != nil && (p.Thinking.Type == "enabled" || p.Thinking.Type == "disabled") {
		on := p.Thinking.Type == "enabled"
		c.Thinking = &on
	}
	if p.Output != nil && p.Output.Effort != "" {
		o := wire.Object{}
		o.SetText("reasoning_effort", p.Output.Effort)
		c.Kwargs = o.Raw()
	}
	var err error
	c.ToolChoice, err = p.choice(names)
	return c, err
}

func (p *Prompt) choice(names map[string]bool) (string, error) {
	if p.Choice == nil {
		return "", nil
	}
	switch p.Choice.Type {
	case "any":
		if len(names) == 0 {
			return "", wire.Bad("tool_choice", "any, and there are no tools")
		}
		return "required", nil
	case "tool":
		if !names[p.Choice.Name] {
			return "", wire.Bad("tool_choice.name", "there is no tool called %.64q", p.Choice.Name)
		}
		return p.Choice.Name, nil
	}
	return p.Choice.Type, nil // auto, none
}

// openai is the tool in OpenAI's form.
func (t *Tool) openai() json.RawMessage {
	f := wire.Object{}
	f.SetText("name", t.Name)
	if t.Description != "" {
		f.SetText("description", t.Description)
	}
	if !wire.IsNull(t.Schema) {
		f.Set("parameters", t.Schema)
	}
	o := wire.Object{}
	o.SetText("type", "function")
	o.Set("function", f.Raw())
	return o.Raw()
}

// text is a message of plain text.
func text(role, content string) json.RawMessage {
	o := wire.Object{}
	o.SetText("role", role)
	o.SetText("content", content)
	return o.Raw()
}

// turns collects messages in OpenAI's form.
type turns struct {
	out   []json.RawMessage
	names map[string]string // of called tools, by id
	last  string            // role of the last message
}

// add translates one message, which may become several: the results of tools
// are messages of their own.
func (t *turns) add(raw json.RawMessage, path string) error {
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return err
	}
	role, err := wire.Text(o.Value("role"), path+".role")
	if err != nil {
		return err
	}
	if role != "user" && role != "assistant" {
		return wire.Bad(path+".role", "%.64q is not one of user, assistant", role)
	}
	t.last = role
	content := o.Value("content")
	if wire.Kind(content) != "a list" {
		s, err := wire.ReadContent(content, path+".content")
		t.out = append(t.out, text(role, s))
		return err
	}
	blocks, err := wire.List(content, path+".content")
	if err != nil {
		return err
	}
	m := turn{t: t}
	for i, b := range blocks {
		if err := m.block(role, b, fmt.Sprintf("%s.content[%d]", path, i)); err != nil {
			return err
		}
	}
	m.flush(role)
	return nil
}

// turn is a message being translated.
type turn struct {
	t     *turns
	text  []string
	think []string
	calls []json.RawMessage
	sent  bool // something of it has been sent off
}

func (m *turn) block(role string, raw json.RawMessage, path string) error {
	if wire.Kind(raw) == "a string" {
		s, err := wire.Text(raw, path)
		m.text = append(m.text, s)
		return err
	}
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return err
	}
	kind, err := wire.Text(o.Value("type"), path+".type")
	if err != nil {
		return err
	}
	switch {
	case kind == "text":
		s, err := wire.Text(o.Value("text"), path+".text")
		m.text = append(m.text, s)
		return err
	case kind == "thinking" && role == "assistant":
		s, err := wire.Text(o.Value("thinking"), path+".thinking")
		m.think = append(m.think, s)
		return err
	case kind == "redacted_thinking" && role == "assistant":
		return nil
	case kind == "tool_use" && role == "assistant":
		return m.toolUse(o, path)
	case kind == "tool_result" && role == "user":
		return m.toolResult(o, path)
	}
	e := wire.Bad(path, "blocks of type %.64q are not supported in a message of the %s, this model reads text", kind, role)
	e.Code = "unsupported_content"
	return e
}

func (m *turn) toolUse(o wire.Object, path string) error {
	id, err := wire.Text(o.Value("id"), path+".id")
	if err != nil {
		return err
	}
	name, err := wire.Text(o.Value("name"), path+".name")
	if err != nil {
		return err
	}
	input := o.Value("input")
	if input == nil {
		input = json.RawMessage("{}")
	}
	if wire.Kind(input) != "an object" {
		return wire.Bad(path+".input", "want an object, got %s", wire.Kind(input))
	}
	m.t.names[id] = name
	m.calls = append(m.calls, wire.FunctionCall(id, name, input))
	return nil
}

func (m *turn) toolResult(o wire.Object, path string) error {
	id, err := wire.Text(o.Value("tool_use_id"), path+".tool_use_id")
	if err != nil {
		return err
	}
	content, err := wire.ReadContent(o.Value("content"), path+".content")
	if err != nil {
		return err
	}
	if len(m.text) > 0 {
		m.flush("user")
	}
	r := wire.Object{}
	r.SetText("role", "tool")
	if name := m.t.names[id]; name != "" {
		r.SetText("name", name)
	}
	r.SetText("tool_call_id", id)
	r.SetText("content", content)
	m.t.out, m.sent = append(m.t.out, r.Raw()), true
	return nil
}

// flush sends off what has been collected, an empty message too if nothing
// else came of the turn.
func (m *turn) flush(role string) {
	if m.sent && len(m.text) == 0 {
		return
	}
	o := wire.Object{}
	o.SetText("role", role)
	if len(m.text) == 0 && len(m.calls) > 0 {
		o.Set("content", json.RawMessage("null"))
	} else {
		o.SetText("content", strings.Join(m.text, "\n"))
	}
	if len(m.think) > 0 {
		o.SetText("reasoning_content", strings.Join(m.think, "\n"))
	}
	if len(m.calls) > 0 {
		o.Set("tool_calls", wire.RawList(m.calls))
	}
	m.t.out, m.text, m.sent = append(m.t.out, o.Raw()), nil, true
}

// Head says what the request is for.
func (c *Call) Head() wire.Head {
	return wire.Head{Model: c.Model, Stream: c.Request.Stream, OneCall: c.Choice != nil && c.Choice.Single}
}

// Requests translates the request.
func (c *Call) Requests(m *wire.Model) ([]engine.Request, error) {
	r, err := m.Base(&c.Sampling)
	if err != nil {
		return nil, err
	}
	chat := c.chat
	if chat.Kwargs, err = wire.Kwargs(m.Defaults.Kwargs, c.chat.Kwargs); err != nil {
		return nil, err
	}
	r.Chat = m.Chat(chat)
	r.Stop, r.MaxTokens, r.Grammar = c.Stop, *c.MaxTokens, c.grammar
	return []engine.Request{r}, nil
}
