package openai

import (
	"encoding/json"
	"slices"
	"time"

	"godwit/app/api/wire"
	"godwit/engine"
)

// Response is an answer of the responses API.
type Response struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Created      int64             `json:"created_at"`
	Status       string            `json:"status"` // in_progress, completed, incomplete, failed
	Error        *ResponseError    `json:"error"`
	Incomplete   *Incomplete       `json:"incomplete_details"`
	Instructions *string           `json:"instructions"`
	MaxTokens    *int              `json:"max_output_tokens"`
	Model        string            `json:"model"`
	Output       []*Item           `json:"output"`
	Parallel     bool              `json:"parallel_tool_calls"`
	Previous     *string           `json:"previous_response_id"`
	Reasoning    *ReasoningOptions `json:"reasoning"`
	Store        bool              `json:"store"`
	Background   bool              `json:"background"`
	Temperature  float64           `json:"temperature"`
	TopP         float64           `json:"top_p"`
	Text         ResponseText      `json:"text"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
	Tools        []json.RawMessage `json:"tools"`
	Truncation   string            `json:"truncation"`
	Usage        *ResponseUsage    `json:"usage"`
	Metadata     json.RawMessage   `json:"metadata"`
}

// ResponseError is the reason why a response failed.
type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Incomplete is the reason why a response is incomplete.
type Incomplete struct {
	Reason string `json:"reason"`
}

// ResponseUsage counts tokens.
type ResponseUsage struct {
	Input         int           `json:"input_tokens"`
	InputDetails  InputDetails  `json:"input_tokens_details"`
	Output        int           `json:"output_tokens"`
	OutputDetails OutputDetails `json:"output_tokens_details"`
	Total         int           `json:"total_tokens"`
}

// InputDetails counts the input tokens that were in the cache, and how many of
// them were stored in memory and on disk. Writing to the cache is not counted.
type InputDetails struct {
	Cached int `json:"cached_tokens"`
	Memory int `json:"cached_memory_tokens"`
	Disk   int `json:"cached_disk_tokens"`
	wire.Ended
	Written int `json:"cache_write_tokens"`
}

// OutputDetails counts an answer's reasoning tokens, and the proposed tokens that
// were accepted and rejected.
type OutputDetails struct {
	Reasoning int `json:"reasoning_tokens"`
	Accepted  int `json:"accepted_prediction_tokens"`
	Rejected  int `json:"rejected_prediction_tokens"`
}

// outputDetails returns the details of an answer.
func outputDetails(r *engine.Result) OutputDetails {
	return OutputDetails{r.Reasoning, r.Accepted, r.Drafted - r.Accepted}
}

// Item is a part of a response: a message, reasoning, or a function call.
type Item struct {
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	Status    string         `json:"status"`
	Role      string         `json:"role,omitempty"`
	Content   *[]ContentPart `json:"content,omitempty"`
	Summary   *[]ContentPart `json:"summary,omitempty"`
	CallID    string         `json:"call_id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Namespace string         `json:"namespace,omitempty"`
	Arguments *string        `json:"arguments,omitempty"` // arguments of a function call
	Input     *string        `json:"input,omitempty"`     // input of a custom tool call
	Action    *ShellAction   `json:"action,omitempty"`    // action of a local shell call
	Carried   string         `json:"encrypted_content,omitempty"`
}

// ShellAction is a command for the client's shell.
type ShellAction struct {
	Type    string          `json:"type"`
	Command []string        `json:"command"`
	Env     json.RawMessage `json:"env"`
	Time    *int            `json:"timeout_ms,omitempty"`
	Folder  *string         `json:"working_directory,omitempty"`
}

// ContentPart is text of a message or of reasoning.
type ContentPart struct {
	Type        string          `json:"type"` // output_text, reasoning_text
	Text        string          `json:"text"`
	Annotations *[]struct{}     `json:"annotations,omitempty"`
	Logprobs    *[]TokenLogprob `json:"logprobs,omitempty"`
}

