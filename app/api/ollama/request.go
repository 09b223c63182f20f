// Package ollama is Ollama's dialect: chats and texts as JSON lines, the list
// of models, and the library.
package ollama

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
)

// Common are the common fields of chats and texts.
type Common struct {
	Model     string          `json:"model" need:"" most:"512" doc:"Name of the model."`
	Format    json.RawMessage `json:"format" doc:"json, or a JSON schema of the answer."`
	Options   Options         `json:"options"`
	Stream    *bool           `json:"stream" doc:"false: send the answer in one piece."`
	KeepAlive KeepAlive       `json:"keep_alive" doc:"How long the model stays loaded, such as 5m, or in seconds; 0: unload at once; negative: for ever."`
	Think     json.RawMessage `json:"think" doc:"Whether a reasoning model thinks first, how much (low, medium, high), or the maximum number of reasoning tokens."`
	Logprobs  bool            `json:"logprobs" doc:"Return the log-probability of each token."`
	Top       *int            `json:"top_logprobs" min:"0" max:"20"`
	wire.Budget
}

// Options sets how the answer is generated.
type Options = wire.Options

// KeepAlive is a duration, as text in Go's form or as a number of seconds.
type KeepAlive struct{ Span *time.Duration }

// DecodeWire reads either form.
func (k *KeepAlive) DecodeWire(raw json.RawMessage, path string) error {
	var span time.Duration
	if wire.Kind(raw) == "a string" {
		s, err := wire.Text(raw, path)
		if err != nil {
			return err
		}
		if span, err = time.ParseDuration(s); err != nil {
			return wire.Bad(path, "%.64q is not a time such as 5m", s)
		}
	} else {
		x, err := wire.Number(raw, path, nil, nil)
		if err != nil {
			return err
		}
		if math.Abs(x) > math.MaxInt64/1e9 {
			x = math.Copysign(math.MaxInt64/2e9, x)
		}
		span = time.Duration(x * float64(time.Second))
	}
	k.Span = &span
	return nil
}

// ChatRequest is the body of POST /api/chat.
type ChatRequest struct {
	Common
	Messages []json.RawMessage `json:"messages" doc:"Conversation; without one, the model is only loaded."`
	Tools    []json.RawMessage `json:"tools" doc:"Functions that the model may call."`
	Template string            `json:"template" most:"1048576" doc:"Jinja chat template that replaces the model's own."`
}

// GenerateRequest is the body of POST /api/generate.
type GenerateRequest struct {
	Common
	Prompt   string   `json:"prompt" doc:"Prompt; without one, the model is only loaded."`
	System   string   `json:"system"`
	Suffix   string   `json:"suffix" doc:"Text after the answer, for models that support infilling."`
	Template string   `json:"template" most:"1048576" doc:"Jinja chat template that replaces the model's own."`
	Raw      bool     `json:"raw" doc:"Continue the prompt as it is, without a chat template."`
	Images   []string `json:"images"`
}

// Call is a chat or a text.
type Call struct {
	Common
	chat    *engine.Chat
	raw     string
	gap     *engine.Gap
	text    bool // whether the response has the form of /api/generate
	load    bool // whether there is no prompt, so that the model is only loaded or unloaded
	grammar *engine.Grammar
	think   *bool
	kwargs  json.RawMessage
	budget  *int // maximum number of thinking tokens; nil if unset
}

// Load reports whether the call only loads the model, or unloads it if the
// keep-alive time is zero.
func (c *Call) Load() bool { return c.load }

// ParseChat reads and checks a body.
func ParseChat(body []byte) (*Call, error) {
	var r ChatRequest
	if err := wire.Decode(body, &r); err != nil {
		return nil, err
	}
	c := &Call{Common: r.Common, load: len(r.Messages) == 0}
	if err := c.common(); err != nil || c.load {
		return c, err
	}
	messages, err := messages(r.Messages)
	if err != nil {
		return nil, err
	}
	c.chat = &engine.Chat{Messages: messages, Template: r.Template}
	if err := openai.CheckTemplate(r.Template, "template"); err != nil {
		return nil, err
	}
	if len(r.Tools) > 0 {
		if err := openai.CheckTools(r.Tools); err != nil {
			return nil, err
		}
		c.chat.Tools = wire.RawList(r.Tools)
	}
	return c, nil
}

