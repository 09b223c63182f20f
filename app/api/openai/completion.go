package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"godwit/app/api/wire"
	"godwit/engine"
	"godwit/engine/llm"
)

// CompletionRequest is the body of POST /v1/completions.
type CompletionRequest struct {
	Model    string          `json:"model" most:"512" doc:"Name of the model."`
	Prompt   json.RawMessage `json:"prompt" doc:"A text, a list of token ids, or a list of either."`
	Suffix   string          `json:"suffix" doc:"Text after the answer, for models that support infilling."`
	Template string          `json:"chat_template" most:"1048576" doc:"Must not be set: a text has no chat template."`
	wire.Sampling
	Stop           wire.Stops      `json:"stop" doc:"Texts that end the answer."`
	MaxTokens      *int            `json:"max_tokens" min:"-1" doc:"Maximum tokens of the answer; missing or -1: until the context is full (OpenAI's default is 16)."`
	N              *int            `json:"n" min:"1" max:"16" doc:"Number of answers to each prompt."`
	BestOf         *int            `json:"best_of" min:"1" max:"16"`
	Echo           bool            `json:"echo" doc:"Repeat the prompt before the answer."`
	Logprobs       *int            `json:"logprobs" min:"0" max:"20" doc:"Return the log-probability of each token and of this many alternatives."`
	ResponseFormat *ResponseFormat `json:"response_format" doc:"Form of the answer."`
	Stream         bool            `json:"stream" doc:"Stream the answer."`
	StreamOptions  *StreamOptions  `json:"stream_options"`
	Local
}

// Completion is a call to continue plain text.
type Completion struct {
	CompletionRequest
	prompts []prompt
	n       int
	grammar *engine.Grammar
}

// prompt is text or tokens.
type prompt struct {
	text   string
	tokens []llm.Token
}

// ParseCompletion reads and checks a body.
func ParseCompletion(body []byte) (*Completion, error) {
	c := &Completion{n: 1}
	err := wire.Decode(body, &c.CompletionRequest)
	if err == nil {
		err = NoTemplate(c.Template)
	}
	if err != nil {
		return nil, err
	}
	if err := unlimited(&c.MaxTokens, "max_tokens"); err != nil {
		return nil, err
	}
	if c.prompts, err = readPrompts(c.Prompt, "prompt"); err != nil {
		return nil, err
	}
	if c.N != nil {
		c.n = *c.N
	}
	if len(c.prompts)*c.n > maxChoices {
		return nil, wire.Bad("n", "%d answers to each of %d prompts are too many; the limit is %d answers in total", c.n, len(c.prompts), maxChoices)
	}
	switch {
	case c.BestOf != nil && *c.BestOf != c.n:
		return nil, wire.Bad("best_of", "%d is not supported; it must equal n", *c.BestOf)
	case c.Echo && c.Logprobs != nil:
		return nil, wire.Bad("echo", "not supported together with logprobs")
	}
	for _, p := range c.prompts {
		switch {
		case p.tokens == nil:
		case c.Echo:
			return nil, wire.Bad("echo", "not supported for prompts of token ids")
		case c.Suffix != "":
			return nil, wire.Bad("suffix", "not supported for prompts of token ids")
		}
	}
	c.grammar, err = c.answerGrammar(c.ResponseFormat)
	return c, err
}

