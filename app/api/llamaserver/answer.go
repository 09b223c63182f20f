package llamaserver

import (
	"encoding/json"
	"time"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
	"godwit/engine/llm"
)

// Completion is an answer of POST /completion.
type Completion struct {
	Index      int             `json:"index"`
	Content    string          `json:"content"`
	Tokens     []llm.Token     `json:"tokens"`
	Slot       int             `json:"id_slot"`
	Stop       bool            `json:"stop"`
	Model      string          `json:"model"`
	Predicted  int             `json:"tokens_predicted"`
	Evaluated  int             `json:"tokens_evaluated"`
	Cached     int             `json:"tokens_cached"`
	Settings   Settings        `json:"generation_settings"`
	HasNewLine bool            `json:"has_new_line"`
	Truncated  bool            `json:"truncated"`
	StopType   string          `json:"stop_type"` // eos, word, limit
	StopWord   string          `json:"stopping_word"`
	Timings    Timings         `json:"timings"`
	Probs      json.RawMessage `json:"completion_probabilities,omitempty"`
}

// Piece is a piece of a streamed answer.
type Piece struct {
	Index     int             `json:"index"`
	Content   string          `json:"content"`
	Tokens    []llm.Token     `json:"tokens"`
	Stop      bool            `json:"stop"`
	Slot      int             `json:"id_slot"`
	Predicted int             `json:"tokens_predicted"`
	Evaluated int             `json:"tokens_evaluated"`
	Probs     json.RawMessage `json:"completion_probabilities,omitempty"`
}

// Timings are the counts and times of an answer.
type Timings struct {
	Cached          int     `json:"cache_n"`
	Prompt          int     `json:"prompt_n"` // computed, not taken from the cache
	PromptMS        float64 `json:"prompt_ms"`
	PromptPerToken  float64 `json:"prompt_per_token_ms"`
	PromptPerSecond float64 `json:"prompt_per_second"`
	Decoded         int     `json:"predicted_n"`
	DecodedMS       float64 `json:"predicted_ms"`
	PerToken        float64 `json:"predicted_per_token_ms"`
	PerSecond       float64 `json:"predicted_per_second"`
}

func timings(r *engine.Result) Timings {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	share := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	t := Timings{Cached: r.Cached, Prompt: r.Prompt - r.Cached, PromptMS: ms(r.Prefill), Decoded: r.Completion, DecodedMS: ms(r.Decode)}
	t.PromptPerToken, t.PromptPerSecond = share(t.PromptMS, float64(t.Prompt)), share(1000*float64(t.Prompt), t.PromptMS)
	t.PerToken, t.PerSecond = share(t.DecodedMS, float64(t.Decoded)), share(1000*float64(t.Decoded), t.DecodedMS)
	return t
}

// Settings are what the answer was generated with.
type Settings struct {
	Context     int      `json:"n_ctx"`
	Predict     int      `json:"n_predict"`
	Model       string   `json:"model"`
	Seed        int64    `json:"seed"`
	Temperature float64  `json:"temperature"`
	TopK        int      `json:"top_k"`
	TopP        float64  `json:"top_p"`
	MinP        float64  `json:"min_p"`
	Repeat      float64  `json:"repeat_penalty"`
	Presence    float64  `json:"presence_penalty"`
	Frequency   float64  `json:"frequency_penalty"`
	Stop        []string `json:"stop"`
	Stream      bool     `json:"stream"`
}

// NewSettings describes a request.
func NewSettings(m *wire.Model, r *engine.Request, stream bool) Settings {
	p := &r.Sampling
	s := Settings{
		Predict: -1, Model: m.Name, Seed: p.Seed, Temperature: p.Temperature, TopK: p.TopK, TopP: p.TopP,
		MinP: p.MinP, Repeat: p.RepeatPenalty, Presence: p.PresencePenalty, Frequency: p.FrequencyPenalty,
		Stop: append([]string{}, r.Stop...), Stream: stream,
	}
	if m.Engine != nil {
		s.Context = m.Engine.Context()
	}
	if r.MaxTokens > 0 {
		s.Predict = r.MaxTokens
	}
	return s
}

// answer is what both kinds of answers keep.
type answer struct {
	c     *Call
	m     *wire.Model
	probs []Prob
	line  bool // a line break was seen
	final Completion
}

func (c *Call) answer(m *wire.Model) answer { return answer{c: c, m: m} }