// ParseGenerate reads and checks a body.
func ParseGenerate(body []byte) (*Call, error) {
	var r GenerateRequest
	if err := wire.Decode(body, &r); err != nil {
		return nil, err
	}
	c := &Call{Common: r.Common, text: true, load: r.Prompt == ""}
	switch {
	case len(r.Images) > 0 && (r.Raw || r.Suffix != ""):
		return nil, wire.Bad("images", "pictures need the chat template, which raw and suffix do not use")
	case r.Template != "" && (r.Raw || r.Suffix != ""):
		return nil, wire.Bad("template", "raw and suffix do not use a template")
	case r.Suffix != "":
		c.gap, c.load = &engine.Gap{Before: r.Prompt, After: r.Suffix}, false
	case r.Raw:
		c.raw = r.Prompt
	default:
		var list []json.RawMessage
		if r.System != "" {
			list = append(list, message("system", r.System).Raw())
		}
		content, err := illustrated(r.Prompt, r.Images, "images")
		if err != nil {
			return nil, err
		}
		m := message("user", "")
		m.Set("content", content)
		list = append(list, m.Raw())
		c.chat = &engine.Chat{Messages: wire.RawList(list), Template: r.Template}
	}
	if err := openai.CheckTemplate(r.Template, "template"); err != nil {
		return nil, err
	}
	return c, c.common()
}

// images moves the pictures of a message into its content, before the text.
func images(o *wire.Object, path string) error {
	v := o.Value("images")
	o.Remove("images")
	if wire.IsNull(v) {
		return nil
	}
	list, err := wire.List(v, path+".images")
	if err != nil || len(list) == 0 {
		return err
	}
	var files wire.Strings
	if err := files.DecodeWire(v, path+".images"); err != nil {
		return err
	}
	text, err := wire.ReadContent(o.Value("content"), path+".content")
	if err != nil {
		return err
	}
	content, err := illustrated(text, files, path+".images")
	o.Set("content", content)
	return err
}

// illustrated returns the content of a message with pictures.
func illustrated(text string, files []string, path string) (json.RawMessage, error) {
	var p wire.Parts
	for i, data := range files {
		url, err := wire.Base64Image("", data, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return nil, err
		}
		p.Image(url)
	}
	p.Text(text)
	return p.Raw(), nil
}

func message(role, content string) wire.Object {
	o := wire.Object{}
	o.SetText("role", role)
	o.SetText("content", content)
	return o
}

// common checks the common fields of chats and texts.
func (c *Call) common() (err error) {
	switch {
	case wire.IsNull(c.Format):
	case wire.Kind(c.Format) == "a string":
		var s string
		if s, err = wire.Text(c.Format, "format"); err != nil {
			return err
		}
		switch s {
		case "":
		case "json":
			c.grammar = engine.JSONGrammar()
		default:
			return wire.Bad("format", "%.64q is neither json nor a JSON schema", s)
		}
	default:
		if c.grammar, err = wire.SchemaGrammar(c.Format, nil, "format"); err != nil {
			return err
		}
	}
	switch wire.Kind(c.Think) {
	case "null", "nothing":
	case "a boolean":
		on := string(c.Think) == "true"
		c.think = &on
	case "a string":
		level, err := wire.Text(c.Think, "think")
		if err != nil {
			return err
		}
		if level != "low" && level != "medium" && level != "high" {
			return wire.Bad("think", "%.64q is not one of low, medium, high", level)
		}
		on := true
		c.think = &on
		o := wire.Object{}
		o.SetText("reasoning_effort", level)
		c.kwargs = o.Raw()
	case "a number":
		n, err := wire.Integer(c.Think, "think", new(float64), nil)
		if err != nil {
			return err
		}
		on, most := n > 0, int(min(n, math.MaxInt32))
		c.think, c.budget = &on, &most
	default:
		return wire.Bad("think", "want a boolean, or one of low, medium, high, got %s", wire.Kind(c.Think))
	}
	if c.Top != nil && *c.Top > 0 && !c.Logprobs {
		return wire.Bad("top_logprobs", "requires logprobs to be true")
	}
	return nil
}

