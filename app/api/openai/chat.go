// Package openai is OpenAI's dialect: chat completions, completions, embeddings,
// responses and the list of models, with the extensions that local servers share.
package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"godwit/app/api/wire"
	"godwit/engine"
)

// maxChoices limits the number of answers to a request.
const maxChoices = 16

// ChatRequest is the body of POST /v1/chat/completions.
type ChatRequest struct {
	Model             string            `json:"model" most:"512" doc:"Name of the model."`
	Messages          []json.RawMessage `json:"messages" need:"" doc:"The conversation. Content is a string, null, missing, or a list of text parts."`
	Tools             []json.RawMessage `json:"tools" doc:"Functions that the model may call."`
	ToolChoice        json.RawMessage   `json:"tool_choice" doc:"none, auto, required, one function as {\"type\": \"function\", \"function\": {\"name\": …}}, or some of them as {\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": …, \"tools\": […]}}."`
	Functions         []json.RawMessage `json:"functions" doc:"Must be empty: replaced by tools in 2023-12."`
	ParallelToolCalls *bool             `json:"parallel_tool_calls" doc:"false: at most one call."`
	ResponseFormat    *ResponseFormat   `json:"response_format" doc:"Form of the answer."`
	wire.Sampling
	Stop                wire.Stops      `json:"stop" doc:"Texts that end the answer."`
	MaxTokens           *int            `json:"max_tokens" min:"-1" doc:"Maximum tokens of the answer; -1: until the context is full."`
	MaxCompletionTokens *int            `json:"max_completion_tokens" min:"-1" doc:"Newer name of max_tokens."`
	N                   *int            `json:"n" min:"1" max:"16" doc:"Number of answers."`
	Logprobs            bool            `json:"logprobs" doc:"Return the log-probability of each token."`
	TopLogprobs         *int            `json:"top_logprobs" min:"0" max:"20" doc:"Number of alternatives with log-probabilities."`
	Stream              bool            `json:"stream" doc:"Stream the answer."`
	StreamOptions       *StreamOptions  `json:"stream_options"`
	TemplateKwargs      json.RawMessage `json:"chat_template_kwargs" doc:"Object whose keys become variables in the chat template."`
	Template            string          `json:"chat_template" most:"1048576" doc:"Jinja chat template that replaces the model's own."`
	Prediction          *Prediction     `json:"prediction" doc:"Text that the answer is likely to repeat. It makes answers faster if the server drafts, and never changes them."`
	ReasoningEffort     string          `json:"reasoning_effort" enum:"none,minimal,low,medium,high,xhigh,max" doc:"How much the model reasons before it answers."`
	Continue            bool            `json:"continue_final_message" doc:"Continue the last message instead of starting a new one."`
	TemplateAlso        string          `json:"template" most:"1048576" doc:"Same as chat_template."`
	wire.Budget
	Local
}

// Local holds the extensions of local servers.
type Local struct {
	Grammar         string          `json:"grammar" most:"1048576" doc:"GBNF grammar of the answer."`
	JSONSchema      json.RawMessage `json:"json_schema" doc:"JSON schema of the answer."`
	IgnoreEOS       bool            `json:"ignore_eos" doc:"Continue after end-of-generation tokens."`
	Slot            *int            `json:"id_slot" min:"-1" max:"1023" doc:"Slot to use; -1: any."`
	Keep            *int            `json:"n_keep" min:"-1" doc:"First tokens that a context shift keeps; -1: the whole prompt."`
	Progress        bool            `json:"return_progress" doc:"Report the progress of the prompt in a stream."`
	TimingsPerToken bool            `json:"timings_per_token" doc:"Include timings in every chunk of a stream."`
}

// Prediction is a text that the answer is likely to repeat.
type Prediction struct {
	Type    string          `json:"type" need:"" enum:"content"`
	Content json.RawMessage `json:"content" need:"" most:"16777216" doc:"A string, or a list of text parts."`
}

