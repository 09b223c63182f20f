package wire

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"godwit/app/hub"
	"godwit/engine"
	"godwit/engine/llm"
)

// Call is a request of a dialect. Everything that can be checked without a
// model has been checked.
type Call interface {
	Head() Head
	// Requests translates the call, one request for each choice.
	Requests(m *Model) ([]engine.Request, error)
	// Whole and Stream start the two kinds of answers. Head reports which kind
	// the client wants.
	Whole(m *Model) Whole
	Stream(m *Model) Stream
}

// Head is the part of a call that is needed before its model is loaded.
type Head struct {
	Model   string
	Stream  bool
	Lines   bool // stream JSON lines instead of server-sent events
	OneCall bool // the answer ends after its first tool call
	Context int  // minimum context in tokens; 0 to accept the loaded one
	// AsLoaded accepts the model with its loaded context, or with the context
	// in the settings, even if its profile requests a larger one.
	AsLoaded bool
	// ContextField is the name of the request's field for Context. Empty stands
	// for options.num_ctx.
	ContextField string
	KeepAlive    *time.Duration // keep-alive time of the model; nil to use the default
	Notices      Notices        // differences between the request and what is done
	Unused       []string       // known fields that have no effect
}

// Whole collects an answer that is sent whole.
type Whole interface {
	Add(choice int, ev *engine.Event)
	Body() any
}

// Stream sends an answer in pieces.
type Stream interface {
	Start(out Sender) error
	Add(out Sender, choice int, ev *engine.Event) error
	End(out Sender) error
	Fail(out Sender, e *Error) error
}

// Sender sends one message of a stream. name is the name of a server-sent
// event. It may be empty.
type Sender interface {
	Send(name string, data any) error
}

// Plain is stream data that is not JSON, such as [DONE].
type Plain string

// Model is a leased model for a call.
type Model struct {
	Name     string
	Info     hub.Model
	Engine   *engine.Engine
	Defaults Defaults
	Load     time.Duration // time for which the call waited for the model
}

// Defaults holds the values of parameters that a request leaves out.
type Defaults struct {
	Sampling  engine.Sampling
	MaxTokens int             // maximum number of tokens in an answer; 0 to stop when the context is full
	Kwargs    json.RawMessage // variables for the chat template; may be empty
	Thinking  *bool           // whether reasoning models reason first
	Budget    *engine.Budget  // reasoning budget; nil if there is no limit
	// Fetch reads a picture from a URL; If it is nil, only data: URLs are read.
	Fetch func(ctx context.Context, url string) ([]byte, error)
}

// Base returns a request with the defaults and a dialect's sampling parameters.
func (m *Model) Base(s *Sampling) (engine.Request, error) {
	r := engine.Request{Sampling: m.Defaults.Sampling, MaxTokens: m.Defaults.MaxTokens, Budget: m.Defaults.Budget, Fetch: m.Defaults.Fetch}
	r.Sampling.LogitBias = maps.Clone(r.Sampling.LogitBias)
	o, err := m.options()
	if err != nil {
		return r, err
	}
	if err := o.Sampling.Apply(&r.Sampling, m.Words); err != nil {
		return r, err
	}
	if o.Predict != nil {
		r.MaxTokens = max(*o.Predict, 0)
	}
	if o.Keep != nil {
		r.Keep = *o.Keep
	}
	if err := s.Apply(&r.Sampling, m.Words); err != nil {
		return r, err
	}
	s.reuse.apply(&r)
	for t := range r.Sampling.LogitBias {
		if err := m.check(t, "logit_bias"); err != nil {
			return r, err
		}
	}
	return r, nil
}

// check rejects a token outside of the vocabulary.
func (m *Model) check(t llm.Token, path string) error {
	if m.Engine == nil || int(t) < m.Engine.Config().Vocab {
		return nil
	}
	return Bad(path, "%d is not a token; the vocabulary has %d tokens", t, m.Engine.Config().Vocab)
}

// Check rejects tokens outside of the vocabulary.
func (m *Model) Check(tokens []llm.Token, path string) error {
	for i, t := range tokens {
		if err := m.check(t, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// Words tokenises text without special tokens.
func (m *Model) Words(text string) ([]llm.Token, error) {
	t, err := m.Engine.Model().Tokenizer()
	if err != nil {
		return nil, err
	}
	return t.EncodeText(text, false, false), nil
}

// Choices repeats a request for n choices. If the request has a seed, each
// choice gets its own seed, so that the choices differ and can be reproduced.
func Choices(r engine.Request, n int) []engine.Request {
	const unseeded = -1
	out := make([]engine.Request, n)
	seed := r.Sampling.Seed
	for i := range out {
		out[i] = r
		out[i].Sampling.Seed = seed
		if r.Sampling.Seed == unseeded {
			continue
		}
		if seed++; seed == unseeded {
			seed++
		}
	}
	return out
}

// Kwargs merges variables for the chat template. Later ones take precedence.
func Kwargs(lists ...json.RawMessage) (json.RawMessage, error) {
	var all Object
	for _, raw := range lists {
		if IsNull(raw) {
			continue
		}
		o, err := ReadObject(raw, "chat_template_kwargs")
		if err != nil {
			return nil, err
		}
		for _, m := range o {
			all.Set(m.Key, m.Value)
		}
	}
	if all == nil {
		return nil, nil
	}
	return all.Raw(), nil
}

// ID returns a new identifier with a prefix.
func ID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

// SchemaGrammar returns the grammar of a JSON schema in a request. If strict is
// true, it rejects a schema that a grammar cannot enforce completely. If strict
// is false or nil, it accepts such a schema.
func SchemaGrammar(schema json.RawMessage, strict *bool, path string) (*engine.Grammar, error) {
	if k := Kind(schema); k != "an object" && k != "a boolean" {
		return nil, Bad(path, "want a JSON schema, got %s", k)
	}
	g, err := engine.SchemaGrammar(schema, strict != nil && *strict)
	if err != nil {
		return nil, Bad(path, "%v", err)
	}
	return g, nil
}

// TextGrammar returns the grammar of GBNF text in a request.
func TextGrammar(text, path string) (*engine.Grammar, error) {
	g, err := engine.ParseGrammar(text)
	if err != nil {
		return nil, Bad(path, "%v", err)
	}
	return g, nil
}
