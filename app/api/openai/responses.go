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
	Input        json.RawMessage   `json:"input" need:"" doc:"A text, or a list of messages, tool calls and outputs, reasoning, and references to items of kept responses."`
	Instructions string            `json:"instructions" doc:"System message before the input."`
	Tools        []json.RawMessage `json:"tools" doc:"Functions, custom tools, namespaces of both, and local_shell, as many as fit the context. Other tools are skipped."`
	ToolChoice   json.RawMessage   `json:"tool_choice" doc:"none, auto, required, one function as {\"type\": \"function\", \"name\": …}, or some of them as {\"type\": \"allowed_tools\", \"mode\": …, \"tools\": […]}."`
	Parallel     *bool             `json:"parallel_tool_calls" doc:"false: at most one call."`
	Text         *ResponseText     `json:"text"`
	Reasoning    *ReasoningOptions `json:"reasoning"`
	wire.Budget
	wire.Sampling
	MaxTokens   *int            `json:"max_output_tokens" min:"-1" doc:"Maximum tokens of the answer; -1: until the context is full."`
	TopLogprobs *int            `json:"top_logprobs" min:"0" max:"20"`
	Stop        wire.Stops      `json:"stop" doc:"Texts that end the answer."`
	Stream      bool            `json:"stream" doc:"Stream the answer as named events."`
	Template    string          `json:"chat_template" most:"1048576" doc:"Jinja chat template that replaces the model's own."`
	Store       *bool           `json:"store" doc:"false: do not keep the response. Otherwise it is kept in memory until the server stops or newer ones need the room."`
	Previous    string          `json:"previous_response_id" doc:"Continue from a kept response."`
	Talk        json.RawMessage `json:"conversation" doc:"Must not be set: no conversations are stored."`
	Stored      json.RawMessage `json:"prompt" doc:"Must not be set: no prompts are stored."`
	Background  bool            `json:"background" doc:"Respond at once and generate in the background, for GET /v1/responses/{id}."`
	Include     []string        `json:"include" doc:"reasoning.encrypted_content: return the reasoning in an opaque field; other values have no effect."`
	Metadata    json.RawMessage `json:"metadata"`
	unusedFields
}

// unusedFields are fields that OpenAI's servers use but that have no effect here.
type unusedFields struct {
	ClientData    json.RawMessage `json:"client_metadata" doc:"Has no effect."`
	MaxCalls      json.RawMessage `json:"max_tool_calls" doc:"Has no effect: it limits tools that run on the server."`
	CacheKey      json.RawMessage `json:"prompt_cache_key" doc:"Has no effect: every prompt is stored for reuse."`
	CacheTime     json.RawMessage `json:"prompt_cache_retention" doc:"Has no effect."`
	Safety        json.RawMessage `json:"safety_identifier" doc:"Has no effect."`
	Tier          json.RawMessage `json:"service_tier" doc:"Has no effect: there is only one tier."`
	StreamOptions json.RawMessage `json:"stream_options" doc:"Has no effect."`
	Truncation    json.RawMessage `json:"truncation" doc:"Has no effect: a prompt that does not fit is rejected."`
	User          json.RawMessage `json:"user" doc:"Has no effect."`
}

// ResponseText is the form of the answer.
type ResponseText struct {
	Format *TextFormat `json:"format"`
}