// text returns the text of a prediction, or "" if p is nil.
func (p *Prediction) text() (string, error) {
	if p == nil {
		return "", nil
	}
	var text string
	if json.Unmarshal(p.Content, &text) == nil {
		return text, nil
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(p.Content, &parts); err != nil {
		return "", wire.Bad("prediction.content", "want a string or a list of text parts")
	}
	for i, part := range parts {
		if part.Type != "text" {
			return "", wire.Bad(fmt.Sprintf("prediction.content[%d].type", i), "%.32q is not supported, want text", part.Type)
		}
		text += part.Text
	}
	return text, nil
}

// StreamOptions holds the options of a stream.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage" doc:"Send a last chunk with the token counts."`
}

// ResponseFormat requests JSON.
type ResponseFormat struct {
	Type       string          `json:"type" need:"" enum:"text,json_object,json_schema"`
	JSONSchema *NamedSchema    `json:"json_schema"`
	Schema     json.RawMessage `json:"schema" doc:"Schema next to the type, as in llama-server."`
}

// NamedSchema is a schema with its name.
type NamedSchema struct {
	Name   string          `json:"name" most:"256"`
	Schema json.RawMessage `json:"schema"`
	Strict *bool           `json:"strict"`
}

// Chat is a chat completion.
type Chat struct {
	ChatRequest
	messages json.RawMessage
	tools    json.RawMessage
	choice   string
	grammar  *engine.Grammar
	think    *bool
	id       string

	predicted string // text of the prediction
}

// ParseChat reads and checks a body.
func ParseChat(body []byte) (*Chat, error) {
	c := &Chat{id: wire.ID("chatcmpl-")}
	if err := wire.Decode(body, &c.ChatRequest); err != nil {
		return nil, err
	}
	if err := c.template(); err != nil {
		return nil, err
	}
	err := errors.Join(unlimited(&c.MaxTokens, "max_tokens"), unlimited(&c.MaxCompletionTokens, "max_completion_tokens"))
	if err != nil {
		return nil, err
	}
	if c.messages, err = Messages(c.Messages, "messages"); err != nil {
		return nil, err
	}
	if err := c.offer(c.Tools, c.ToolChoice); err != nil {
		return nil, err
	}
	if len(c.Functions) > 0 {
		return nil, wire.Bad("functions", "not supported; send them as tools")
	}
	if n := c.TopLogprobs; n != nil && *n > 0 && !c.Logprobs {
		return nil, wire.Bad("top_logprobs", "requires logprobs to be true")
	}
	if c.grammar, err = c.answerGrammar(c.ResponseFormat); err != nil {
		return nil, err
	}
	if c.predicted, err = c.Prediction.text(); err != nil {
		return nil, err
	}
	return c, c.thinking()
}

// template sets the chat template of the request.
func (c *Chat) template() error {
	if err := CheckTemplate(c.Template, "chat_template"); err != nil {
		return err
	}
	if err := CheckTemplate(c.TemplateAlso, "template"); err != nil {
		return err
	}
	if c.Template == "" {
		c.Template = c.TemplateAlso
	}
	return nil
}

// goTemplate matches syntax of Go templates that Jinja does not have.
var goTemplate = regexp.MustCompile(`\{\{-?\s*(\.|(if|range|with)\s+[.$\w]|(else|end)\s*-?\}\}|(block|define|template)\s+"|\$\w* *:=)`)

// CheckTemplate rejects a chat template in Go's template language.
func CheckTemplate(source, field string) error {
	m := goTemplate.FindString(source)
	if m == "" {
		return nil
	}
	e := wire.Bad(field, "Go templates are not supported (%.32q); send a Jinja template, or a rendered prompt to /completion", m)
	e.Code = "unsupported_template"
	return e
}

