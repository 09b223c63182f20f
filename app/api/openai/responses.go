package openai

import (
	"encoding/json"
	"fmt"

	"godwit/app/api/wire"
	"godwit/engine"
)

// ResponsesRequest is the body of POST /v1/responses.
type ResponsesRequest struct {
	Model        string            `json:"model" most:"512" doc:"Name of the model."`
	Input        json.RawMessage   `json:"input" need:"" doc:"A text, or a list of messages, function calls and their outputs."`
	Instructions string            `json:"instructions" doc:"System message in front of the input."`
	Tools        []json.RawMessage `json:"tools" doc:"Functions that the model may call."`
	ToolChoice   json.RawMessage   `json:"tool_choice" doc:"none, auto, required, one function as {\"type\": \"function\", \"name\": …}, or some of them as {\"type\": \"allowed_tools\", \"mode\": …, \"tools\": […]}."`
	Parallel     *bool             `json:"parallel_tool_calls" doc:"false: at most one call."`
	Text         *ResponseText     `json:"text"`
	Reasoning    *ReasoningOptions `json:"reasoning"`
	wire.Sampling
	MaxTokens   *int            `json:"max_output_tokens" min:"-1" doc:"Most tokens of the answer; -1: until the context is full."`
	TopLogprobs *int            `json:"top_logprobs" min:"0" max:"20"`
	Stop        wire.Stops      `json:"stop" doc:"Texts that end the answer."`
	Stream      bool            `json:"stream" doc:"Send the answer as named events."`
	Template    string          `json:"chat_template" doc:"Must be empty: the model's own chat template is used."`
	Store       bool            `json:"store" doc:"Must not be true: nothing is stored."`
	Previous    string          `json:"previous_response_id" doc:"Must not be set: nothing is stored."`
	Talk        json.RawMessage `json:"conversation" doc:"Must not be set: nothing is stored."`
	Stored      json.RawMessage `json:"prompt" doc:"Must not be set: nothing is stored."`
	Background  bool            `json:"background"`
	Metadata    json.RawMessage `json:"metadata"`
}

// ResponseText is the form of the answer.
type ResponseText struct {
	Format *TextFormat `json:"format"`
}