// end is the last message of an answer.
func (a *answer) end(r *engine.Result) Completion {
	base, err := a.m.Base(&a.c.Sampling)
	if err != nil { // it was translated before
		panic("llamaserver: " + err.Error())
	}
	base.Stop, base.MaxTokens = a.c.Stop, 0
	if a.c.Predict != nil {
		base.MaxTokens = max(*a.c.Predict, 0)
	}
	f := Completion{
		Tokens: []llm.Token{}, Slot: r.Slot, Stop: true, Model: a.m.Name, Predicted: r.Completion, Evaluated: r.Prompt,
		Cached: r.Cached, HasNewLine: a.line, Truncated: r.Full || r.Shifts > 0, StopType: "eos", StopWord: r.Stop, Timings: timings(r),
		Settings: NewSettings(a.m, &base, a.c.Options.Stream),
	}
	f.Settings.Seed = r.Seed
	switch {
	case r.Stop != "":
		f.StopType = "word"
	case r.Finish == engine.FinishLength:
		f.StopType = "limit"
	}
	if a.c.nothing() {
		f.Predicted = 0
	}
	return f
}

// seen notes what the last message tells of the text.
func (a *answer) seen(text string) {
	for i := 0; i < len(text) && !a.line; i++ {
		a.line = text[i] == '\n'
	}
}

// Prob is a token with its alternatives.
type Prob struct {
	ID llm.Token `json:"id"`
	openai.Logprob
	Top []ProbTop `json:"top_logprobs"`
}

// ProbTop is an alternative.
type ProbTop struct {
	ID llm.Token `json:"id"`
	openai.Logprob
}

func probs(tokens []engine.Token) []Prob {
	out := make([]Prob, len(tokens))
	for i, p := range openai.TokenLogprobs(tokens) {
		out[i] = Prob{tokens[i].ID, p.Logprob, make([]ProbTop, len(p.Top))}
		for j, top := range p.Top {
			out[i].Top[j] = ProbTop{tokens[i].Top[j].ID, top}
		}
	}
	return out
}

// whole collects an answer.
type whole struct {
	answer
	text string
}

// Whole starts an answer that is sent at once.
func (c *Call) Whole(m *wire.Model) wire.Whole { return &whole{answer: c.answer(m)} }

// Add takes an event in.
func (w *whole) Add(_ int, ev *engine.Event) {
	switch ev.Kind {
	case engine.Text:
		w.text += ev.Text
		w.seen(ev.Text)
		w.probs = append(w.probs, probs(ev.Tokens)...)
	case engine.End:
		w.final = w.end(ev.Result)
		if w.c.ReturnTokens {
			w.final.Tokens = ev.Result.Tokens
		}
	}
}

// Body is the answer.
func (w *whole) Body() any {
	if !w.c.nothing() {
		w.final.Content = w.text
	}
	if w.c.Probs != nil && *w.c.Probs > 0 {
		w.final.Probs = wire.JSON(w.probs)
	}
	return &w.final
}

// stream sends an answer piece by piece.
type stream struct {
	answer
	piece Piece
}

// Stream starts an answer that is sent piece by piece.
func (c *Call) Stream(m *wire.Model) wire.Stream { return &stream{answer: c.answer(m)} }

// Start sends nothing.
func (s *stream) Start(wire.Sender) error { return nil }

// Add sends an event.
func (s *stream) Add(out wire.Sender, _ int, ev *engine.Event) error {
	switch ev.Kind {
	case engine.Prefill:
		s.piece.Slot, s.piece.Evaluated = ev.Slot, ev.Total
	case engine.Text:
		if s.c.nothing() {
			return nil
		}
		s.seen(ev.Text)
		s.piece.Predicted += len(ev.IDs)
		s.piece.Content, s.piece.Tokens, s.piece.Probs = ev.Text, ev.IDs, nil
		if ev.IDs == nil {
			s.piece.Tokens = []llm.Token{}
		}
		if s.c.Probs != nil && *s.c.Probs > 0 {
			s.piece.Probs = wire.JSON(probs(ev.Tokens))
		}
		return out.Send("", &s.piece)
	case engine.End:
		s.final = s.end(ev.Result)
	}
	return nil
}

// End sends the last message.
func (s *stream) End(out wire.Sender) error { return out.Send("", &s.final) }

// Fail sends an error in the stream.
func (s *stream) Fail(out wire.Sender, e *wire.Error) error { return out.Send("", ErrorForm(e)) }