// NoTemplate refuses a chat template in a request without a conversation.
func NoTemplate(source string) error {
	if source == "" {
		return nil
	}
	return wire.Bad("chat_template", "plain completions do not use a chat template; send messages to /v1/chat/completions")
}

// unlimited replaces -1, which requests no limit, with an unset limit.
func unlimited(n **int, field string) error {
	switch {
	case *n == nil || **n > 0:
		return nil
	case **n == -1:
		*n = nil
		return nil
	}
	return wire.Bad(field, "%d is too small; want at least 1, or -1 for no limit", **n)
}

// thinking sets the switches of reasoning models.
func (c *Chat) thinking() error {
	var o wire.Object
	if !wire.IsNull(c.TemplateKwargs) {
		var err error
		if o, err = wire.ReadObject(c.TemplateKwargs, "chat_template_kwargs"); err != nil {
			return err
		}
	}
	if raw := o.Value("enable_thinking"); wire.Kind(raw) == "a boolean" {
		on := string(raw) == "true"
		c.think = &on
	}
	if c.ReasoningEffort != "" {
		on := c.ReasoningEffort != "none"
		if c.think == nil || !on {
			c.think = &on
		}
		if on && !o.Has("reasoning_effort") {
			o.SetText("reasoning_effort", c.ReasoningEffort)
		}
	}
	if len(o) > 0 {
		c.TemplateKwargs = o.Raw()
	}
	return nil
}

// answerGrammar returns the grammar that the request requires, or nil without one.
func (l *Local) answerGrammar(f *ResponseFormat) (*engine.Grammar, error) {
	asked := 0
	for _, is := range []bool{f != nil && f.Type != "text", l.Grammar != "", !wire.IsNull(l.JSONSchema)} {
		if is {
			asked++
		}
	}
	if asked > 1 {
		return nil, wire.Bad("response_format", "only one of response_format, grammar and json_schema can be set")
	}
	switch {
	case l.Grammar != "":
		return wire.TextGrammar(l.Grammar, "grammar")
	case !wire.IsNull(l.JSONSchema):
		return wire.SchemaGrammar(l.JSONSchema, nil, "json_schema")
	case f == nil || f.Type == "text":
		return nil, nil
	case f.Type == "json_schema":
		if f.JSONSchema == nil && !wire.IsNull(f.Schema) { // llama-server's form
			return wire.SchemaGrammar(f.Schema, nil, "response_format.schema")
		}
		if f.JSONSchema == nil || wire.IsNull(f.JSONSchema.Schema) {
			return nil, wire.Bad("response_format.json_schema.schema", "this field is required")
		}
		return wire.SchemaGrammar(f.JSONSchema.Schema, f.JSONSchema.Strict, "response_format.json_schema.schema")
	case !wire.IsNull(f.Schema):
		return wire.SchemaGrammar(f.Schema, nil, "response_format.schema")
	}
	return engine.JSONGrammar(), nil
}

// apply copies the extensions into a request.
func (l *Local) apply(r *engine.Request) {
	r.IgnoreEOG = l.IgnoreEOS
	if l.Slot != nil && *l.Slot >= 0 {
		r.Slot = l.Slot
	}
	if l.Keep != nil {
		r.Keep = *l.Keep
	}
}

// roles maps the roles of messages to the names in chat templates.
var roles = map[string]string{
	"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool", "function": "tool",
}

// Messages checks a list of messages and converts their content to one form.
func Messages(list []json.RawMessage, path string) (json.RawMessage, error) {
	if len(list) == 0 {
		return nil, wire.Bad(path, "want at least one message")
	}
	out := make([]json.RawMessage, len(list))
	for i, raw := range list {
		m, err := message(raw, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return nil, err
		}
		out[i] = m
	}
	return wire.RawList(out), nil
}

