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

// PromptDetails says how much of the prompt was not read again, and how much of
// that was kept in memory and on disk.
type PromptDetails struct {
	Cached int `json:"cached_tokens"`
	Memory int `json:"cached_memory_tokens"`
	Disk   int `json:"cached_disk_tokens"`
	wire.Ended
}

// add counts a choice; all choices of a prompt share its tokens.
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

// ChatCompletion is an answer sent at once.
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

// ChatChoice is one answer.
type ChatChoice struct {
	Index    int       `json:"index"`
	Message  Message   `json:"message"`
	Logprobs *Logprobs `json:"logprobs"`
	Finish   string    `json:"finish_reason"`
}

// Message is what the model said.
type Message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []ToolCall `json:"tool_calls,omitempty"`
	Refusal   *string    `json:"refusal"`
}

// ToolCall is a call, or in a stream a piece of one.
type ToolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function CallFunction `json:"function"`
}

// CallFunction is the function of a call; its arguments are JSON in a string.
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

// Logprob is a token: its text, natural logarithm of its probability, bytes.
type Logprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// noLogprob stands for the logarithm of 0, which JSON cannot hold.
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

// fingerprint tells clients that answers come from one kind of server.
const fingerprint = "godwit"

// chatWhole collects a chat completion.
type chatWhole struct {
	ChatCompletion
	text []string
}

// Whole starts an answer that is sent at once.
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

// Add takes an event in.
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

// Body is the answer.
func (w *chatWhole) Body() any {
	for i := range w.Choices {
		if m := &w.Choices[i].Message; w.text[i] != "" || len(m.Calls) == 0 {
			m.Content = &w.text[i]
		}
	}
	return &w.ChatCompletion
}

// ChatChunk is a piece of a streamed chat completion.
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

// ChunkChoice is what a chunk adds to an answer.
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
	asked    bool // for usage
	usage    Usage
	each     bool // timings with every chunk
	progress bool // progress of the prompt
	watch    []wire.Watch
	times    *wire.Timings // times of the first choice
}

// Stream starts an answer that is sent piece by piece.
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

// read says how far the prompt has been read, where that is wanted.
func (s *chatStream) read(out wire.Sender, i int, ev *engine.Event) error {
	p := s.watch[i].Prefill(ev)
	if !s.progress {
		return nil
	}
	chunk := s.chunk
	chunk.Choices, chunk.Progress = []ChunkChoice{{Index: i}}, &p
	return out.Send("", &chunk)
}

// End sends the counts, where they are wanted, and the mark of the end.
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
