package ollama

import (
	"encoding/json"
	"time"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
)

// Answer is a message of POST /api/chat or /api/generate. It is a whole answer,
// a piece of one, or the last message with the counters.
type Answer struct {
	Model      string                `json:"model"`
	Created    string                `json:"created_at"`
	Message    *Message              `json:"message,omitempty"`
	Response   *string               `json:"response,omitempty"`
	Thinking   string                `json:"thinking,omitempty"`
	Done       bool                  `json:"done"`
	DoneReason string                `json:"done_reason,omitempty"`
	Logprobs   []openai.TokenLogprob `json:"logprobs,omitempty"`
	*Counters
}

// Message is the text of the model.
type Message struct {
	Role     string     `json:"role"`
	Content  string     `json:"content"`
	Thinking string     `json:"thinking,omitempty"`
	Calls    []ToolCall `json:"tool_calls,omitempty"`
}

// ToolCall is a tool call. Its arguments are an object.
type ToolCall struct {
	ID       string       `json:"id,omitempty"`
	Function CallFunction `json:"function"`
}

// CallFunction is the function of a call.
type CallFunction struct {
	Index     int             `json:"index"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Counters holds token counts, and times in nanoseconds.
type Counters struct {
	Total          int64 `json:"total_duration"`
	Load           int64 `json:"load_duration"`
	Prompt         int   `json:"prompt_eval_count"`
	PromptDuration int64 `json:"prompt_eval_duration"`
	Cached         int   `json:"prompt_cached_count,omitempty"`      // prompt tokens that came from the cache and were not computed again
	CachedDisk     int   `json:"prompt_cached_disk_count,omitempty"` // cached tokens that were on disk
	wire.Ended
	Generated int   `json:"eval_count"`
	Duration  int64 `json:"eval_duration"`
}

// call is a tool call that is being collected.
type call struct {
	id, name, args string
}

// answer holds the state that both kinds of answers need.
type answer struct {
	c        *Call
	m        *wire.Model
	start    time.Time
	calls    []call
	counters *Counters
	reason   string
}

func (c *Call) answer(m *wire.Model) answer {
	a := answer{c: c, m: m, start: time.Now(), counters: &Counters{}}
	if c.load {
		a.reason, a.counters = "load", nil
		if span := c.KeepAlive.Span; span != nil && *span == 0 {
			a.reason = "unload"
		}
	}
	return a
}

// message returns an answer with the given parts.
func (a *answer) message(content, thinking string, calls []ToolCall) *Answer {
	out := &Answer{Model: a.c.Model, Created: time.Now().UTC().Format(time.RFC3339Nano)}
	if a.c.text {
		out.Response, out.Thinking = &content, thinking
	} else {
		out.Message = &Message{"assistant", content, thinking, calls}
	}
	return out
}

// finish completes the last message of an answer.
func (a *answer) finish(out *Answer) *Answer {
	out.Done, out.DoneReason, out.Counters = true, a.reason, a.counters
	return out
}

func (a *answer) end(r *engine.Result) {
	a.reason = r.Finish
	if r.Finish == engine.FinishTools {
		a.reason = engine.FinishStop
	}
	a.counters = &Counters{
		Total: int64(time.Since(a.start) + a.m.Load), Load: int64(a.m.Load),
		Prompt: r.Prompt, PromptDuration: int64(r.Prefill), Cached: r.Cached, CachedDisk: r.FromDisk, Ended: wire.EndOf(r), Generated: r.Completion, Duration: int64(r.Decode),
	}
}

// add adds a piece of a tool call.
func (a *answer) add(d *engine.CallDelta) {
	for len(a.calls) <= d.Index {
		a.calls = append(a.calls, call{})
	}
	c := &a.calls[d.Index]
	c.id, c.name, c.args = c.id+d.ID, c.name+d.Name, c.args+d.Arguments
}

// toolCalls returns the calls from index first to the end.
func (a *answer) toolCalls(first int) []ToolCall {
	var out []ToolCall
	for i, c := range a.calls[first:] {
		args := json.RawMessage(c.args)
		if !json.Valid(args) || wire.Kind(args) != "an object" {
			args = json.RawMessage("{}")
		}
		out = append(out, ToolCall{c.id, CallFunction{first + i, c.name, args}})
	}
	return out
}

// whole collects an answer.
type whole struct {
	answer
	text, thinking string
	logprobs       []openai.TokenLogprob
}

// Whole starts an answer that is sent whole.
func (c *Call) Whole(m *wire.Model) wire.Whole { return &whole{answer: c.answer(m)} }

// Add processes an event.
func (w *whole) Add(_ int, ev *engine.Event) {
	switch ev.Kind {
	case engine.Text:
		w.text += ev.Text
		w.logprobs = append(w.logprobs, openai.TokenLogprobs(ev.Tokens)...)
	case engine.Reasoning:
		w.thinking += ev.Text
	case engine.Call:
		w.add(&ev.Call)
	case engine.End:
		w.end(ev.Result)
	}
}

// Body returns the answer.
func (w *whole) Body() any {
	out := w.finish(w.message(w.text, w.thinking, w.toolCalls(0)))
	out.Logprobs = w.logprobs
	return out
}

// stream sends an answer as JSON lines. A tool call is one line, so it is sent once
// it is complete.
type stream struct {
	answer
	sent int // number of tool calls already sent
}

// Stream starts an answer that is sent in pieces.
func (c *Call) Stream(m *wire.Model) wire.Stream { return &stream{answer: c.answer(m)} }

// Start sends nothing.
func (s *stream) Start(wire.Sender) error { return nil }

// Add sends an event.
func (s *stream) Add(out wire.Sender, _ int, ev *engine.Event) error {
	if ev.Kind == engine.Call {
		s.add(&ev.Call)
		return nil
	}
	if ev.Kind != engine.Prefill && s.sent < len(s.calls) {
		calls := s.toolCalls(s.sent)
		s.sent = len(s.calls)
		if err := out.Send("", s.message("", "", calls)); err != nil {
			return err
		}
	}
	switch ev.Kind {
	case engine.Text:
		m := s.message(ev.Text, "", nil)
		m.Logprobs = openai.TokenLogprobs(ev.Tokens)
		return out.Send("", m)
	case engine.Reasoning:
		return out.Send("", s.message("", ev.Text, nil))
	case engine.End:
		s.end(ev.Result)
	}
	return nil
}

// End sends the last line.
func (s *stream) End(out wire.Sender) error { return out.Send("", s.finish(s.message("", "", nil))) }

// Fail sends an error in the stream.
func (s *stream) Fail(out wire.Sender, e *wire.Error) error { return out.Send("", ErrorForm(e)) }

// ErrorBody is Ollama's error object. The fields after Error are Godwit's.
type ErrorBody struct {
	Error   string `json:"error"`
	Type    string `json:"type,omitempty"`
	Code    string `json:"code,omitempty"`
	Param   string `json:"param,omitempty"`
	Prompt  int    `json:"n_prompt_tokens,omitempty"`
	Context int    `json:"n_ctx,omitempty"`
}

// Below lists the prefixes of the dialect's paths, including unknown paths.
var Below = []string{"/api/"}

// ErrorForm writes an error in Ollama's form.
func ErrorForm(e *wire.Error) any {
	return ErrorBody{e.Message, e.Type, e.Code, e.Param, e.Prompt, e.Context}
}
