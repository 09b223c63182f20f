package anthropic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"godwit/app/api/wire"
	"godwit/engine"
)

// Message is an answer.
type Message struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []Block `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        Usage   `json:"usage"`
}

// Block is a part of an answer: text, thinking, or a tool call.
type Block struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// Usage counts tokens. Input does not include cached tokens.
type Usage struct {
	Input         int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	CacheDisk     int `json:"cache_read_disk_input_tokens"` // cached tokens that were on disk
	wire.Ended
	Output int `json:"output_tokens"`
}

func usage(r *engine.Result) Usage {
	return Usage{Input: r.Prompt - r.Cached, CacheRead: r.Cached, CacheDisk: r.FromDisk, Ended: wire.EndOf(r), Output: r.Completion}
}

// stopReason returns Anthropic's name for the reason why an answer ended. most
// is the maximum number of tokens.
func stopReason(r *engine.Result, most int) (reason, sequence *string) {
	s := "end_turn"
	switch {
	case r.Finish == engine.FinishLength && r.Completion < most:
		s = "model_context_window_exceeded"
	case r.Finish == engine.FinishLength:
		s = "max_tokens"
	case r.Finish == engine.FinishTools:
		s = "tool_use"
	case r.Stop != "":
		s = "stop_sequence"
		return &s, &r.Stop
	}
	return &s, nil
}

func newMessage(m *wire.Model) Message {
	return Message{ID: wire.ID("msg_"), Type: "message", Role: "assistant", Model: m.Name, Content: []Block{}}
}

// whole collects an answer.
type whole struct {
	Message
	most  int
	hide  bool           // put the thinking text only into the signature
	input map[int]string // arguments by index of their block
	call  int            // index of the call in the last block, or -1
}

// Whole starts an answer that is sent whole.
func (c *Call) Whole(m *wire.Model) wire.Whole {
	return &whole{Message: newMessage(m), most: *c.MaxTokens, hide: c.omits(), input: map[int]string{}, call: -1}
}

// Add processes an event.
func (w *whole) Add(_ int, ev *engine.Event) {
	switch ev.Kind {
	case engine.Text:
		if ev.Text != "" {
			*w.block("text").Text += ev.Text
		}
	case engine.Reasoning:
		*w.block("thinking").Thinking += ev.Text
	case engine.Call:
		if ev.Call.Index != w.call || ev.Call.ID != "" {
			w.call = ev.Call.Index
			w.Content = append(w.Content, Block{Type: "tool_use", ID: ev.Call.ID, Name: ev.Call.Name})
		}
		w.input[len(w.Content)-1] += ev.Call.Arguments
	case engine.End:
		w.StopReason, w.StopSequence = stopReason(ev.Result, w.most)
		w.Usage = usage(ev.Result)
	}
}

// block returns the last block if it has the given type, and otherwise a new
// one.
func (w *whole) block(kind string) *Block {
	if n := len(w.Content); n == 0 || w.Content[n-1].Type != kind {
		b := Block{Type: kind}
		if kind == "text" {
			b.Text = new(string)
		} else {
			b.Thinking, b.Signature = new(string), new(string)
		}
		w.Content = append(w.Content, b)
		w.call = -1
	}
	return &w.Content[len(w.Content)-1]
}

// omits reports whether the client does not want to see the thinking.
func (c *Call) omits() bool { return c.Thinking != nil && c.Thinking.Display == "omitted" }

// Body returns the answer.
func (w *whole) Body() any {
	for i := range w.Content {
		if b := &w.Content[i]; b.Thinking != nil {
			*b.Signature = wire.Carry(*b.Thinking)
			if w.hide {
				*b.Thinking = ""
			}
		}
	}
	for i, args := range w.input {
		w.Content[i].Input = arguments(args)
	}
	return &w.Message
}

// arguments returns the input of a tool. It is always an object, whatever the model
// wrote.
func arguments(text string) json.RawMessage {
	if raw := json.RawMessage(text); json.Valid(raw) && wire.Kind(raw) == "an object" {
		return raw
	}
	return json.RawMessage("{}")
}

// stream sends an answer as events.
type stream struct {
	m       Message
	most    int
	hide    bool            // put the thinking text only into the signature
	kind    string          // type of the open block; empty without one
	thought strings.Builder // text of the open thinking block
	call    int
	index   int // index of the open or next block
	end     *engine.Result
}

// Stream starts an answer that is sent in pieces.
func (c *Call) Stream(m *wire.Model) wire.Stream {
	return &stream{m: newMessage(m), most: *c.MaxTokens, hide: c.omits()}
}

// The events of a stream.
type (
	startEvent struct {
		Type    string   `json:"type"`
		Message *Message `json:"message"`
	}
	blockStart struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block Block  `json:"content_block"`
	}
	blockDelta struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Delta delta  `json:"delta"`
	}
	delta struct {
		Type     string  `json:"type"`
		Text     *string `json:"text,omitempty"`
		Thinking *string `json:"thinking,omitempty"`
		JSON     *string `json:"partial_json,omitempty"`
		Sign     *string `json:"signature,omitempty"`
	}
	blockStop struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	messageDelta struct {
		Type  string    `json:"type"`
		Delta stopDelta `json:"delta"`
		Usage Usage     `json:"usage"`
	}
	stopDelta struct {
		StopReason   *string `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	bareEvent struct {
		Type string `json:"type"`
	}
)

