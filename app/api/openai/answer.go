package openai

import (
	"encoding/json"
	"math"
	"time"

	"godwit/app/api/wire"
	"godwit/engine"
)

// Usage counts tokens.
type Usage struct {
	Prompt     int           `json:"prompt_tokens"`
	Completion int           `json:"completion_tokens"`
	Total      int           `json:"total_tokens"`
	Details    PromptDetails `json:"prompt_tokens_details"`
	Generated  OutputDetails `json:"completion_tokens_details"`
}

// PromptDetails counts the prompt tokens that were in the cache, and how many
// of them were stored in memory and on disk.
type PromptDetails struct {
	Cached int `json:"cached_tokens"`
	Memory int `json:"cached_memory_tokens"`
	Disk   int `json:"cached_disk_tokens"`
	wire.Ended
}

// add counts a choice. All choices of a prompt share its tokens.
func (u *Usage) add(r *engine.Result, first bool) {
	if first {
		u.Prompt += r.Prompt
		u.Details.Cached += r.Cached
		u.Details.Memory += r.Cached - r.FromDisk
		u.Details.Disk += r.FromDisk
		u.Details.Ended = wire.EndOf(r)
	}
	u.Completion += r.Completion
	d := outputDetails(r)
	u.Generated.Reasoning += d.Reasoning
	u.Generated.Accepted += d.Accepted
	u.Generated.Rejected += d.Rejected
	u.Total = u.Prompt + u.Completion
}

// ChatCompletion is an answer that is sent whole.
type ChatCompletion struct {
	ID          string        `json:"id"`
	Object      string        `json:"object"`
	Created     int64         `json:"created"`
	Model       string        `json:"model"`
	Fingerprint string        `json:"system_fingerprint"`
	Choices     []ChatChoice  `json:"choices"`
	Usage       Usage         `json:"usage"`
	Timings     *wire.Timings `json:"timings,omitempty"`
}

// ChatChoice is one of the answers.
type ChatChoice struct {
	Index    int       `json:"index"`
	Message  Message   `json:"message"`
	Logprobs *Logprobs `json:"logprobs"`
	Finish   string    `json:"finish_reason"`
}

// Message is the text of the model.
type Message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []ToolCall `json:"tool_calls,omitempty"`
	Refusal   *string    `json:"refusal"`
}

// ToolCall is a call, or in a stream a piece of a call.
type ToolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function CallFunction `json:"function"`
}

// CallFunction is the function of a call. Its arguments are JSON in a string.
type CallFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// Logprobs are the log-probabilities of an answer's tokens.
type Logprobs struct {
	Content []TokenLogprob `json:"content"`
	Refusal *string        `json:"refusal"`
}

// TokenLogprob is a token with its alternatives.
type TokenLogprob struct {
	Logprob
	Top []Logprob `json:"top_logprobs"`
}

// Logprob is a token: its text, the natural logarithm of its probability, and its
// bytes.
type Logprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// noLogprob stands for the logarithm of 0, which JSON cannot express.
const noLogprob = -9999

func logprob(text []byte, x float64) Logprob {
	l := Logprob{Token: string(text), Logprob: x, Bytes: make([]int, len(text))}
	if math.IsInf(x, -1) || math.IsNaN(x) {
		l.Logprob = noLogprob
	}
	for i, b := range text {
		l.Bytes[i] = int(b)
	}
	return l
}

// TokenLogprobs writes tokens in OpenAI's form.
func TokenLogprobs(tokens []engine.Token) []TokenLogprob {
	out := make([]TokenLogprob, len(tokens))
	for i, t := range tokens {
		out[i] = TokenLogprob{logprob(t.Bytes, t.Logprob), make([]Logprob, len(t.Top))}
		for j, top := range t.Top {
			out[i].Top[j] = logprob(top.Bytes, top.Logprob)
		}
	}
	return out
}

// fingerprint is the same for all answers of this server.
const fingerprint = "godwit"

// chatWhole collects a chat completion.
type chatWhole struct {
	ChatCompletion
	text []string
}

// Whole starts an answer that is sent whole.
func (c *Chat) Whole(m *wire.Model) wire.Whole {
	w := &chatWhole{ChatCompletion: ChatCompletion{
		ID: c.id, Object: "chat.completion", Created: time.Now().Unix(), Model: m.Name, Fingerprint: fingerprint,
	}}
	n := 1
	if c.N != nil {
		n = *c.N
	}
	w.text = make([]string, n)
	for i := range n {
		choice := ChatChoice{Index: i, Message: Message{Role: "assistant"}}
		if c.Logprobs {
			choice.Logprobs = &Logprobs{Content: []TokenLogprob{}}
		}
		w.Choices = append(w.Choices, choice)
	}
	return w
}

// Add processes an event.
func (w *chatWhole) Add(i int, ev *engine.Event) {
	c := &w.Choices[i]
	switch ev.Kind {
	case engine.Text:
		w.text[i] += ev.Text
		if c.Logprobs != nil {
			c.Logprobs.Content = append(c.Logprobs.Content, TokenLogprobs(ev.Tokens)...)
		}
	case engine.Reasoning:
		c.Message.Reasoning += ev.Text
	case engine.Call:
		c.Message.Calls = addCall(c.Message.Calls, ev.Call)
	case engine.End:
		c.Finish = ev.Result.Finish
		w.Usage.add(ev.Result, i == 0)
		if i == 0 {
			times := wire.NewTimings(ev.Result)
			w.Timings = &times
		}
	}
}