// messages translates messages into OpenAI's form.
func messages(list []json.RawMessage) (json.RawMessage, error) {
	out := make([]json.RawMessage, len(list))
	for i, raw := range list {
		path := fmt.Sprintf("messages[%d]", i)
		o, err := wire.ReadObject(raw, path)
		if err != nil {
			return nil, err
		}
		if err := images(&o, path); err != nil {
			return nil, err
		}
		rename(&o, "thinking", "reasoning_content")
		rename(&o, "tool_name", "name")
		if raw := o.Value("tool_calls"); raw != nil {
			calls, err := toolCalls(raw, path+".tool_calls")
			if err != nil {
				return nil, err
			}
			o.Set("tool_calls", calls)
		}
		out[i] = o.Raw()
	}
	return openai.Messages(out, "messages")
}

func rename(o *wire.Object, from, to string) {
	if v := o.Value(from); v != nil {
		o.Set(to, v)
	}
	o.Remove(from)
}

// toolCalls converts the arguments of calls to text. In Ollama's form, they are
// objects.
func toolCalls(raw json.RawMessage, path string) (json.RawMessage, error) {
	list, err := wire.List(raw, path)
	if err != nil {
		return nil, err
	}
	for i, raw := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		call, err := wire.ReadObject(raw, at)
		if err != nil {
			return nil, err
		}
		f, err := wire.ReadObject(call.Value("function"), at+".function")
		if err != nil {
			return nil, err
		}
		name, err := wire.Text(f.Value("name"), at+".function.name")
		if err != nil {
			return nil, err
		}
		args := f.Value("arguments")
		if args == nil {
			args = json.RawMessage("{}")
		}
		id := fmt.Sprintf("call_%d", i)
		if v := call.Value("id"); wire.Kind(v) == "a string" {
			if id, err = wire.Text(v, at+".id"); err != nil {
				return nil, err
			}
		}
		list[i] = wire.FunctionCall(id, name, args)
	}
	return wire.RawList(list), nil
}

// Head returns the part of the call that is needed before a model is loaded.
func (c *Call) Head() wire.Head {
	h := wire.Head{Model: c.Model, Stream: c.Common.Stream == nil || *c.Common.Stream, Lines: true, KeepAlive: c.KeepAlive.Span}
	if n := c.Options.Context; n != nil {
		h.Context = *n
	}
	return h
}

// Requests translates the call for the engine.
func (c *Call) Requests(m *wire.Model) ([]engine.Request, error) {
	if c.load {
		return nil, nil
	}
	r, err := m.Base(&c.Options.Sampling)
	if err != nil {
		return nil, err
	}
	switch {
	case c.gap != nil:
		if r.Tokens, err = m.Engine.Model().GapPrompt(*c.gap); err != nil {
			return nil, err
		}
	case c.chat != nil:
		chat := *c.chat
		chat.Thinking = c.think
		if chat.Kwargs, err = wire.Kwargs(m.Defaults.Kwargs, c.kwargs); err != nil {
			return nil, err
		}
		r.Chat = m.Chat(chat)
	default:
		r.Prompt = c.raw
	}
	r.Stop, r.Grammar, r.Logprobs = c.Options.Stop, c.grammar, c.Logprobs
	if c.Top != nil {
		r.TopLogprobs = *c.Top
	}
	if n := c.Options.Predict; n != nil {
		r.MaxTokens = max(*n, 0)
	}
	own := wire.Budget{ThinkingBudget: c.budget}
	r.Budget = c.Budget.Over(own.Over(r.Budget))
	if c.Options.Keep != nil {
		r.Keep = *c.Options.Keep
	}
	return []engine.Request{r}, nil
}
