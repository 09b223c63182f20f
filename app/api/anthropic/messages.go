// Package anthropic is the dialect of Anthropic's Messages API, with tools,
// thinking, and named stream events.
package anthropic

import (
	"encoding/json"

	"godwit/app/api/wire"
	"godwit/engine"
)

// Request is the body of POST /v1/messages.
type Request struct {
	Prompt
	MaxTokens *int `json:"max_tokens" need:"" min:"1" doc:"Maximum tokens of the answer."`
	wire.Sampling
	Stop   wire.Stops `json:"stop_sequences" doc:"Texts that end the answer."`
	Stream bool       `json:"stream" doc:"Stream the answer as named events."`
	wire.Budget
	Tier string `json:"service_tier" doc:"Has no effect: there is only one tier."`
}

// Prompt is the common part of a request and of a token count.
type Prompt struct {
	Model    string            `json:"model" most:"512" doc:"Name of the model."`
	Messages []json.RawMessage `json:"messages" need:"" doc:"Turns of user and assistant, and system messages between them; content is a string or a list of blocks."`
	System   json.RawMessage   `json:"system" doc:"A string or a list of text blocks. A first line that begins with x-anthropic-billing-header: is removed, unless --keep-client-headers is set."`
	Tools    []Tool            `json:"tools" doc:"Functions that the model may call, as many as fit the context. Tools that run on Anthropic's servers are skipped."`
	Choice   *ToolChoice       `json:"tool_choice"`
	Thinking *Thinking         `json:"thinking"`
	Output   *Output           `json:"output_config"`
	Template string            `json:"chat_template" most:"1048576" doc:"Jinja chat template that replaces the model's own."`
	Format   *Format           `json:"output_format" doc:"Earlier place of the answer's format, before output_config."`
	Unused
}

// Unused lists fields that Anthropic's servers use but that have no effect here.
type Unused struct {
	Metadata  json.RawMessage   `json:"metadata" doc:"Has no effect: nothing is stored about users."`
	Betas     []string          `json:"betas" doc:"Has no effect: supported features need no header."`
	Context   json.RawMessage   `json:"context_management" doc:"Has no effect: the prompt is what the client sends."`
	Cache     json.RawMessage   `json:"cache_control" doc:"Has no effect: every prompt is stored for reuse."`
	Container json.RawMessage   `json:"container" doc:"Has no effect: no code runs on the server."`
	Servers   []json.RawMessage `json:"mcp_servers" doc:"Ignored: the server opens no connections."`
}

// ToolChoice decides whether the model may or must call a tool.
type ToolChoice struct {
	Type   string `json:"type" need:"" enum:"auto,any,tool,none"`
	Name   string `json:"name"`
	Single bool   `json:"disable_parallel_tool_use"`
}

// Output sets the effort and the form of an answer.
type Output struct {
	Effort string  `json:"effort" enum:"low,medium,high,xhigh,max"`
	Format *Format `json:"format"`
}

// Format requests JSON.
type Format struct {
	Type   string          `json:"type" need:"" enum:"json_schema"`
	Schema json.RawMessage `json:"schema" need:""`
}

// Thinking decides whether the model thinks before it answers.
type Thinking struct {
	Type    string `json:"type" need:"" enum:"enabled,disabled,adaptive,between_tools"`
	Budget  *int   `json:"budget_tokens" min:"1" doc:"Maximum reasoning tokens; then the answer follows."`
	Display string `json:"display" enum:"summarized,omitted,full" doc:"omitted: the text of the thinking is only in the signature."`
}

// Call is a request that was checked.
type Call struct {
	Request
	reading
	grammar *engine.Grammar
}

// Options are settings that affect how requests are read.
type Options struct {
	KeepHeaders bool // keep the client's header lines in the system prompt
}

// ParseMessages reads and checks a body.
func ParseMessages(body []byte, o Options) (*Call, error) {
	c := &Call{}
	if err := wire.Decode(body, &c.Request); err != nil {
		return nil, err
	}
	var err error
	if c.reading, err = c.Prompt.read(o); err != nil {
		return nil, err
	}
	if c.Tier != "" {
		c.unused = append(c.unused, "service_tier")
	}
	switch {
	case c.Output != nil && c.Output.Format != nil:
		c.grammar, err = wire.SchemaGrammar(c.Output.Format.Schema, nil, "output_config.format.schema")
	case c.Format != nil:
		c.grammar, err = wire.SchemaGrammar(c.Format.Schema, nil, "output_format.schema")
	}
	return c, err
}

// Counting is a request to count the tokens of a prompt.
type Counting struct {
	Prompt
	reading
}

// ParseCount reads and checks the body of POST /v1/messages/count_tokens.
func ParseCount(body []byte, o Options) (*Counting, error) {
	c := &Counting{}
	if err := wire.Decode(body, &c.Prompt); err != nil {
		return nil, err
	}
	var err error
	c.reading, err = c.Prompt.read(o)
	return c, err
}

// Chat returns the conversation with a model's defaults.
func (r *reading) Chat(m *wire.Model) (*engine.Chat, error) {
	chat := r.chat
	var err error
	chat.Kwargs, err = wire.Kwargs(m.Defaults.Kwargs, r.chat.Kwargs)
	return m.Chat(chat), err
}

// Notes returns notices for the client, and the fields that have no effect.
func (r *reading) Notes() (notices wire.Notices, unused []string) { return r.notices, r.unused }

// Count is the answer of POST /v1/messages/count_tokens.
type Count struct {
	Tokens int `json:"input_tokens"`
}

// Head returns the part of the call that is needed before a model is loaded.
func (c *Call) Head() wire.Head {
	return wire.Head{Model: c.Model, Stream: c.Request.Stream, OneCall: c.Choice != nil && c.Choice.Single, Notices: c.notices, Unused: c.unused}
}

// Requests translates the call for the engine.
func (c *Call) Requests(m *wire.Model) ([]engine.Request, error) {
	r, err := m.Base(&c.Sampling)
	if err != nil {
		return nil, err
	}
	if r.Chat, err = c.reading.Chat(m); err != nil {
		return nil, err
	}
	r.Stop, r.MaxTokens, r.Grammar = c.Stop, *c.MaxTokens, c.grammar
	if t := c.Thinking; t != nil && t.Budget != nil && t.Type != "disabled" {
		own := wire.Budget{ThinkingBudget: t.Budget}
		r.Budget = own.Over(r.Budget)
	}
	r.Budget = c.Budget.Over(r.Budget)
	return []engine.Request{r}, nil
}
