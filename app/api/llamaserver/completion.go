// Package llamaserver is the dialect of llama.cpp's server beside what it
// shares with OpenAI: completions and filling in, tokens, templates, slots and
// properties.
package llamaserver

import (
	"encoding/json"
	"fmt"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
	"godwit/engine/llm"
)

// CompletionRequest is the body of POST /completion.
type CompletionRequest struct {
	Prompt json.RawMessage `json:"prompt" doc:"A text, a list of token ids, or a list that mixes both."`
	Options
}

// Options are what completions and filling in share.
type Options struct {
	Model string `json:"model" most:"512" doc:"Name of the model."`
	wire.Sampling
	Predict       *int            `json:"n_predict" min:"-2" doc:"Most tokens of the answer; -1 and -2: until the context is full; 0: only read the prompt."`
	MaxTokens     *int            `json:"max_tokens" min:"-2" doc:"Same as n_predict."`
	Stop          wire.Stops      `json:"stop" doc:"Texts that end the answer."`
	Stream        bool            `json:"stream" doc:"Send the answer piece by piece."`
	Grammar       string          `json:"grammar" most:"1048576" doc:"GBNF grammar of the answer."`
	JSONSchema    json.RawMessage `json:"json_schema" doc:"JSON schema of the answer."`
	Probs         *int            `json:"n_probs" min:"0" max:"100" doc:"Tell the log-probability of each token and of this many alternatives."`
	CachePrompt   *bool           `json:"cache_prompt" doc:"false: compute the whole prompt again."`
	IgnoreEOS     bool            `json:"ignore_eos" doc:"Go on behind the end of the answer."`
	Slot          *int            `json:"id_slot" min:"-1" max:"1023" doc:"Slot to use; -1: any."`
	Keep          *int            `json:"n_keep" min:"-1" doc:"Tokens of the start that a context shift keeps; -1: the whole prompt."`
	ReturnTokens  bool            `json:"return_tokens" doc:"Send the ids of the answer too."`
	SpecialTokens bool            `json:"special" doc:"Show control tokens in the text."`
}

// InfillRequest is the body of POST /infill.
type InfillRequest struct {
	Prefix string          `json:"input_prefix" doc:"Text before the gap."`
	Suffix string          `json:"input_suffix" doc:"Text behind the gap."`
	Extra  []File          `json:"input_extra" most:"256" doc:"Other files that the model may look at."`
	Prompt json.RawMessage `json:"prompt" doc:"Text that the filling begins with."`
	Options
}

// File is a file beside the one with the gap.
type File struct {
	Name string `json:"filename"`
	Text string `json:"text" need:""`
}

// Call is a completion or a filling in.
type Call struct {
	Options
	parts   []part
	infill  *InfillRequest
	grammar *engine.Grammar
}

// part is text, in which special tokens count, or tokens.
type part struct {
	text   string
	tokens []llm.Token
}

// ParseCompletion reads and checks a body.
func ParseCompletion(body []byte) (*Call, error) {
	var r CompletionRequest
	if err := wire.Decode(body, &r); err != nil {
		return nil, err
	}
	c := &Call{Options: r.Options}
	var err error
	if c.parts, err = readParts(r.Prompt, "prompt"); err != nil {
		return nil, err
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
		c.parts = []part{{text: s}}
	}
	return c, c.compile()
}

func (c *Call) compile() (err error) {
	switch {
	case c.Grammar != "" && !wire.IsNull(c.JSONSchema):
		return wire.Bad("grammar", "only one of grammar and json_schema can hold")
	case c.Grammar != "":
		c.grammar, err = wire.TextGrammar(c.Grammar, "grammar")
	case !wire.IsNull(c.JSONSchema):
		c.grammar, err = wire.SchemaGrammar(c.JSONSchema, "json_schema")
	}
	return err
}

// readParts reads a text, or a list of texts and token ids in any order.
func readParts(raw json.RawMessage, path string) ([]part, error) {
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

// Head says what the request is for.
func (c *Call) Head() wire.Head {
	return wire.Head{Model: c.Model, Stream: c.Options.Stream}
}

// Requests translates the request.
func (c *Call) Requests(m *wire.Model) ([]engine.Request, error) {
	r, err := m.Base(&c.Sampling)
	if err != nil {
		return nil, err
	}
	r.Stop, r.Grammar, r.IgnoreEOG, r.Special = c.Stop, c.grammar, c.IgnoreEOS, c.SpecialTokens
	r.Fresh = c.CachePrompt != nil && !*c.CachePrompt
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
		r.MaxTokens = 1 // the prompt is read for the first token, which is not shown
	}
	if c.infill != nil {
		r.Tokens, err = m.Engine.GapPrompt(c.gap())
	} else {
		err = c.prompt(m, &r)
	}
	return []engine.Request{r}, err
}

// nothing reports whether only the prompt is to be read.
func (c *Call) nothing() bool {
	n := c.Predict
	if c.MaxTokens != nil {
		n = c.MaxTokens
	}
	return n != nil && *n == 0
}

// prompt puts the parts into a request.
func (c *Call) prompt(m *wire.Model, r *engine.Request) error {
	for i, p := range c.parts {
		path := "prompt"
		if len(c.parts) > 1 {
			path = fmt.Sprintf("prompt[%d]", i)
		}
		if err := m.Check(p.tokens, path); err != nil {
			return err
		}
	}
	if len(c.parts) == 1 {
		if r.Prompt, r.Tokens = c.parts[0].text, c.parts[0].tokens; r.Prompt == "" && r.Tokens == nil {
			r.Pieces = []engine.Piece{}
		}
		return nil
	}
	t, err := m.Engine.Tokenizer()
	if err != nil {
		return err
	}
	for i, p := range c.parts {
		if p.tokens != nil {
			r.Tokens = append(r.Tokens, p.tokens...)
		} else {
			r.Tokens = append(r.Tokens, t.EncodeText(p.text, i == 0, true)...)
		}
	}
	return nil
}

// gap is the gap to fill in.
func (c *Call) gap() engine.Gap {
	g := engine.Gap{Before: c.infill.Prefix, After: c.infill.Suffix}
	for _, f := range c.infill.Extra {
		g.Files = append(g.Files, engine.GapFile{Name: f.Name, Text: f.Text})
	}
	for _, p := range c.parts {
		g.Begin += p.text
	}
	return g
}