// addCall joins the pieces of tool calls.
func addCall(calls []ToolCall, d engine.CallDelta) []ToolCall {
	for len(calls) <= d.Index {
		calls = append(calls, ToolCall{Type: "function"})
	}
	c := &calls[d.Index]
	if d.ID != "" {
		c.ID = d.ID
	}
	c.Function.Name += d.Name
	c.Function.Arguments += d.Arguments
	return calls
}

// Body returns the answer.
func (w *chatWhole) Body() any {
	for i := range w.Choices {
		if m := &w.Choices[i].Message; w.text[i] != "" || len(m.Calls) == 0 {
			m.Content = &w.text[i]
		}
	}
	return &w.ChatCompletion
}

// ChatChunk is a chunk of a streamed chat completion.
type ChatChunk struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"`
	Created     int64           `json:"created"`
	Model       string          `json:"model"`
	Fingerprint string          `json:"system_fingerprint"`
	Choices     []ChunkChoice   `json:"choices"`
	Usage       json.RawMessage `json:"usage,omitempty"`
	Timings     *wire.Timings   `json:"timings,omitempty"`
	Progress    *wire.Progress  `json:"prompt_progress,omitempty"`
}

// ChunkChoice is the part of a chunk for one choice.
type ChunkChoice struct {
	Index    int       `json:"index"`
	Delta    Delta     `json:"delta"`
	Logprobs *Logprobs `json:"logprobs"`
	Finish   *string   `json:"finish_reason"`
}

// Delta is a piece of a message.
type Delta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []ToolCall `json:"tool_calls,omitempty"`
}

// chatStream streams a chat completion.
type chatStream struct {
	chunk    ChatChunk
	n        int
	logprobs bool
	asked    bool // whether the client requested usage
	usage    Usage
	each     bool // whether every chunk contains timings
	progress bool // whether the progress of the prompt is sent
	watch    []wire.Watch
	times    *wire.Timings // timings of the first choice
}

// Stream starts an answer that is sent in pieces.
func (c *Chat) Stream(m *wire.Model) wire.Stream {
	s := &chatStream{n: 1, logprobs: c.Logprobs, chunk: ChatChunk{
		ID: c.id, Object: "chat.completion.chunk", Created: time.Now().Unix(), Model: m.Name, Fingerprint: fingerprint,
	}}
	if c.N != nil {
		s.n = *c.N
	}
	s.each, s.progress, s.watch = c.TimingsPerToken, c.Progress, make([]wire.Watch, s.n)
	if s.asked = c.StreamOptions != nil && c.StreamOptions.IncludeUsage; s.asked {
		s.chunk.Usage = json.RawMessage("null")
	}
	return s
}

func (s *chatStream) send(out wire.Sender, c ChunkChoice) error {
	s.chunk.Choices = []ChunkChoice{c}
	return out.Send("", &s.chunk)
}

// Start sends the role of each choice.
func (s *chatStream) Start(out wire.Sender) error {
	for i := range s.n {
		empty := ""
		if err := s.send(out, ChunkChoice{Index: i, Delta: Delta{Role: "assistant", Content: &empty}}); err != nil {
			return err
		}
	}
	return nil
}

// Add sends an event.
func (s *chatStream) Add(out wire.Sender, i int, ev *engine.Event) error {
	c := ChunkChoice{Index: i}
	s.chunk.Timings = nil
	if s.each && (ev.Kind == engine.Text || ev.Kind == engine.Reasoning || ev.Kind == engine.Call) {
		times := s.watch[i].Tokens(len(ev.IDs))
		s.chunk.Timings = &times
	}
	switch ev.Kind {
	case engine.Prefill:
		return s.read(out, i, ev)
	case engine.Text:
		c.Delta.Content = &ev.Text
		if s.logprobs {
			c.Logprobs = &Logprobs{Content: TokenLogprobs(ev.Tokens)}
		}
	case engine.Reasoning:
		c.Delta.Reasoning = ev.Text
	case engine.Call:
		index := ev.Call.Index
		call := ToolCall{Index: &index, ID: ev.Call.ID, Function: CallFunction{ev.Call.Name, ev.Call.Arguments}}
		if call.ID != "" {
			call.Type = "function"
		}
		c.Delta.Calls = []ToolCall{call}
	case engine.End:
		s.usage.add(ev.Result, i == 0)
		c.Finish = &ev.Result.Finish
		times := wire.NewTimings(ev.Result)
		if s.chunk.Timings = &times; i == 0 {
			s.times = &times
		}
	default:
		return nil
	}
	return s.send(out, c)
}

// read sends the progress of the prompt if it was requested.
func (s *chatStream) read(out wire.Sender, i int, ev *engine.Event) error {
	p := s.watch[i].Prefill(ev)
	if !s.progress {
		return nil
	}
	chunk := s.chunk
	chunk.Choices, chunk.Progress = []ChunkChoice{{Index: i}}, &p
	return out.Send("", &chunk)
}

// End sends the usage, if requested, and the end marker.
func (s *chatStream) End(out wire.Sender) error {
	if s.asked {
		s.chunk.Choices, s.chunk.Usage, s.chunk.Timings = []ChunkChoice{}, wire.JSON(s.usage), s.times
		if err := out.Send("", &s.chunk); err != nil {
			return err
		}
	}
	return out.Send("", wire.Plain("[DONE]"))
}

// Fail sends an error in the stream.
func (s *chatStream) Fail(out wire.Sender, e *wire.Error) error { return out.Send("", e.Body()) }
