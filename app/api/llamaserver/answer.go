package llamaserver

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
	"godwit/engine/llm"
)

// Completion is a response of POST /completion.
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
	Timings    wire.Timings    `json:"timings"`
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
	Timings   *wire.Timings   `json:"timings,omitempty"`
	Progress  *wire.Progress  `json:"prompt_progress,omitempty"`
}

// Settings are the parameters that generated the answer.
type Settings struct {
	Context      int      `json:"n_ctx"`
	Predict      int      `json:"n_predict"`
	MaxTokens    int      `json:"max_tokens"`
	Model        string   `json:"model"`
	Seed         int64    `json:"seed"`
	Temperature  float64  `json:"temperature"`
	TopK         int      `json:"top_k"`
	TopP         float64  `json:"top_p"`
	MinP         float64  `json:"min_p"`
	TypicalP     float64  `json:"typical_p"`
	XTC          float64  `json:"xtc_probability"`
	XTCThreshold float64  `json:"xtc_threshold"`
	Repeat       float64  `json:"repeat_penalty"`
	RepeatLastN  int      `json:"repeat_last_n"`
	Presence     float64  `json:"presence_penalty"`
	Frequency    float64  `json:"frequency_penalty"`
	DRY          float64  `json:"dry_multiplier"`
	DRYBase      float64  `json:"dry_base"`
	DRYAllowed   int      `json:"dry_allowed_length"`
	DRYLastN     int      `json:"dry_penalty_last_n"`
	DRYBreakers  []string `json:"dry_sequence_breakers"`
	LogitBias    []Bias   `json:"logit_bias"`
	Stop         []string `json:"stop"`
	Keep         int      `json:"n_keep"`
	Probs        int      `json:"n_probs"`
	IgnoreEOS    bool     `json:"ignore_eos"`
	Grammar      string   `json:"grammar"`
	Stream       bool     `json:"stream"`
	TimingsPer   bool     `json:"timings_per_token"`
}

// Bias is a change of a token's logit. -9999 bans the token.
type Bias struct {
	Token llm.Token `json:"token"`
	Bias  float64   `json:"bias"`
}

// NewSettings describes a request.
func NewSettings(m *wire.Model, r *engine.Request, stream bool) Settings {
	p := &r.Sampling
	s := Settings{
		Predict: -1, MaxTokens: -1, Model: m.Name, Seed: p.Seed, Temperature: p.Temperature, TopK: p.TopK, TopP: p.TopP,
		MinP: p.MinP, TypicalP: p.TypicalP, XTC: p.XTCProbability, XTCThreshold: p.XTCThreshold,
		Repeat: p.RepeatPenalty, RepeatLastN: p.RepeatLastN, Presence: p.PresencePenalty, Frequency: p.FrequencyPenalty,
		DRY: p.DRYMultiplier, DRYBase: p.DRYBase, DRYAllowed: p.DRYAllowedLength, DRYLastN: p.DRYLastN,
		DRYBreakers: append([]string{}, p.DRYBreakers...), LogitBias: []Bias{},
		Stop: append([]string{}, r.Stop...), Keep: r.Keep, Probs: r.TopLogprobs, IgnoreEOS: r.IgnoreEOG, Stream: stream,
	}
	for _, t := range slices.Sorted(maps.Keys(p.LogitBias)) {
		s.LogitBias = append(s.LogitBias, Bias{t, max(p.LogitBias[t], banned)})
	}
	if m.Engine != nil {
		s.Context = m.Engine.Context()
	}
	if r.MaxTokens > 0 {
		s.Predict, s.MaxTokens = r.MaxTokens, r.MaxTokens
	}
	return s
}

// banned stands for minus infinity, which JSON cannot express.
const banned = -9999

// answer holds the state of one choice that both kinds of answers need.
type answer struct {
	c     *Call
	m     *wire.Model
	index int
	probs []Prob
	line  bool // whether the text contains a line break
	final Completion
	watch wire.Watch
}

func (c *Call) answers(m *wire.Model) []answer {
	list := make([]answer, len(c.requests))
	for i := range list {
		list[i] = answer{c: c, m: m, index: i}
	}
	return list
}