// readPrompts reads a text, a list of token ids, or a list of either.
func readPrompts(raw json.RawMessage, path string) ([]prompt, error) {
	text, list, err := wire.TextOrList(raw, path)
	if err != nil || list == nil {
		return []prompt{{text: text}}, err
	}
	if wire.Kind(list[0]) == "a number" {
		tokens, err := ReadTokens(raw, path)
		return []prompt{{tokens: tokens}}, err
	}
	if len(list) > maxPrompts {
		return nil, wire.Bad(path, "%d prompts are too many; the limit is %d", len(list), maxPrompts)
	}
	out := make([]prompt, len(list))
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if wire.Kind(item) == "a list" {
			out[i].tokens, err = ReadTokens(item, at)
		} else {
			out[i].text, err = wire.Text(item, at)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// maxPrompts limits the prompts of a completion or an embedding.
const maxPrompts = 2048

// ReadTokens reads a list of token ids.
func ReadTokens(raw json.RawMessage, path string) ([]llm.Token, error) {
	list, err := wire.List(raw, path)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, wire.Bad(path, "the list is empty")
	}
	least, most := 0.0, float64(math.MaxInt32)
	out := make([]llm.Token, len(list))
	for i, item := range list {
		n, err := wire.Integer(item, fmt.Sprintf("%s[%d]", path, i), &least, &most)
		if err != nil {
			return nil, err
		}
		out[i] = llm.Token(n)
	}
	return out, nil
}

// Head returns the part of the call that is needed before a model is loaded.
func (c *Completion) Head() wire.Head {
	return wire.Head{Model: c.Model, Stream: c.CompletionRequest.Stream}
}

// Requests translates the call for the engine. It returns n choices of the
// first prompt, then n choices of the next one, and so on.
func (c *Completion) Requests(m *wire.Model) ([]engine.Request, error) {
	r, err := m.Base(&c.Sampling)
	if err != nil {
		return nil, err
	}
	r.Stop, r.Grammar = c.Stop, c.grammar
	if c.MaxTokens != nil {
		r.MaxTokens = *c.MaxTokens
	}
	if c.Logprobs != nil {
		r.Logprobs, r.TopLogprobs = true, *c.Logprobs
	}
	c.Local.apply(&r)
	var all []engine.Request
	for i, p := range c.prompts {
		path := "prompt"
		if wire.Kind(c.Prompt) == "a list" && len(c.prompts) > 1 {
			path = fmt.Sprintf("prompt[%d]", i)
		}
		if err := m.Check(p.tokens, path); err != nil {
			return nil, err
		}
		r.Prompt, r.Tokens, r.Pieces = p.text, p.tokens, nil
		switch {
		case c.Suffix != "":
			r.Prompt = ""
			if r.Tokens, err = m.Engine.Model().GapPrompt(engine.Gap{Before: p.text, After: c.Suffix}); err != nil {
				return nil, err
			}
		case p.text == "" && p.tokens == nil:
			r.Pieces = []engine.Piece{} // an empty text is a valid prompt
		}
		all = append(all, wire.Choices(r, c.n)...)
	}
	return all, nil
}

// TextCompletion is a whole answer or a chunk of a stream.
type TextCompletion struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"`
	Created     int64           `json:"created"`
	Model       string          `json:"model"`
	Fingerprint string          `json:"system_fingerprint"`
	Choices     []TextChoice    `json:"choices"`
	Usage       json.RawMessage `json:"usage,omitempty"`
}

// TextChoice is one text.
type TextChoice struct {
	Text     string        `json:"text"`
	Index    int           `json:"index"`
	Logprobs *TextLogprobs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

// TextLogprobs are the log-probabilities of a text's tokens.
type TextLogprobs struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []float64            `json:"token_logprobs"`
	Top      []map[string]float64 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"` // offset of the character at which a token begins or continues
	at       place
}

// place is the position in an answer's text at which a token begins.
type place struct {
	runes int    // number of complete characters
	part  []byte // incomplete character at the end
}

// pass advances past a token.
func (p *place) pass(token []byte) {
	p.part = append(p.part, token...)
	for len(p.part) > 0 && utf8.FullRune(p.part) {
		_, n := utf8.DecodeRune(p.part)
		p.runes, p.part = p.runes+1, p.part[n:]
	}
}

// tokenName returns a token's text. If the token is only a part of a character,
// it returns the bytes in OpenAI's notation, because many such tokens would
// have the same JSON text.
func tokenName(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	name := []byte("bytes:")
	for _, c := range b {
		name = fmt.Appendf(name, `\x%02x`, c)
	}
	return string(name)
}

func (l *TextLogprobs) add(tokens []engine.Token) {
	for _, t := range tokens {
		top := map[string]float64{}
		for _, a := range t.Top { // the most likely alternatives come first
			name := tokenName(a.Bytes)
			if _, twice := top[name]; !twice {
				top[name] = logprob(nil, a.Logprob).Logprob
			}
		}
		l.Tokens, l.Logprobs = append(l.Tokens, tokenName(t.Bytes)), append(l.Logprobs, logprob(nil, t.Logprob).Logprob)
		l.Top, l.Offsets = append(l.Top, top), append(l.Offsets, l.at.runes)
		l.at.pass(t.Bytes)
	}
}