func textPart(text string, logprobs []TokenLogprob) ContentPart {
	if logprobs == nil {
		logprobs = []TokenLogprob{}
	}
	return ContentPart{"output_text", text, &[]struct{}{}, &logprobs}
}

// builder builds a response. If out is set, it sends an event for each step.
type builder struct {
	c        *Responses
	r        Response
	out      wire.Sender
	err      error // first error while sending
	number   int
	open     *Item
	call     int // index of the call of the open item
	text     string
	logprobs []TokenLogprob
}

// keeps reports whether the response is kept.
func (c *Responses) keeps() bool { return c.Store == nil || *c.Store }

// keep stores the response in the memory, unless it was cancelled in the meantime.
func (b *builder) keep() {
	c := b.c
	if !c.keeps() || c.Empty {
		return
	}
	k := &kept{id: c.id, input: c.all, body: wire.JSON(&b.r), started: c.Background}
	for _, it := range b.r.Output {
		k.output = append(k.output, wire.JSON(it))
	}
	if c.Background {
		if old, err := c.memory.find(c.id, ""); err != nil || old.cancel == nil {
			return
		}
	}
	c.memory.put(k)
}

func (c *Responses) builder(m *wire.Model) *builder {
	p := m.Defaults.Sampling
	if m.Engine != nil {
		_ = c.Sampling.Apply(&p, m.Words) // errors were already reported; only the values are needed here
	}
	b := &builder{c: c, r: Response{
		ID: c.id, Object: "response", Created: time.Now().Unix(), Status: "in_progress", Model: m.Name,
		MaxTokens: c.MaxTokens, Output: []*Item{}, Parallel: c.Parallel == nil || *c.Parallel, Reasoning: c.Reasoning,
		Temperature: p.Temperature, TopP: p.TopP, Text: ResponseText{&TextFormat{Type: "text"}}, ToolChoice: c.choices,
		Tools: c.Tools, Truncation: "disabled", Metadata: c.Metadata, Store: c.keeps(), Background: c.Background,
	}}
	if c.Previous != "" {
		b.r.Previous = &c.Previous
	}
	if c.Instructions != "" {
		b.r.Instructions = &c.Instructions
	}
	if c.Text != nil && c.Text.Format != nil {
		b.r.Text = *c.Text
	}
	if b.r.Tools == nil {
		b.r.Tools = []json.RawMessage{}
	}
	if b.r.Reasoning == nil {
		b.r.Reasoning = &ReasoningOptions{}
	}
	if wire.IsNull(b.r.Metadata) {
		b.r.Metadata = json.RawMessage("{}")
	}
	return b
}