// TextFormat requests JSON.
type TextFormat struct {
	Type   string          `json:"type" need:"" enum:"text,json_object,json_schema"`
	Name   string          `json:"name,omitempty" most:"256"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Strict *bool           `json:"strict,omitempty"`
}

// ReasoningOptions decides how much the model reasons.
type ReasoningOptions struct {
	Effort  string `json:"effort,omitempty" enum:"none,minimal,low,medium,high,xhigh,max"`
	Summary string `json:"summary,omitempty"`
}

// Responses is a call of the responses API.
type Responses struct {
	ResponsesRequest
	Empty   bool // whether the input is empty, as in requests that only test whether a server runs
	id      string
	memory  *Memory
	chat    Chat
	all     []json.RawMessage // items of the conversation, including earlier ones
	tools   *offers
	choices json.RawMessage // tool_choice as the response repeats it
	notices wire.Notices
	unused  []string
}

// ParseResponses reads and checks a body. Earlier responses are read from m,
// which will also store the new one.
func ParseResponses(body []byte, m *Memory) (*Responses, error) {
	c := &Responses{memory: m, id: wire.ID("resp_")}
	if err := wire.Decode(body, &c.ResponsesRequest); err != nil {
		return nil, err
	}
	switch {
	case !wire.IsNull(c.Talk):
		return nil, wire.Bad("conversation", "not supported, because no conversations are stored; send the conversation in input")
	case !wire.IsNull(c.Stored):
		return nil, wire.Bad("prompt", "not supported, because no prompts are stored; send the text in input")
	case c.Background && c.ResponsesRequest.Stream:
		return nil, wire.Bad("background", "a response cannot both be streamed and run in the background")
	case c.Background && c.Store != nil && !*c.Store:
		return nil, wire.Bad("background", "requires store, because the response is fetched later")
	}
	err := unlimited(&c.MaxTokens, "max_output_tokens")
	if err != nil {
		return nil, err
	}
	if err = CheckTemplate(c.Template, "chat_template"); err != nil {
		return nil, err
	}
	c.chat.Template = c.Template
	if err = c.read(); err != nil {
		return nil, err
	}
	if c.tools, err = c.offers(); err != nil {
		return nil, err
	}
	choice, err := c.plainChoice()
	if err != nil {
		return nil, err
	}
	if err := c.chat.offer(c.tools.list, choice); err != nil {
		return nil, err
	}
	c.rest()
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
	return wire.SchemaGrammar(f.Schema, f.Strict, "text.format.schema")
}

// read converts the input to the form of chat completions. The earlier conversation
// comes from the memory.
func (c *Responses) read() error {
	if c.Previous != "" {
		k, err := c.memory.find(c.Previous, "previous_response_id")
		if err != nil {
			return err
		}
		c.all = append(append(c.all, k.input...), k.output...)
	}
	before := len(c.all)
	if wire.Kind(c.Input) == "a list" {
		list, err := wire.List(c.Input, "input")
		if err != nil {
			return err
		}
		for i, raw := range list {
			if raw, err = c.resolve(raw, fmt.Sprintf("input[%d]", i)); err != nil {
				return err
			}
			c.all = append(c.all, raw)
		}
	} else {
		s, err := wire.Text(c.Input, "input")
		if err != nil {
			return err
		}
		c.all = append(c.all, wire.JSON(map[string]any{
			"id": wire.ID("msg_"), "type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": s}},
		}))
	}
	in := items{c: c}
	if c.Instructions != "" {
		in.say("system", c.Instructions)
	}
	for i, raw := range c.all {
		path := fmt.Sprintf("input[%d]", i-before)
		if i < before {
			path = "previous_response_id"
		}
		if err := in.add(raw, path); err != nil {
			return err
		}
	}
	in.flush()
	if c.Empty = len(c.all) == 0; c.Empty {
		return nil
	}
	var err error
	c.chat.messages, err = Messages(in.out, "input")
	return err
}

// rest records the fields that have no effect.
func (c *Responses) rest() {
	for _, f := range []struct {
		name string
		raw  json.RawMessage
	}{
		{"client_metadata", c.ClientData},
		{"max_tool_calls", c.MaxCalls},
		{"prompt_cache_key", c.CacheKey},
		{"prompt_cache_retention", c.CacheTime},
		{"safety_identifier", c.Safety},
		{"service_tier", c.Tier},
		{"stream_options", c.StreamOptions},
		{"truncation", c.Truncation},
		{"user", c.User},
	} {
		if !wire.IsNull(f.raw) {
			c.unused = append(c.unused, f.name)
		}
	}
}

// Conversation returns the prompt with a model's defaults.
func (c *Responses) Conversation(m *wire.Model) (*engine.Chat, error) {
	list, err := c.chat.Requests(m)
	if err != nil {
		return nil, err
	}
	return list[0].Chat, nil
}

// Notes returns notices for the client, and the fields that have no effect.
func (c *Responses) Notes() (notices wire.Notices, unused []string) { return c.notices, c.unused }

// ControlID returns the id under which the running answer can be controlled.
func (c *Responses) ControlID() string { return c.id }

// Head returns the part of the call that is needed before a model is loaded.
func (c *Responses) Head() wire.Head {
	return wire.Head{Model: c.Model, Stream: c.ResponsesRequest.Stream, OneCall: c.Parallel != nil && !*c.Parallel, Notices: c.notices, Unused: c.unused}
}

// Requests translates the call for the engine.
func (c *Responses) Requests(m *wire.Model) ([]engine.Request, error) {
	c.chat.Sampling, c.chat.Stop, c.chat.Budget = c.Sampling, c.Stop, c.Budget
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