func newTextLogprobs(at place) *TextLogprobs {
	return &TextLogprobs{Tokens: []string{}, Logprobs: []float64{}, Top: []map[string]float64{}, Offsets: []int{}, at: at}
}

// textWhole collects a completion.
type textWhole struct {
	TextCompletion
	n     int
	usage Usage
}

func (c *Completion) answer(m *wire.Model) TextCompletion {
	return TextCompletion{ID: wire.ID("cmpl-"), Object: "text_completion", Created: time.Now().Unix(), Model: m.Name, Fingerprint: fingerprint}
}

// Whole starts an answer that is sent whole.
func (c *Completion) Whole(m *wire.Model) wire.Whole {
	w := &textWhole{TextCompletion: c.answer(m), n: c.n}
	for i := range len(c.prompts) * c.n {
		choice := TextChoice{Index: i}
		if c.Echo {
			choice.Text = c.prompts[i/c.n].text
		}
		if c.Logprobs != nil {
			choice.Logprobs = newTextLogprobs(place{})
		}
		w.Choices = append(w.Choices, choice)
	}
	return w
}

// Add processes an event.
func (w *textWhole) Add(i int, ev *engine.Event) {
	c := &w.Choices[i]
	switch ev.Kind {
	case engine.Text:
		c.Text += ev.Text
		if c.Logprobs != nil {
			c.Logprobs.add(ev.Tokens)
		}
	case engine.End:
		c.Finish = &ev.Result.Finish
		w.usage.add(ev.Result, i%w.n == 0)
	}
}

// Body returns the answer.
func (w *textWhole) Body() any {
	w.Usage = wire.JSON(w.usage)
	return &w.TextCompletion
}

// textStream streams a completion.
type textStream struct {
	c      *Completion
	chunk  TextCompletion
	asked  bool
	places []place
	usage  Usage
}

// Stream starts an answer that is sent in pieces.
func (c *Completion) Stream(m *wire.Model) wire.Stream {
	s := &textStream{c: c, chunk: c.answer(m), places: make([]place, len(c.prompts)*c.n)}
	if s.asked = c.StreamOptions != nil && c.StreamOptions.IncludeUsage; s.asked {
		s.chunk.Usage = json.RawMessage("null")
	}
	return s
}

// Start sends the prompts if they were requested.
func (s *textStream) Start(out wire.Sender) error {
	if !s.c.Echo {
		return nil
	}
	for i := range s.places {
		s.chunk.Choices = []TextChoice{{Text: s.c.prompts[i/s.c.n].text, Index: i}}
		if err := out.Send("", &s.chunk); err != nil {
			return err
		}
	}
	return nil
}

// Add sends an event.
func (s *textStream) Add(out wire.Sender, i int, ev *engine.Event) error {
	c := TextChoice{Index: i}
	switch ev.Kind {
	case engine.Text:
		c.Text = ev.Text
		if s.c.Logprobs != nil {
			c.Logprobs = newTextLogprobs(s.places[i])
			c.Logprobs.add(ev.Tokens)
			s.places[i] = c.Logprobs.at
		}
	case engine.End:
		s.usage.add(ev.Result, i%s.c.n == 0)
		c.Finish = &ev.Result.Finish
	default:
		return nil
	}
	s.chunk.Choices = []TextChoice{c}
	return out.Send("", &s.chunk)
}

// End sends the usage, if requested, and the end marker.
func (s *textStream) End(out wire.Sender) error {
	if s.asked {
		s.chunk.Choices, s.chunk.Usage = []TextChoice{}, wire.JSON(s.usage)
		if err := out.Send("", &s.chunk); err != nil {
			return err
		}
	}
	return out.Send("", wire.Plain("[DONE]"))
}

// Fail sends an error in the stream.
func (s *textStream) Fail(out wire.Sender, e *wire.Error) error { return out.Send("", e.Body()) }
