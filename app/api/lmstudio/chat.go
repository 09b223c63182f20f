package lmstudio

import (
	"encoding/json"
	"fmt"
	"sync"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
)

// Limits of the conversations that a server remembers.
const (
	maxChats     = 256
	maxChatBytes = 16 << 20 // maximum size of all chats together
)

// Chats stores the conversations of POST /api/v1/chat. The least recently used
// conversations are dropped first. Nothing is written to disk.
type Chats struct {
	mu    sync.Mutex
	list  []stored // newest last
	bytes int
}

// stored is a conversation that ends with an answer.
type stored struct {
	id       string
	messages []json.RawMessage
	bytes    int
}

// find returns the messages up to and including an answer.
func (c *Chats) find(id string) ([]json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.list {
		if s.id == id {
			c.list = append(append(c.list[:i:i], c.list[i+1:]...), s)
			return s.messages, true
		}
	}
	return nil, false
}

// keep stores a conversation.
func (c *Chats) keep(id string, messages []json.RawMessage) {
	s := stored{id: id, messages: messages}
	for _, m := range messages {
		s.bytes += len(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list, c.bytes = append(c.list, s), c.bytes+s.bytes
	for len(c.list) > 1 && (len(c.list) > maxChats || c.bytes > maxChatBytes) {
		c.bytes -= c.list[0].bytes
		c.list = c.list[1:]
	}
}

// ChatRequest is the body of POST /api/v1/chat.
type ChatRequest struct {
	Model    string          `json:"model" most:"512" doc:"Name of the model."`
	Input    json.RawMessage `json:"input" need:"" doc:"A text, or a list of messages with a text or a picture each."`
	System   string          `json:"system_prompt" doc:"System message of a new conversation."`
	Previous string          `json:"previous_response_id" most:"128" doc:"The response_id of the answer that this message follows."`
	Store    *bool           `json:"store" doc:"false: the conversation is not remembered."`
	Stream   bool            `json:"stream" doc:"Stream the answer as named events."`
	wire.Sampling
	MaxTokens *int   `json:"max_output_tokens" min:"-1" doc:"Maximum tokens of the answer; -1: until the context is full."`
	Reasoning string `json:"reasoning" enum:"off,on,low,medium,high" doc:"How much the model reasons before it answers."`
	Template  string `json:"chat_template" most:"1048576" doc:"Jinja chat template that replaces the model's own."`
	wire.Budget
	Context      *int              `json:"context_length" min:"1" max:"16777216" doc:"Minimum context length in tokens."`
	Integrations []json.RawMessage `json:"integrations" doc:"Must be empty: the server does not run tools."`
}

// call is a message of a conversation.
type call struct {
	ChatRequest
	chats    *Chats
	messages []json.RawMessage
	chat     *openai.Chat
}

// parse reads and checks a body.
func (c *Chats) parse(body []byte) (*call, error) {
	q := &call{chats: c}
	if err := wire.Decode(body, &q.ChatRequest); err != nil {
		return nil, err
	}
	if len(q.Integrations) > 0 {
		return nil, wire.Bad("integrations", "not supported, because the server does not run tools; use /v1/chat/completions with tools that the client runs")
	}
	content, err := input(q.Input)
	if err != nil {
		return nil, err
	}
	switch {
	case q.Previous != "":
		past, ok := c.find(q.Previous)
		if !ok {
			e := wire.Bad("previous_response_id", "there is no response %.64q; the server keeps only the last %d conversations, until it stops", q.Previous, maxChats)
			e.Code = "response_not_found"
			return nil, e
		}
		q.messages = append(q.messages, past...)
	case q.System != "":
		q.messages = append(q.messages, said("system", q.System))
	}
	m := wire.Object{}
	m.SetText("role", "user")
	m.Set("content", content)
	q.messages = append(q.messages, m.Raw())
	o := wire.Object{}
	o.Set("messages", wire.RawList(q.messages))
	switch q.Reasoning {
	case "":
	case "off":
		o.SetText("reasoning_effort", "none")
	case "on":
		o.Set("chat_template_kwargs", json.RawMessage(`{"enable_thinking":true}`))
	default:
		o.SetText("reasoning_effort", q.Reasoning)
	}
	if q.Template != "" {
		o.SetText("chat_template", q.Template)
	}
	if q.MaxTokens != nil {
		o.Set("max_tokens", wire.JSON(*q.MaxTokens))
	}
	if q.chat, err = openai.ParseChat(o.Raw()); err != nil {
		return nil, err
	}
	q.chat.Sampling, q.chat.Budget = q.Sampling, q.Budget
	return q, nil
}

// input returns the content of a message.
func input(raw json.RawMessage) (json.RawMessage, error) {
	text, list, err := wire.TextOrList(raw, "input")
	if err != nil || list == nil {
		return wire.JSON(text), err
	}
	var parts wire.Parts
	for i, item := range list {
		path := fmt.Sprintf("input[%d]", i)
		o, err := wire.ReadObject(item, path)
		if err != nil {
			return nil, err
		}
		kind, err := wire.Text(o.Value("type"), path+".type")
		if err != nil {
			return nil, err
		}
		switch kind {
		case "text", "message":
			s, err := wire.Text(o.Value("content"), path+".content")
			if err != nil {
				return nil, err
			}
			parts.Text(s)
		case "image":
			url, err := wire.Text(o.Value("data_url"), path+".data_url")
			if err != nil {
				return nil, err
			}
			if err := wire.CheckImage(url, path+".data_url"); err != nil {
				return nil, err
			}
			parts.Image(url)
		default:
			e := wire.Bad(path+".type", "%.64q is not supported; only message, text and image are", kind)
			e.Code = "unsupported_content"
			return nil, e
		}
	}
	return parts.Raw(), nil
}

func said(role, text string) json.RawMessage {
	o := wire.Object{}
	o.SetText("role", role)
	o.SetText("content", text)
	return o.Raw()
}

// Head returns the part of the call that is needed before a model is loaded.
func (c *call) Head() wire.Head {
	h := wire.Head{Model: c.Model, Stream: c.ChatRequest.Stream, ContextField: "context_length"}
	if c.Context != nil {
		h.Context = *c.Context
	}
	return h
}

// Requests translates the call for the engine.
func (c *call) Requests(m *wire.Model) ([]engine.Request, error) { return c.chat.Requests(m) }

// Chat is the answer of POST /api/v1/chat.
type Chat struct {
	Instance string    `json:"model_instance_id"`
	Output   []Output  `json:"output"`
	Stats    ChatStats `json:"stats"`
	Response string    `json:"response_id,omitempty"`
}

// Output is a part of an answer.
type Output struct {
	Type    string `json:"type"` // message, reasoning
	Content string `json:"content"`
}

// ChatStats holds the counts and times of an answer.
type ChatStats struct {
	Input     int      `json:"input_tokens"`
	Output    int      `json:"total_output_tokens"`
	Reasoning int      `json:"reasoning_output_tokens"`
	Speed     float64  `json:"tokens_per_second"`
	First     float64  `json:"time_to_first_token_seconds"`
	Load      *float64 `json:"model_load_time_seconds,omitempty"`
}

// answer collects an answer. If out is set, it also sends events.
type answer struct {
	c    *call
	body Chat
	load float64
	out  wire.Sender
	open string // type of the open block, message or reasoning; empty without one
	read bool   // whether the whole prompt has been read
	err  error
}

func (c *call) answer(m *wire.Model) *answer {
	return &answer{c: c, body: Chat{Instance: m.Name, Output: []Output{}}, load: m.Load.Seconds()}
}

// tell sends an event. Its name is its type.
func (a *answer) tell(kind string, more ...any) {
	if a.out == nil || a.err != nil {
		return
	}
	o := wire.Object{}
	o.SetText("type", kind)
	for i := 0; i < len(more); i += 2 {
		o.Set(more[i].(string), wire.JSON(more[i+1]))
	}
	a.err = a.out.Send(kind, o.Raw())
}

// piece adds a piece of text.
func (a *answer) piece(kind, text string) {
	if a.open != kind {
		a.shut()
		a.body.Output = append(a.body.Output, Output{Type: kind})
		a.open = kind
		a.tell(kind + ".start")
	}
	a.body.Output[len(a.body.Output)-1].Content += text
	a.tell(kind+".delta", "content", text)
}

func (a *answer) shut() {
	if a.open != "" {
		a.tell(a.open + ".end")
		a.open = ""
	}
}

func (a *answer) add(ev *engine.Event) {
	if ev.Kind != engine.Prefill && !a.read {
		a.read = true
		a.tell("prompt_processing.end")
	}
	switch ev.Kind {
	case engine.Prefill:
		a.tell("prompt_processing.progress", "progress", float64(ev.Done)/float64(max(ev.Total, 1)))
	case engine.Text:
		if ev.Text != "" {
			a.piece("message", ev.Text)
		}
	case engine.Reasoning:
		a.piece("reasoning", ev.Text)
	case engine.End:
		a.end(ev.Result)
	}
}

func (a *answer) end(r *engine.Result) {
	a.shut()
	a.body.Stats = ChatStats{Input: r.Prompt, Output: r.Completion, Reasoning: r.Reasoning, First: (r.Waited + r.Prefill).Seconds()}
	if a.load > 0.001 {
		a.body.Stats.Load = &a.load
	}
	if r.Decode > 0 {
		a.body.Stats.Speed = float64(r.Completion) / r.Decode.Seconds()
	}
	if a.c.Store != nil && !*a.c.Store {
		return
	}
	a.body.Response = wire.ID("resp_")
	text, thought := "", ""
	for _, o := range a.body.Output {
		if o.Type == "message" {
			text += o.Content
		} else {
			thought += o.Content
		}
	}
	o := wire.Object{}
	o.SetText("role", "assistant")
	o.SetText("content", text)
	if thought != "" {
		o.SetText("reasoning_content", thought)
	}
	a.c.chats.keep(a.body.Response, append(a.c.messages[:len(a.c.messages):len(a.c.messages)], o.Raw()))
}

// whole is an answer that is sent whole.
type whole struct{ *answer }

// Whole starts an answer that is sent whole.
func (c *call) Whole(m *wire.Model) wire.Whole { return whole{c.answer(m)} }

// Add processes an event.
func (w whole) Add(_ int, ev *engine.Event) { w.add(ev) }

// Body returns the answer.
func (w whole) Body() any { return &w.body }

// stream is an answer that is sent as named events.
type stream struct {
	*answer
	begun bool
}

// Stream starts an answer that is sent in pieces.
func (c *call) Stream(m *wire.Model) wire.Stream { return &stream{answer: c.answer(m)} }

// Start sends nothing. The first event starts the stream.
func (s *stream) Start(wire.Sender) error { return nil }

// Add sends an event.
func (s *stream) Add(out wire.Sender, _ int, ev *engine.Event) error {
	s.out = out
	if !s.begun {
		s.begun = true
		s.tell("chat.start", "model_instance_id", s.body.Instance)
		s.tell("prompt_processing.start")
	}
	s.add(ev)
	return s.err
}

// End sends the whole answer.
func (s *stream) End(out wire.Sender) error {
	s.out = out
	s.tell("chat.end", "result", &s.body)
	return s.err
}

// Fail sends an error, and the answer so far.
func (s *stream) Fail(out wire.Sender, e *wire.Error) error {
	s.out = out
	s.shut()
	s.tell("error", "error", wire.Object{{Key: "type", Value: wire.JSON(e.Type)}, {Key: "message", Value: wire.JSON(e.Message)}, {Key: "code", Value: wire.JSON(e.Code)}, {Key: "param", Value: wire.JSON(e.Param)}}.Raw())
	s.tell("chat.end", "result", &s.body)
	return s.err
}