// end returns the last message of an answer.
func (a *answer) end(r *engine.Result) Completion {
	f := Completion{
		Index: a.index, Tokens: []llm.Token{}, Slot: r.Slot, Stop: true, Model: a.m.Name, Predicted: r.Completion, Evaluated: r.Prompt,
		Cached: r.Cached, HasNewLine: a.line, Truncated: r.Full || r.Shifts > 0, StopType: "eos", StopWord: r.Stop, Timings: wire.NewTimings(r),
		Settings: NewSettings(a.m, &a.c.requests[a.index], a.c.Options.Stream),
	}
	f.Settings.Seed, f.Settings.Grammar, f.Settings.TimingsPer = r.Seed, a.c.Grammar, a.c.TimingsPerToken
	switch {
	case r.Stop != "":
		f.StopType = "word"
	case r.Finish == engine.FinishLength:
		f.StopType = "limit"
	}
	if a.c.nothing() {
		f.Predicted, f.Settings.Predict, f.Settings.MaxTokens = 0, 0, 0
	}
	return f
}

// shown returns the last message. It has only the requested fields, or all
// fields by default.
func (a *answer) shown() any {
	if len(a.c.Fields) == 0 {
		return &a.final
	}
	var all map[string]any
	if err := json.Unmarshal(wire.JSON(&a.final), &all); err != nil {
		panic("llamaserver: " + err.Error())
	}
	out := map[string]any{}
	for _, path := range a.c.Fields {
		var v any = all
		there := true
		for _, key := range strings.Split(path, "/") {
			m, ok := v.(map[string]any)
			if v, there = m[key]; !ok || !there {
				there = false
				break
			}
		}
		if there {
			out[path] = v
		}
	}
	return out
}

// seen records whether the text contains a line break, which the last message
// reports.
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

// ProbTop is an alternative to a token.
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

// whole collects the answers.
type whole struct {
	answers []answer
	texts   []string
}

// Whole starts answers that are sent at once.
func (c *Call) Whole(m *wire.Model) wire.Whole {
	return &whole{answers: c.answers(m), texts: make([]string, len(c.requests))}
}

// Add processes an event.
func (w *whole) Add(i int, ev *engine.Event) {
	a := &w.answers[i]
	switch ev.Kind {
	case engine.Text:
		w.texts[i] += ev.Text
		a.seen(ev.Text)
		a.probs = append(a.probs, probs(ev.Tokens)...)
	case engine.End:
		a.final = a.end(ev.Result)
		if a.c.ReturnTokens {
			a.final.Tokens = ev.Result.Tokens
		}
	}
}

// Body returns the answer, or a list of answers if there are several.
func (w *whole) Body() any {
	list := make([]any, len(w.answers))
	for i := range w.answers {
		a := &w.answers[i]
		if !a.c.nothing() {
			a.final.Content = w.texts[i]
		}
		if a.c.Probs != nil && *a.c.Probs > 0 {
			a.final.Probs = wire.JSON(a.probs)
		}
		list[i] = a.shown()
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// stream sends the answers in pieces.
type stream struct {
	answers []answer
	pieces  []Piece
}

// Stream starts answers that are sent in pieces.
func (c *Call) Stream(m *wire.Model) wire.Stream {
	s := &stream{answers: c.answers(m), pieces: make([]Piece, len(c.requests))}
	for i := range s.pieces {
		s.pieces[i].Index = i
	}
	return s
}

// Start sends nothing.
func (s *stream) Start(wire.Sender) error { return nil }

// Add sends an event.
func (s *stream) Add(out wire.Sender, i int, ev *engine.Event) error {
	a, p := &s.answers[i], &s.pieces[i]
	switch ev.Kind {
	case engine.Prefill:
		p.Slot, p.Evaluated = ev.Slot, ev.Total
		progress := a.watch.Prefill(ev)
		if a.c.Progress {
			q := *p
			q.Tokens, q.Progress = []llm.Token{}, &progress
			return out.Send("", &q)
		}
	case engine.Text:
		times := a.watch.Tokens(len(ev.IDs))
		if a.c.nothing() {
			return nil
		}
		a.seen(ev.Text)
		p.Predicted += len(ev.IDs)
		p.Content, p.Tokens, p.Probs = ev.Text, ev.IDs, nil
		if ev.IDs == nil {
			p.Tokens = []llm.Token{}
		}
		if a.c.Probs != nil && *a.c.Probs > 0 {
			p.Probs = wire.JSON(probs(ev.Tokens))
		}
		if a.c.TimingsPerToken {
			p.Timings = &times
		}
		return out.Send("", p)
	case engine.End:
		a.final = a.end(ev.Result)
		return out.Send("", a.shown())
	}
	return nil
}

// End sends nothing, because every answer has sent its last message.
func (s *stream) End(wire.Sender) error { return nil }

// Fail sends an error in the stream.
func (s *stream) Fail(out wire.Sender, e *wire.Error) error { return out.Send("", ErrorForm(e)) }
