package lmstudio

import (
	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
)

// Stats holds the times of an answer in seconds, and the reason why it ended.
type Stats struct {
	Speed      float64 `json:"tokens_per_second"`
	First      float64 `json:"time_to_first_token"`
	Generation float64 `json:"generation_time"`
	Reason     string  `json:"stop_reason"`
}

// ModelInfo describes the model of an answer.
type ModelInfo struct {
	Arch    string `json:"arch"`
	Quant   string `json:"quant"`
	Format  string `json:"format"`
	Context int    `json:"context_length"`
}

// Runtime describes the engine that ran the model.
type Runtime struct {
	Name    string   `json:"name"`
	Formats []string `json:"supported_formats"`
}

// extra holds the fields that LM Studio adds to OpenAI's responses.
type extra struct {
	Stats   Stats     `json:"stats"`
	Info    ModelInfo `json:"model_info"`
	Runtime Runtime   `json:"runtime"`
}

// ChatCompletion is the answer of POST /api/v0/chat/completions.
type ChatCompletion struct {
	openai.ChatCompletion
	extra
}

// TextCompletion is the answer of POST /api/v0/completions.
type TextCompletion struct {
	openai.TextCompletion
	extra
}

// stopReason returns LM Studio's name for the reason why an answer ended.
func stopReason(r *engine.Result) string {
	switch {
	case r.Full:
		return "contextLengthReached"
	case r.Finish == engine.FinishLength:
		return "maxPredictedTokensReached"
	case r.Finish == engine.FinishTools:
		return "toolCalls"
	case r.Stop != "":
		return "stopStringFound"
	}
	return "eosFound"
}

func newExtra(m *wire.Model) extra {
	return extra{
		Info:    ModelInfo{m.Info.Arch, m.Info.Quant, "gguf", contextOf(m)},
		Runtime: Runtime{"godwit", []string{"gguf"}},
	}
}

func contextOf(m *wire.Model) int {
	if m.Engine == nil {
		return 0
	}
	return m.Engine.Context()
}

// see processes the end of an answer.
func (x *extra) see(ev *engine.Event) {
	if ev.Kind != engine.End {
		return
	}
	r := ev.Result
	x.Stats = Stats{First: (r.Waited + r.Prefill).Seconds(), Generation: r.Decode.Seconds(), Reason: stopReason(r)}
	if r.Decode > 0 {
		x.Stats.Speed = float64(r.Completion) / r.Decode.Seconds()
	}
}

// withStats is a call of OpenAI's dialect whose response has LM Studio's stats.
type withStats struct{ wire.Call }

// chatWithStats is a chat, which can be controlled while it runs.
type chatWithStats struct {
	withStats
	id string
}

// ControlID returns the id under which the running answer can be controlled.
func (c chatWithStats) ControlID() string { return c.id }

func parseChat(body []byte) (wire.Call, error) {
	c, err := openai.ParseChat(body)
	if err != nil {
		return nil, err
	}
	return chatWithStats{withStats{c}, c.ControlID()}, nil
}

func parseCompletion(body []byte) (wire.Call, error) {
	c, err := openai.ParseCompletion(body)
	return withStats{c}, err
}

// statsWhole adds the stats to a response that is sent whole.
type statsWhole struct {
	wire.Whole
	extra
}

// Whole starts an answer that is sent whole.
func (c withStats) Whole(m *wire.Model) wire.Whole { return &statsWhole{c.Call.Whole(m), newExtra(m)} }

// Add processes an event.
func (w *statsWhole) Add(choice int, ev *engine.Event) {
	w.see(ev)
	w.Whole.Add(choice, ev)
}

// Body returns the answer.
func (w *statsWhole) Body() any { return joined{w.Whole.Body(), w.extra} }

// joined is encoded as the object with the fields of extra added.
type joined struct {
	body any
	extra
}

// MarshalJSON encodes both objects as one.
func (j joined) MarshalJSON() ([]byte, error) {
	b, more := wire.JSON(j.body), wire.JSON(j.extra)
	return append(append(b[:len(b)-1:len(b)-1], ','), more[1:]...), nil
}

// statsStream adds the stats to the last chunk of a stream.
type statsStream struct {
	wire.Stream
	extra
	held any // the latest chunk, held back until the next one arrives
	out  wire.Sender
}

// Stream starts an answer that is sent in pieces.
func (c withStats) Stream(m *wire.Model) wire.Stream {
	return &statsStream{Stream: c.Call.Stream(m), extra: newExtra(m)}
}

// Send holds back every chunk until the next one, because only the last chunk
// gets the stats. It encodes chunks immediately, because their senders reuse
// them.
func (s *statsStream) Send(name string, data any) error {
	if text, ok := data.(wire.Plain); ok {
		if s.held != nil {
			if err := s.out.Send("", joined{s.held, s.extra}); err != nil {
				return err
			}
			s.held = nil
		}
		return s.out.Send(name, text)
	}
	last := s.held
	s.held = wire.JSON(data)
	if last == nil {
		return nil
	}
	return s.out.Send(name, last)
}

// Start begins the stream.
func (s *statsStream) Start(out wire.Sender) error {
	s.out = out
	return s.Stream.Start(s)
}

// Add sends an event.
func (s *statsStream) Add(out wire.Sender, choice int, ev *engine.Event) error {
	s.out = out
	s.see(ev)
	return s.Stream.Add(s, choice, ev)
}

// End sends the last chunk with the stats.
func (s *statsStream) End(out wire.Sender) error {
	s.out = out
	return s.Stream.End(s)
}
