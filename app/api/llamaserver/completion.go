// Package llamaserver is the dialect of llama.cpp's server, apart from the
// endpoints that it shares with OpenAI: completions and infilling, tokens,
// templates, slots and properties.
package llamaserver

import (
	"encoding/json"
	"fmt"
	"slices"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
	"godwit/engine/llm"
)

// CompletionRequest is the body of POST /completion.
type CompletionRequest struct {
	Prompt json.RawMessage `json:"prompt" doc:"A text, a list of token ids, a list that mixes both, an object of prompt_string and multimodal_data (pictures in base64, one for each <__media__> in the text), or a list of such prompts, each with an answer of its own."`
	Images []ImageData     `json:"image_data" most:"64" doc:"Pictures for the marks [img-ID] in a text prompt."`
	Options
}

// ImageData is a picture in a prompt.
type ImageData struct {
	Data string `json:"data" need:"" doc:"The file in base64."`
	ID   int    `json:"id" doc:"Number in the text marker."`
}

// Options are the common fields of completions and infilling.
type Options struct {
	Model string `json:"model" most:"512" doc:"Name of the model."`
	wire.Sampling
	Predict       *int            `json:"n_predict" min:"-2" doc:"Maximum tokens of the answer; -1 and -2: until the context is full; 0: only process the prompt."`
	MaxTokens     *int            `json:"max_tokens" min:"-2" doc:"Same as n_predict."`
	Stop          wire.Stops      `json:"stop" doc:"Texts that end the answer."`
	Stream        bool            `json:"stream" doc:"Stream the answer."`
	Grammar       string          `json:"grammar" most:"1048576" doc:"GBNF grammar of the answer."`
	JSONSchema    json.RawMessage `json:"json_schema" doc:"JSON schema of the answer."`
	Probs         *int            `json:"n_probs" min:"0" max:"100" doc:"Return the log-probability of each token and of this many alternatives."`
	IgnoreEOS     bool            `json:"ignore_eos" doc:"Continue after end-of-generation tokens."`
	Slot          *int            `json:"id_slot" min:"-1" max:"1023" doc:"Slot to use; -1: any."`
	Keep          *int            `json:"n_keep" min:"-1" doc:"First tokens that a context shift keeps; -1: the whole prompt."`
	ReturnTokens  bool            `json:"return_tokens" doc:"Also return the token ids of the answer."`
	SpecialTokens bool            `json:"special" doc:"Include control tokens in the text."`

	Completions     *int     `json:"n_cmpl" min:"1" max:"16" doc:"Number of answers to each prompt."`
	Progress        bool     `json:"return_progress" doc:"Report the progress of the prompt in a stream."`
	TimingsPerToken bool     `json:"timings_per_token" doc:"Include timings in every piece of a stream."`
	Fields          []string `json:"response_fields" most:"64" doc:"Fields of the last message to return; a slash selects a field inside an object."`
	Template        string   `json:"chat_template" most:"1048576" doc:"Must not be set: a text has no chat template."`
}

// InfillRequest is the body of POST /infill.
type InfillRequest struct {
	Prefix string          `json:"input_prefix" doc:"Text before the gap."`
	Suffix string          `json:"input_suffix" doc:"Text after the gap."`
	Extra  []File          `json:"input_extra" most:"256" doc:"Other files as context."`
	Prompt json.RawMessage `json:"prompt" doc:"Beginning of the filling."`
	Options
}

// File is another file of the project that contains the gap.
type File struct {
	Name string `json:"filename"`
	Text string `json:"text" need:""`
}

// Call is a completion or an infilling.
type Call struct {
	Options
	prompts  [][]part
	infill   *InfillRequest
	grammar  *engine.Grammar
	requests []engine.Request // translated requests
}

// maxAnswers limits the number of answers to a request.
const maxAnswers = 16

// part is text or tokens. Special tokens in the text are parsed, and pictures
// take the place of its markers.
type part struct {
	text   string
	tokens []llm.Token
	images [][]byte
}

// ParseCompletion reads and checks a body.
func ParseCompletion(body []byte) (*Call, error) {
	var r CompletionRequest
	if err := wire.Decode(body, &r); err != nil {
		return nil, err
	}
	c := &Call{Options: r.Options}
	var err error
	if c.prompts, err = readPrompts(r.Prompt, "prompt"); err != nil {
		return nil, err
	}
	if err := insertImages(c.prompts, r.Images); err != nil {
		return nil, err
	}
	if n := len(c.prompts) * c.each(); n > maxAnswers {
		return nil, wire.Bad("prompt", "%d answers to each of %d prompts are too many; the limit is %d answers in total", c.each(), len(c.prompts), maxAnswers)
	}
	return c, c.compile()
}

// ParseInfill reads and checks a body.
func ParseInfill(body []byte) (*Call, error) {
	var r InfillRequest
	if err := wire.Decode(body, &r); err != nil {
		return nil, err
	}
	c := &Call{Options: r.Options, infill: &r}
	if !wire.IsNull(r.Prompt) {
		s, err := wire.Text(r.Prompt, "prompt")
		if err != nil {
			return nil, err
		}
		c.prompts = [][]part{{{text: s}}}
	}
	return c, c.compile()
}