// TextFormat asks for JSON.
type TextFormat struct {
	Type   string          `json:"type" need:"" enum:"text,json_object,json_schema"`
	Name   string          `json:"name,omitempty" most:"256"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Strict *bool           `json:"strict,omitempty"`
}

// ReasoningOptions say how much the model thinks first.
type ReasoningOptions struct {
	Effort  string `json:"effort,omitempty" enum:"none,minimal,low,medium,high,xhigh,max"`
	Summary string `json:"summary,omitempty"`
}

// Responses is a request of the responses API.
type Responses struct {
	ResponsesRequest
	chat    Chat
	choices json.RawMessage // tool_choice as it is told back
}

// ParseResponses reads and checks a body.
func ParseResponses(body []byte) (*Responses, error) {
	c := &Responses{}
	if err := wire.Decode(body, &c.ResponsesRequest); err != nil {
		return nil, err
	}
	switch {
	case c.Template != "":
		return nil, NoTemplate("chat_template")
	case c.Store:
		return nil, wire.Bad("store", "true is not supported, no responses are stored")
	case c.Previous != "":
		return nil, wire.Bad("previous_response_id", "not supported, no responses are stored; send the conversation in input")
	case !wire.IsNull(c.Talk):
		return nil, wire.Bad("conversation", "not supported, no conversations are stored; send the conversation in input")
	case !wire.IsNull(c.Stored):
		return nil, wire.Bad("prompt", "not supported, no prompts are stored; send its text in input")
	case c.Background:
		return nil, wire.Bad("background", "true is not supported")
	}
	err := unlimited(&c.MaxTokens, "max_output_tokens")
	if err != nil {
		return nil, err
	}
	if c.chat.messages, err = c.messages(); err != nil {
		return nil, err
	}
	tools, err := c.functions()
	if err != nil {
		return nil, err
	}
	if err := c.chat.offer(tools, c.ToolChoice); err != nil {
		return nil, err
	}
	if c.choices = c.ToolChoice; wire.IsNull(c.choices) {
		c.choices = json.RawMessage(`"auto"`)
	}
	if c.Reasoning != nil {
		c.chat.ReasoningEffort = c.Reasoning.Effort
	}
	if c.Text != nil && c.Text.Format != nil {
		if c.chat.grammar, err = c.Text.Format.grammar(); err != nil {
			return nil, err
		}
	}
	return c, c.chat.thinking()
}

func (f *TextFormat) grammar() (*engine.Grammar, error) {
	switch {
	case f.Type == "json_object":
		return engine.JSONGrammar(), nil
	case f.Type == "text":
		return nil, nil
	case wire.IsNull(f.Schema):
		return nil, wire.Bad("text.format.schema", "this field is required")
	}
	return wire.SchemaGrammar(f.Schema, "text.format.schema")
}

// functions brings the tools into the form of chat completions.
func (c *Responses) functions() ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(c.Tools))
	for i, raw := range c.Tools {
		path := fmt.Sprintf("tools[%d]", i)
		o, err := readTool(raw, path)
		if err != nil {
			return nil, err
		}
		f := wire.Object{}
		for _, m := range o {
			if m.Key != "type" && !wire.IsNull(m.Value) {
				f.Set(m.Key, m.Value)
			}
		}
		t := wire.Object{}
		t.SetText("type", "function")
		t.Set("function", f.Raw())
		out[i] = t.Raw()
	}
	return out, nil
}

// messages brings the input into the form of chat completions.
func (c *Responses) messages() (json.RawMessage, error) {
	var in items
	if c.Instructions != "" {
		in.say("system", c.Instructions)
	}
	if wire.Kind(c.Input) != "a list" {
		s, err := wire.Text(c.Input, "input")
		if err != nil {
			return nil, err
		}
		in.say("user", s)
		return Messages(in.out, "input")
	}
	list, err := wire.List(c.Input, "input")
	if err != nil {
		return nil, err
	}
	for i, raw := range list {
		if err := in.add(raw, fmt.Sprintf("input[%d]", i)); err != nil {
			return nil, err
		}
	}
	in.flush()
	return Messages(in.out, "input")
}

// items collects messages. Reasoning, text and calls of one turn of the
// assistant are items of their own here and become one message.
type items struct {
	out   []json.RawMessage
	turn  wire.Object // of the assistant, being collected; nil: none
	calls []json.RawMessage
	names map[string]string // of called functions, by call
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

func (in *items) add(raw json.RawMessage, path string) error {
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return err
	}
	kind := "message"
	if v := o.Value("type"); v != nil {
		if kind, err = wire.Text(v, path+".type"); err != nil {
			return err
		}
	}
	switch kind {
	case "message":
		return in.message(o, path)
	case "reasoning":
		return in.reasoning(o, path)
	case "function_call":
		return in.call(o, path)
	case "function_call_output":
		return in.output(o, path)
	}
	return wire.Bad(path+".type", "items of type %.64q are not supported", kind)
}

func (in *items) message(o wire.Object, path string) error {
	role, err := wire.Text(o.Value("role"), path+".role")
	if err != nil {
		return err
	}
	text, err := wire.ReadContent(o.Value("content"), path+".content")
	if err != nil {
		return err
	}
	if role != "assistant" {
		in.flush()
		in.say(role, text)
		return nil
	}
	if in.turn.Has("content") || in.calls != nil {
		in.flush()
	}
	in.turn.SetText("content", text)
	return nil
}

func (in *items) reasoning(o wire.Object, path string) error {
	text := ""
	for _, key := range []string{"content", "summary"} {
		raw := o.Value(key)
		if raw == nil || text != "" {
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

func (in *items) call(o wire.Object, path string) error {
	id, err := wire.Text(o.Value("call_id"), path+".call_id")
	if err != nil {
		return err
	}
	name, err := wire.Text(o.Value("name"), path+".name")
	if err != nil {
		return err
	}
	args, err := wire.Text(o.Value("arguments"), path+".arguments")
	if err != nil {
		return err
	}
	if in.names == nil {
		in.names = map[string]string{}
	}
	in.names[id] = name
	f, call := wire.Object{}, wire.Object{}
	f.SetText("name", name)
	f.SetText("arguments", args)
	call.SetText("id", id)
	call.SetText("type", "function")
	call.Set("function", f.Raw())
	in.calls = append(in.calls, call.Raw())
	return nil
}

func (in *items) output(o wire.Object, path string) error {
	id, err := wire.Text(o.Value("call_id"), path+".call_id")
	if err != nil {
		return err
	}
	text, err := wire.ReadContent(o.Value("output"), path+".output")
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

// Head says what the request is for.
func (c *Responses) Head() wire.Head {
	return wire.Head{Model: c.Model, Stream: c.ResponsesRequest.Stream, OneCall: c.Parallel != nil && !*c.Parallel}
}

// Requests translates the request.
func (c *Responses) Requests(m *wire.Model) ([]engine.Request, error) {
	c.chat.Sampling, c.chat.Stop = c.Sampling, c.Stop
	list, err := c.chat.Requests(m)
	if err != nil {
		return nil, err
	}
	if c.MaxTokens != nil {
		list[0].MaxTokens = *c.MaxTokens
	}
	if c.TopLogprobs != nil {
		list[0].Logprobs, list[0].TopLogprobs = true, *c.TopLogprobs
	}
	return list, nil
}