func message(raw json.RawMessage, path string) (json.RawMessage, error) {
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return nil, err
	}
	role, err := wire.Text(o.Value("role"), path+".role")
	if err != nil {
		return nil, err
	}
	name, ok := roles[role]
	if !ok {
		return nil, wire.Bad(path+".role", "%.64q is not one of system, developer, user, assistant, tool", role)
	}
	o.SetText("role", name)
	content, err := wire.ReadParts(o.Value("content"), path+".content")
	if err != nil {
		return nil, err
	}
	calls := o.Value("tool_calls")
	if calls == nil {
		o.Remove("tool_calls")
	} else if err := checkCalls(calls, path+".tool_calls"); err != nil {
		return nil, err
	}
	for _, key := range []string{"name", "tool_call_id", "reasoning_content"} {
		if v := o.Value(key); v == nil {
			o.Remove(key)
		} else if _, err := wire.Text(v, path+"."+key); err != nil {
			return nil, err
		}
	}
	if o.Value("content") == nil && calls != nil {
		o.Set("content", json.RawMessage("null"))
	} else {
		o.Set("content", content)
	}
	return o.Raw(), nil
}

// checkCalls checks the tool calls of an assistant message.
func checkCalls(raw json.RawMessage, path string) error {
	list, err := wire.List(raw, path)
	if err != nil {
		return err
	}
	for i, raw := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		call, err := wire.ReadObject(raw, at)
		if err != nil {
			return err
		}
		f, err := wire.ReadObject(call.Value("function"), at+".function")
		if err != nil {
			return err
		}
		if _, err := wire.Text(f.Value("name"), at+".function.name"); err != nil {
			return err
		}
		switch args := f.Value("arguments"); wire.Kind(args) {
		case "a string", "an object", "nothing":
		default:
			return wire.Bad(at+".function.arguments", "want a string that contains a JSON object, got %s", wire.Kind(args))
		}
	}
	return nil
}

// Head returns the part of the call that is needed before a model is loaded.
func (c *Chat) Head() wire.Head {
	return wire.Head{Model: c.Model, Stream: c.ChatRequest.Stream, OneCall: c.ParallelToolCalls != nil && !*c.ParallelToolCalls}
}

// ControlID returns the id under which the running answer can be controlled.
func (c *Chat) ControlID() string { return c.id }

// Control is the body of POST /v1/chat/completions/control.
type Control struct {
	ID     string `json:"id" need:"" most:"128" doc:"The id of a running chat completion or response, as its chunks have it."`
	Action string `json:"action" need:"" enum:"reasoning_end" doc:"reasoning_end: the reasoning ends at the next token and the answer follows."`
}

// Controlled is the answer of POST /v1/chat/completions/control.
type Controlled struct {
	ID      string `json:"id"`
	Action  string `json:"action"`
	Success bool   `json:"success"`
}

// Requests translates the call for the engine.
func (c *Chat) Requests(m *wire.Model) ([]engine.Request, error) {
	r, err := m.Base(&c.Sampling)
	if err != nil {
		return nil, err
	}
	kwargs, err := wire.Kwargs(m.Defaults.Kwargs, c.TemplateKwargs)
	if err != nil {
		return nil, err
	}
	r.Chat = m.Chat(engine.Chat{
		Messages: c.messages, Tools: c.tools, ToolChoice: c.choice, Kwargs: kwargs, Thinking: c.think, Continue: c.Continue,
		Template: c.Template,
	})
	r.Stop, r.Grammar, r.Prediction = c.Stop, c.grammar, c.predicted
	r.Budget = c.Budget.Over(r.Budget)
	r.Logprobs = c.Logprobs
	if c.TopLogprobs != nil {
		r.TopLogprobs = *c.TopLogprobs
	}
	for _, n := range []*int{c.MaxTokens, c.MaxCompletionTokens} {
		if n != nil {
			r.MaxTokens = *n
		}
	}
	c.Local.apply(&r)
	n := 1
	if c.N != nil {
		n = *c.N
	}
	return wire.Choices(r, n), nil
}