// Start sends the beginning of the message.
func (s *stream) Start(out wire.Sender) error {
	if err := out.Send("message_start", startEvent{"message_start", &s.m}); err != nil {
		return err
	}
	return out.Send("ping", bareEvent{"ping"})
}

// Add sends an event.
func (s *stream) Add(out wire.Sender, _ int, ev *engine.Event) error {
	switch ev.Kind {
	case engine.Prefill:
		if s.m.Usage == (Usage{}) { // the first event contains the number of cached tokens
			s.m.Usage = Usage{Input: ev.Total - ev.Done, CacheRead: ev.Done}
		}
	case engine.Text:
		if ev.Text == "" {
			return nil
		}
		if err := s.open(out, "text", Block{Type: "text", Text: new(string)}); err != nil {
			return err
		}
		return s.delta(out, delta{Type: "text_delta", Text: &ev.Text})
	case engine.Reasoning:
		if err := s.open(out, "thinking", Block{Type: "thinking", Thinking: new(string), Signature: new(string)}); err != nil {
			return err
		}
		s.thought.WriteString(ev.Text)
		if s.hide {
			return nil
		}
		return s.delta(out, delta{Type: "thinking_delta", Thinking: &ev.Text})
	case engine.Call:
		return s.toolUse(out, &ev.Call)
	case engine.End:
		s.end = ev.Result
	}
	return nil
}

func (s *stream) toolUse(out wire.Sender, c *engine.CallDelta) error {
	if s.kind == "tool_use" && c.Index != s.call {
		if err := s.close(out); err != nil {
			return err
		}
	}
	s.call = c.Index
	if err := s.open(out, "tool_use", Block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: json.RawMessage("{}")}); err != nil {
		return err
	}
	if c.Arguments == "" {
		return nil
	}
	return s.delta(out, delta{Type: "input_json_delta", JSON: &c.Arguments})
}

// open opens a block unless one of the kind is already open.
func (s *stream) open(out wire.Sender, kind string, b Block) error {
	if s.kind == kind {
		return nil
	}
	if err := s.close(out); err != nil {
		return err
	}
	s.kind = kind
	return out.Send("content_block_start", blockStart{"content_block_start", s.index, b})
}

func (s *stream) delta(out wire.Sender, d delta) error {
	return out.Send("content_block_delta", blockDelta{"content_block_delta", s.index, d})
}

// close ends the open block.
func (s *stream) close(out wire.Sender) error {
	if s.kind == "" {
		return nil
	}
	if s.kind == "thinking" {
		sign := wire.Carry(s.thought.String())
		s.thought.Reset()
		if err := s.delta(out, delta{Type: "signature_delta", Sign: &sign}); err != nil {
			return err
		}
	}
	s.kind = ""
	s.index++
	return out.Send("content_block_stop", blockStop{"content_block_stop", s.index - 1})
}

// End sends the reason why the message ended.
func (s *stream) End(out wire.Sender) error {
	if err := s.close(out); err != nil {
		return err
	}
	reason, sequence := stopReason(s.end, s.most)
	if err := out.Send("message_delta", messageDelta{"message_delta", stopDelta{reason, sequence}, usage(s.end)}); err != nil {
		return err
	}
	return out.Send("message_stop", bareEvent{"message_stop"})
}

// Fail sends an error in the stream.
func (s *stream) Fail(out wire.Sender, e *wire.Error) error { return out.Send("error", ErrorForm(e)) }

// ErrorBody is Anthropic's error object.
type ErrorBody struct {
	Type      string      `json:"type"`
	Error     ErrorObject `json:"error"`
	RequestID string      `json:"request_id"`
}

// ErrorObject is the object inside an ErrorBody. The fields after Message are
// Godwit's.
type ErrorObject struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Param   string `json:"param,omitempty"`
	Prompt  int    `json:"n_prompt_tokens,omitempty"`
	Context int    `json:"n_ctx,omitempty"`
}

// errorTypes maps statuses to Anthropic's error types.
var errorTypes = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests: "rate_limit_error", http.StatusServiceUnavailable: "overloaded_error",
}

// Below lists the prefixes of the dialect's paths, including unknown paths.
var Below = []string{"/v1/messages/"}

// ErrorForm writes an error in Anthropic's form. It uses only Anthropic's
// types, because clients do not accept others. A prompt that does not fit is
// therefore reported in the code.
func ErrorForm(e *wire.Error) any {
	kind := errorTypes[e.Status]
	switch {
	case kind != "":
	case e.Status >= http.StatusInternalServerError:
		kind = "api_error"
	default:
		kind = wire.Invalid
	}
	message := e.Message
	if e.Type == wire.Overflow {
		message = fmt.Sprintf("prompt is too long: %d tokens > %d maximum", e.Prompt, e.Context)
	}
	return ErrorBody{
		Type: "error", RequestID: wire.ID("req_"),
		Error: ErrorObject{Type: kind, Message: message, Code: e.Code, Param: e.Param, Prompt: e.Prompt, Context: e.Context},
	}
}