// ResponseEvent is an event in a streamed response. Each type sets some of the
// fields.
type ResponseEvent struct {
	Type      string          `json:"type"`
	Number    int             `json:"sequence_number"`
	Response  *Response       `json:"response,omitempty"`
	ItemID    string          `json:"item_id,omitempty"`
	Output    *int            `json:"output_index,omitempty"`
	Content   *int            `json:"content_index,omitempty"`
	Item      *Item           `json:"item,omitempty"`
	Part      *ContentPart    `json:"part,omitempty"`
	Delta     *string         `json:"delta,omitempty"`
	Text      *string         `json:"text,omitempty"`
	Logprobs  *[]TokenLogprob `json:"logprobs,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments *string         `json:"arguments,omitempty"`
	Input     *string         `json:"input,omitempty"`
}

// tell sends an event.
func (b *builder) tell(e ResponseEvent) {
	if b.out == nil || b.err != nil {
		return
	}
	e.Number = b.number
	b.number++
	if b.open != nil {
		index := len(b.r.Output) - 1
		e.Output = &index
		if e.Item == nil {
			e.ItemID = b.open.ID
		}
	}
	b.err = b.out.Send(e.Type, e)
}

// first points to the index of an item's only content part.
func first() *int { return new(int) }

// begin opens an item.
func (b *builder) begin(it *Item) {
	b.finish("completed")
	it.Status = "in_progress"
	b.open, b.text, b.logprobs = it, "", nil
	b.r.Output = append(b.r.Output, it)
	b.tell(ResponseEvent{Type: "response.output_item.added", Item: it})
	if it.CallID != "" {
		return
	}
	part := b.part()
	b.tell(ResponseEvent{Type: "response.content_part.added", Content: first(), Part: &part})
}

// part returns the content part of the open item.
func (b *builder) part() ContentPart {
	if b.open.Type == "reasoning" {
		return ContentPart{Type: "reasoning_text", Text: b.text}
	}
	return textPart(b.text, b.logprobs)
}

// finish closes the open item with a status: completed or incomplete.
func (b *builder) finish(status string) {
	it := b.open
	if it == nil {
		return
	}
	text := b.text
	switch it.Type {
	case "function_call":
		it.Arguments = &text
		b.tell(ResponseEvent{Type: "response.function_call_arguments.done", Name: it.Name, Arguments: &text})
	case "custom_tool_call":
		input := customInput(text)
		it.Input = &input
		b.tell(ResponseEvent{Type: "response.custom_tool_call_input.delta", Delta: &input})
		b.tell(ResponseEvent{Type: "response.custom_tool_call_input.done", Input: &input})
	case "local_shell_call":
		it.Action = shellAction(text)
	default:
		done := ResponseEvent{Type: "response.reasoning_text.done", Content: first(), Text: &text}
		part := b.part()
		if it.Type == "message" {
			done.Type, done.Logprobs = "response.output_text.done", part.Logprobs
		}
		b.tell(done)
		b.tell(ResponseEvent{Type: "response.content_part.done", Content: first(), Part: &part})
		it.Content = &[]ContentPart{part}
		if it.Type == "reasoning" && slices.Contains(b.c.Include, "reasoning.encrypted_content") {
			it.Carried = wire.Carry(text)
		}
	}
	it.Status = status
	b.tell(ResponseEvent{Type: "response.output_item.done", Item: it})
	b.open = nil
}

// add processes an event.
func (b *builder) add(ev *engine.Event) {
	switch ev.Kind {
	case engine.Text:
		if ev.Text == "" {
			return
		}
		if b.open == nil || b.open.Type != "message" {
			b.begin(&Item{ID: wire.ID("msg_"), Type: "message", Role: "assistant", Content: &[]ContentPart{}})
		}
		logprobs := TokenLogprobs(ev.Tokens)
		b.text, b.logprobs = b.text+ev.Text, append(b.logprobs, logprobs...)
		b.tell(ResponseEvent{Type: "response.output_text.delta", Content: first(), Delta: &ev.Text, Logprobs: &logprobs})
	case engine.Reasoning:
		if b.open == nil || b.open.Type != "reasoning" {
			b.begin(&Item{ID: wire.ID("rs_"), Type: "reasoning", Content: &[]ContentPart{}, Summary: &[]ContentPart{}})
		}
		b.text += ev.Text
		b.tell(ResponseEvent{Type: "response.reasoning_text.delta", Content: first(), Delta: &ev.Text})
	case engine.Call:
		if b.open == nil || b.open.CallID == "" || b.call != ev.Call.Index {
			b.begin(b.newCall(&ev.Call))
		}
		b.call = ev.Call.Index
		b.text += ev.Call.Arguments
		if ev.Call.Arguments != "" && b.open.Type == "function_call" {
			b.tell(ResponseEvent{Type: "response.function_call_arguments.delta", Delta: &ev.Call.Arguments})
		}
	case engine.End:
		b.end(ev.Result)
	}
}

// newCall returns the item of a call, with the type and name of its tool.
func (b *builder) newCall(d *engine.CallDelta) *Item {
	from, ok := b.c.tools.from[d.Name]
	if !ok {
		from = origin{kind: "function_call", name: d.Name}
	}
	it := &Item{Type: from.kind, CallID: d.ID, Name: from.name, Namespace: from.namespace}
	switch from.kind {
	case "custom_tool_call":
		it.ID, it.Input = wire.ID("ctc_"), new(string)
	case "local_shell_call":
		it.ID, it.Name, it.Action = wire.ID("lsh_"), "", shellAction("")
	default:
		it.ID, it.Arguments = wire.ID("fc_"), new(string)
	}
	return it
}

// customInput returns the text in the arguments of a custom tool's function. If the
// model wrote something else, it returns the arguments unchanged.
func customInput(arguments string) string {
	var a struct {
		Input *string `json:"input"`
	}
	if json.Unmarshal([]byte(arguments), &a) != nil || a.Input == nil {
		return arguments
	}
	return *a.Input
}

// shellAction reads the arguments of the function local_shell.
func shellAction(arguments string) *ShellAction {
	a := &ShellAction{}
	_ = json.Unmarshal([]byte(arguments), a) // an invalid command becomes an empty command
	a.Type = "exec"
	if a.Command == nil {
		a.Command = []string{}
	}
	if wire.Kind(a.Env) != "an object" {
		a.Env = json.RawMessage("{}")
	}
	return a
}

// end completes the response.
func (b *builder) end(r *engine.Result) {
	if !b.c.Empty && len(b.r.Output) == 0 { // an answer without text is still a message
		b.begin(&Item{ID: wire.ID("msg_"), Type: "message", Role: "assistant", Content: &[]ContentPart{}})
	}
	b.r.Status = "completed"
	if r.Finish == engine.FinishLength {
		b.r.Status, b.r.Incomplete = "incomplete", &Incomplete{"max_output_tokens"}
	}
	b.finish(b.r.Status)
	b.r.Usage = &ResponseUsage{
		Input: r.Prompt, InputDetails: InputDetails{Cached: r.Cached, Memory: r.Cached - r.FromDisk, Disk: r.FromDisk, Ended: wire.EndOf(r)}, Output: r.Completion,
		OutputDetails: outputDetails(r), Total: r.Prompt + r.Completion,
	}
	b.keep()
}

// fail ends the response. It has failed if e is set, and was cancelled otherwise.
func (b *builder) fail(e *wire.Error) {
	b.r.Status = "cancelled"
	if e == nil {
		return
	}
	code := e.Code
	if code == "" {
		code = e.Type
	}
	b.r.Status, b.r.Error = "failed", &ResponseError{code, e.Message}
}

// responseWhole collects a response.
type responseWhole struct{ *builder }

// Whole starts an answer that is sent whole.
func (c *Responses) Whole(m *wire.Model) wire.Whole { return responseWhole{c.builder(m)} }

// Add processes an event.
func (w responseWhole) Add(_ int, ev *engine.Event) { w.add(ev) }

// Body returns the answer.
func (w responseWhole) Body() any { return &w.r }

// responseStream streams a response.
type responseStream struct{ *builder }

// Stream starts an answer that is sent in pieces.
func (c *Responses) Stream(m *wire.Model) wire.Stream { return responseStream{c.builder(m)} }

// Start sends the response in its initial state.
func (s responseStream) Start(out wire.Sender) error {
	s.out = out
	s.tell(ResponseEvent{Type: "response.created", Response: &s.r})
	s.tell(ResponseEvent{Type: "response.in_progress", Response: &s.r})
	return s.err
}

// Add sends an event.
func (s responseStream) Add(_ wire.Sender, _ int, ev *engine.Event) error {
	s.add(ev)
	return s.err
}

// End sends the response in its final state.
func (s responseStream) End(wire.Sender) error {
	s.tell(ResponseEvent{Type: "response." + s.r.Status, Response: &s.r})
	return s.err
}

// Fail sends an error in the stream.
func (s responseStream) Fail(out wire.Sender, e *wire.Error) error {
	s.out = out
	s.finish("incomplete")
	s.fail(e)
	s.tell(ResponseEvent{Type: "response.failed", Response: &s.r})
	return s.err
}
