package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"godwit/engine/chat/jinja"
)

// Values of messages, tools and template variables.
type (
	Value = jinja.Value
	Dict  = jinja.Dict
	List  = jinja.List
	Piece = jinja.Piece
)

// Decode reads a JSON document from a client. Its strings are marked as typed, and
// the order of its keys is kept.
func Decode(data []byte) (Value, error) { return jinja.DecodeJSON(data, true) }

// Options describes the model in addition to its template.
type Options struct {
	ToolUse  string            // template for requests with tools, if the model has a separate one
	Family   string            // format that the architecture's models were trained on; empty if unknown, or if there are several
	Name     string            // the model's name, which distinguishes instruction-tuned models from base models
	BOS, EOS string            // texts of the special tokens
	HasToken func(string) bool // reports whether the vocabulary has a token; nil if unknown
	Limits   jinja.Limits      // limits of each rendering
}

// Template is a model's chat template with its detected abilities. It is safe for
// concurrent rendering.
type Template struct {
	source      string
	main, tools *form
	o           Options
	notices     []string
	end         string // text at the end of a turn, for models that must write it as text
}

// form is a parsed template with its abilities.
type form struct {
	source  string
	tmpl    *jinja.Template
	noTools Value // value of the variable tools when there are no tools; nil leaves it unset
	caps    Caps
	kind    ParserKind
	tags    Tags
}

// New parses a chat template and detects what it supports. An empty source
// means that the model has no template. A model that is tuned for instructions
// then gets the format of its family. Any other model gets ChatML. A notice
// reports that.
func New(source string, o Options) (*Template, error) {
	t := &Template{source: source, o: o}
	family := builtinOf(source)
	if strings.TrimSpace(source) == "" {
		family = familyOf(o)
		t.source = defaults[family]
		t.notices = append(t.notices, fmt.Sprintf("the model has no chat template; the format of %s is used", family))
	}
	if end := turnEnds[family]; end != "" && o.HasToken != nil && !o.HasToken(end) {
		t.end = end
	}
	var err error
	if t.main, err = newForm(t.source, o); err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	t.tools = t.main
	if o.ToolUse != "" {
		if t.tools, err = newForm(o.ToolUse, o); err != nil {
			return nil, fmt.Errorf("chat template for tools: %w", err)
		}
	}
	return t, nil
}

func newForm(source string, o Options) (*form, error) {
	tmpl, err := jinja.Parse(source, o.Limits)
	if err != nil {
		return nil, err
	}
	f := &form{source: source, tmpl: tmpl, kind: ParserFor(source), tags: TagsFor(source)}
	f.caps = f.probe(o)
	return f, nil
}

// Source returns the template's text.
func (t *Template) Source() string { return t.source }

// Hash returns the SHA-256 of the template's text in hexadecimal digits.
func (t *Template) Hash() string {
	sum := sha256.Sum256([]byte(t.source))
	return hex.EncodeToString(sum[:])
}

// Notices lists what the user should know about the template.
func (t *Template) Notices() []string { return t.notices }

// Caps returns what the template supports.
func (t *Template) Caps() Caps { return t.main.caps }

// Input is a conversation.
type Input struct {
	Messages            *List // messages in OpenAI's form; unknown fields are passed to the template
	Tools               *List // tools in OpenAI's form; nil or empty without any
	AddGenerationPrompt bool  // whether the prompt ends with the start of an assistant turn
	Continue            bool  // whether the model continues the last message; excludes AddGenerationPrompt
	Thinking            *bool // whether the model thinks first, if the template has a switch
	Kwargs              *Dict // further template variables
	Now                 time.Time
}

// Prompt is a rendered conversation.
type Prompt struct {
	Pieces  []Piece
	Images  []string   // URLs of pictures, in the order of their markers
	Notices []string   // changes made to fit the template
	Kind    ParserKind // syntax of the model's tool calls
	Tags    Tags       // tags around the model's reasoning
	Open    bool       // whether the prompt ends inside reasoning
	BOS     bool       // whether the text begins with the BOS token
	End     string     // text that ends the answer if the vocabulary has no token for it; may be empty
	Shut    bool       // whether the model must not think although the template has no switch for it
	Form    bool       // whether the answer is a JSON document, in which tags are not recognised
	tools   *List
	inlined bool // whether the tools were described in text
}