func (c *Call) compile() (err error) {
	if err := openai.NoTemplate(c.Template); err != nil {
		return err
	}
	switch {
	case c.Grammar != "" && !wire.IsNull(c.JSONSchema):
		return wire.Bad("grammar", "only one of grammar and json_schema can be set")
	case c.Grammar != "":
		c.grammar, err = wire.TextGrammar(c.Grammar, "grammar")
	case !wire.IsNull(c.JSONSchema):
		c.grammar, err = wire.SchemaGrammar(c.JSONSchema, nil, "json_schema")
	}
	return err
}

// each returns how many answers each prompt gets.
func (c *Call) each() int {
	if c.Completions == nil {
		return 1
	}
	return *c.Completions
}

// readPrompts reads one prompt or a list of prompts. A list that contains numbers,
// which are tokens, is a single prompt.
func readPrompts(raw json.RawMessage, path string) ([][]part, error) {
	if wire.Kind(raw) == "an object" {
		one, err := readParts(raw, path)
		return [][]part{one}, err
	}
	_, list, err := wire.TextOrList(raw, path)
	if err != nil {
		return nil, err
	}
	numbers := false
	for _, item := range list {
		numbers = numbers || wire.Kind(item) == "a number"
	}
	if list == nil || numbers {
		one, err := readParts(raw, path)
		return [][]part{one}, err
	}
	if len(list) > maxAnswers {
		return nil, wire.Bad(path, "%d prompts are too many; the limit is %d", len(list), maxAnswers)
	}
	out := make([][]part, len(list))
	for i, item := range list {
		if out[i], err = readParts(item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readParts reads a text, or a list of texts and token ids in any order.
func readParts(raw json.RawMessage, path string) ([]part, error) {
	if wire.Kind(raw) == "an object" {
		return illustrated(raw, path)
	}
	text, list, err := wire.TextOrList(raw, path)
	if err != nil || list == nil {
		return []part{{text: text}}, err
	}
	if wire.Kind(list[0]) == "a number" {
		if tokens, err := openai.ReadTokens(raw, path); err == nil {
			return []part{{tokens: tokens}}, nil
		}
	}
	var out []part
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		var p part
		if wire.Kind(item) == "a number" {
			p.tokens, err = openai.ReadTokens(wire.RawList(list[i:i+1]), at)
		} else {
			p.text, err = wire.Text(item, at)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Head returns the part of the call that is needed before a model is loaded.
func (c *Call) Head() wire.Head {
	return wire.Head{Model: c.Model, Stream: c.Options.Stream}
}

// Requests translates the call for the engine.
func (c *Call) Requests(m *wire.Model) ([]engine.Request, error) {
	r, err := m.Base(&c.Sampling)
	if err != nil {
		return nil, err
	}
	r.Stop, r.Grammar, r.IgnoreEOG, r.Special = c.Stop, c.grammar, c.IgnoreEOS, c.SpecialTokens
	if c.Slot != nil && *c.Slot >= 0 {
		r.Slot = c.Slot
	}
	if c.Keep != nil {
		r.Keep = *c.Keep
	}
	if c.Probs != nil && *c.Probs > 0 {
		r.Logprobs, r.TopLogprobs = true, *c.Probs
	}
	for _, n := range []*int{c.Predict, c.MaxTokens} {
		if n != nil {
			r.MaxTokens = max(*n, 0)
		}
	}
	if c.nothing() {
		r.MaxTokens = 1 // reading the prompt requires generating one token, which is not shown
	}
	if c.infill != nil {
		if r.Tokens, err = m.Engine.Model().GapPrompt(c.gap()); err != nil {
			return nil, err
		}
		c.requests = wire.Choices(r, c.each())
		return slices.Clone(c.requests), nil
	}
	c.requests = nil
	for i, parts := range c.prompts {
		path := "prompt"
		if len(c.prompts) > 1 {
			path = fmt.Sprintf("prompt[%d]", i)
		}
		one := r
		if err := prompt(m, &one, parts, path); err != nil {
			return nil, err
		}
		c.requests = append(c.requests, wire.Choices(one, c.each())...)
	}
	return slices.Clone(c.requests), nil
}

// nothing reports whether the prompt is only read, and no text is generated.
func (c *Call) nothing() bool {
	n := c.Predict
	if c.MaxTokens != nil {
		n = c.MaxTokens
	}
	return n != nil && *n == 0
}

// prompt adds the parts of a prompt to a request.
func prompt(m *wire.Model, r *engine.Request, parts []part, path string) error {
	for i, p := range parts {
		at := path
		if len(parts) > 1 {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		if err := m.Check(p.tokens, at); err != nil {
			return err
		}
	}
	if len(parts) == 1 {
		r.Images = parts[0].images
		if r.Prompt, r.Tokens = parts[0].text, parts[0].tokens; r.Prompt == "" && r.Tokens == nil {
			r.Pieces = []engine.Piece{}
		}
		return nil
	}
	t, err := m.Engine.Model().Tokenizer()
	if err != nil {
		return err
	}
	for i, p := range parts {
		if p.tokens != nil {
			r.Tokens = append(r.Tokens, p.tokens...)
		} else {
			r.Tokens = append(r.Tokens, t.EncodeText(p.text, i == 0, true)...)
		}
	}
	return nil
}

// gap returns the gap to fill.
func (c *Call) gap() engine.Gap {
	g := engine.Gap{Before: c.infill.Prefix, After: c.infill.Suffix}
	for _, f := range c.infill.Extra {
		g.Files = append(g.Files, engine.GapFile{Name: f.Name, Text: f.Text})
	}
	for _, parts := range c.prompts {
		g.Begin += parts[0].text
	}
	return g
}