// HasTools reports whether functions are on offer.
func (p *Prompt) HasTools() bool { return p.tools != nil && p.tools.Len() > 0 }

// Text returns the whole prompt.
func (p *Prompt) Text() string { return jinja.Text(p.Pieces) }

// ReasoningEnd returns the text between an answer's reasoning and the text that
// follows, or "" if the model does not mark reasoning.
func (p *Prompt) ReasoningEnd() string {
	switch {
	case p.Kind == Harmony && p.HasTools():
		return "<|end|><|start|>assistant" // the next message may be a call
	case p.Kind == Harmony:
		return "<|end|><|start|>assistant<|channel|>final<|message|>"
	case p.Tags.Close == "</think>": // the same text as in the empty reasoning block that templates write
		return "\n</think>\n\n"
	}
	return p.Tags.Close
}

// Render renders a conversation for generation. It checks messages and converts
// content to the form that the template accepts. If the template does not
// support something, such as a system message, tools, or two turns of one role,
// Render rewrites it and adds a notice. The error is an *InputError for an
// invalid conversation, a *jinja.RaiseError if the template refuses the
// conversation, a *jinja.Error, or the context's error.
func (t *Template) Render(ctx context.Context, in Input) (*Prompt, error) {
	f := t.main
	if hasTools(in) {
		f = t.tools
	}
	if e := effort(in.Kwargs); e != "" && in.Thinking == nil {
		on := e != "none"
		in.Thinking = &on
	}
	c, err := f.conversation(in)
	if err != nil {
		return nil, err
	}
	images := imagesOf(in.Messages)
	var first error
	for {
		pieces, err := f.render(ctx, t.o, in, c)
		if err == nil {
			err = f.checkPrinted(ctx, t.o, in, c)
		}
		if lost := (*lostError)(nil); errors.As(err, &lost) {
			if c.restore(lost) {
				continue
			}
			return nil, badInput("messages", "%v", err)
		}
		if err == nil {
			p, err := f.finish(t.o, in, c, pieces)
			if err == nil {
				p.End, p.Images = t.end, images
			}
			return p, err
		}
		if first == nil {
			first = err
		}
		if !retryable(err) || !c.relax() {
			return nil, first
		}
	}
}

// retryable reports whether another form of the messages may avoid the error.
func retryable(err error) bool {
	var raise *jinja.RaiseError
	return errors.As(err, &raise) || errors.Is(err, jinja.ErrType) ||
		errors.Is(err, jinja.ErrUndefined) || errors.Is(err, jinja.ErrRuntime)
}

// Exact renders variables without checks, changes or additions. Roles are
// trusted. All other strings are trusted or not as their values record.
func (t *Template) Exact(ctx context.Context, vars *Dict, now time.Time) ([]Piece, error) {
	f := t.main
	if l, ok := lookup(vars, "tools").(*List); ok && l.Len() > 0 {
		f = t.tools
	}
	if l, ok := lookup(vars, "messages").(*List); ok {
		vars = vars.Clone()
		messages := jinja.NewList()
		for i := range l.Len() {
			m := l.At(i)
			if d, ok := m.(*Dict); ok {
				m = trustRole(d.Clone())
			}
			messages.Append(m)
		}
		vars.Set("messages", messages)
	}
	return f.tmpl.Render(ctx, vars, jinja.Options{Now: now})
}

// variables returns the template's variables in the order in which transformers
// passes them.
func (f *form) variables(o Options, in Input, messages, tools *List) *Dict {
	vars := jinja.NewDict()
	vars.Set("messages", messages)
	switch {
	case tools != nil:
		vars.Set("tools", tools)
	case f.noTools != nil:
		vars.Set("tools", f.noTools)
	}
	vars.Set("documents", jinja.None)
	vars.Set("add_generation_prompt", jinja.Bool(in.AddGenerationPrompt && !in.Continue))
	vars.Set("bos_token", jinja.Trusted(o.BOS))
	vars.Set("eos_token", jinja.Trusted(o.EOS))
	if in.Thinking != nil {
		vars.Set("enable_thinking", jinja.Bool(*in.Thinking))
		vars.Set("thinking", jinja.Bool(*in.Thinking))
		if strings.Contains(f.source, `thinking_mode == "disabled"`) {
			mode := "disabled"
			if *in.Thinking {
				mode = "enabled"
			}
			vars.Set("thinking_mode", jinja.Trusted(mode))
		}
		if !*in.Thinking && strings.Contains(f.source, "thinking_budget") {
			vars.Set("thinking_budget", jinja.Int(0))
		}
	}
	if in.Kwargs != nil {
		for k, v := range in.Kwargs.All() {
			vars.Set(k, v)
		}
	}
	return vars
}

func (f *form) render(ctx context.Context, o Options, in Input, c *conversation) ([]Piece, error) {
	return f.tmpl.Render(ctx, f.variables(o, in, c.list(), c.tools), jinja.Options{Now: in.Now})
}

// finish removes the end of a continued message and inspects how the prompt ends.
func (f *form) finish(o Options, in Input, c *conversation, pieces []Piece) (*Prompt, error) {
	if in.Continue {
		var err error
		if pieces, err = cutAfter(pieces, c.lastContent()); err != nil {
			return nil, err
		}
	}
	p := &Prompt{Pieces: pieces, Notices: c.notices, Kind: f.kind, Tags: f.tags, inlined: c.inlined}
	if hasTools(in) {
		p.tools = in.Tools
	}
	if n := len(pieces); n > 0 {
		last := pieces[n-1]
		p.Open = last.Trusted && f.tags.Open != "" && strings.HasSuffix(strings.TrimSpace(last.Text), strings.TrimSpace(f.tags.Open))
		p.BOS = o.BOS != "" && strings.HasPrefix(pieces[0].Text, o.BOS)
	}
	f.thinking(in, p)
	return p, nil
}

// thinking handles a model that must not think although its template has no
// switch for that.
func (f *form) thinking(in Input, p *Prompt) {
	marked := p.Tags != Tags{} || p.Kind == Harmony
	if in.Thinking == nil || *in.Thinking || !marked || f.caps.Thinking && !p.Open {
		return
	}
	p.Shut = true
	p.Notices = append(p.Notices, "the template has no switch for thinking; thinking is ended as soon as it begins")
}

// effort returns the reasoning effort among the template variables, or "" if it is
// not set.
func effort(kwargs *Dict) string {
	s, _ := text(lookup(kwargs, "reasoning_effort"))
	return s
}

// cutAfter removes everything after the last occurrence of a text.
func cutAfter(pieces []Piece, content string) ([]Piece, error) {
	content = strings.TrimSpace(content)
	text := jinja.Text(pieces)
	end := strings.LastIndex(text, content)
	if end < 0 || content == "" {
		return nil, &InputError{Path: "messages", Msg: "the last message cannot be continued: the template does not print its content"}
	}
	end += len(content)
	var out []Piece
	for _, p := range pieces {
		if end < len(p.Text) {
			p.Text = p.Text[:end]
		}
		end -= len(p.Text)
		if p.Text != "" {
			out = append(out, p)
		}
		if end == 0 {
			break
		}
	}
	return out, nil
}

func hasTools(in Input) bool { return in.Tools != nil && in.Tools.Len() > 0 }

func lookup(d *Dict, key string) Value {
	if d == nil {
		return nil
	}
	v, _ := d.Get(key)
	return v
}

// text returns a string's text. ok is false for other values.
func text(v Value) (string, bool) {
	s, ok := v.(*jinja.Str)
	if !ok {
		return "", false
	}
	return s.String(), true
}

func isNull(v Value) bool {
	if v == nil {
		return true
	}
	_, ok := v.(jinja.NoneType)
	return ok
}
