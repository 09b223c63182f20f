package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"godwit/engine/chat"
	"godwit/engine/chat/jinja"
	"godwit/engine/llm"
	"godwit/engine/model"
)

// Chat is a conversation for the model's chat template.
type Chat struct {
	Messages json.RawMessage // list of messages in OpenAI's form; the order of keys is kept
	Tools    json.RawMessage // list of tools in OpenAI's form, or empty
	// ToolChoice is auto (or empty), none, required, or the name of a function that
	// must be called once.
	ToolChoice string
	Kwargs     json.RawMessage // object whose keys become template variables, or empty
	Thinking   *bool           // reasoning before the answer; nil: the template decides
	Continue   bool            // continue the last message instead of starting a new one
	Template   string          // Jinja source that replaces the model's own template; empty: none
	RawParts   bool            // leave reasoning and tool calls in the text
}

// template is the model's chat template, read at first use.
func (m *Model) template() (*chat.Template, error) { return m.chat() }

// newTemplate reads the chat template from the file, unless an override is set.
func (m *Model) newTemplate() (*chat.Template, error) {
	o, err := m.templateOptions()
	if err != nil {
		return nil, err
	}
	if m.override != "" {
		t, err := chat.New(m.override, o)
		if err != nil {
			return nil, fmt.Errorf("--chat-template: %w", err)
		}
		return t, nil
	}
	source, err := m.source("tokenizer.chat_template")
	if err == nil {
		o.ToolUse, err = m.source("tokenizer.chat_template.tool_use")
	}
	var c *chat.Template
	if err == nil {
		c, err = chat.New(source, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	return c, nil
}

// templateOptions returns the model's properties that a chat template needs.
func (m *Model) templateOptions() (chat.Options, error) {
	t, err := m.Tokenizer()
	if err != nil {
		return chat.Options{}, err
	}
	text := func(id llm.Token) string {
		if id < 0 {
			return ""
		}
		return t.Text(id)
	}
	o := chat.Options{Family: model.ChatFormat(m.File.Arch()), Name: m.Config().Name, BOS: text(t.BOS()), EOS: text(t.EOS())}
	o.HasToken = func(s string) bool { _, ok := t.Find(s); return ok }
	return o, nil
}

// source returns the text of a template, or "" if the file has none.
func (m *Model) source(key string) (string, error) {
	s, ok := m.File.KV.String(key)
	if !ok && m.File.KV.Has(key) {
		return "", fmt.Errorf("chat template: %w %s: not a string", model.ErrParam, key)
	}
	return s, nil
}

// ChatTemplate returns the source of the template in use, and a notice if it is not the
// model's own.
func (m *Model) ChatTemplate() (source, notice string) {
	t, err := m.template()
	if err != nil {
		return "", err.Error()
	}
	if n := t.Notices(); len(n) > 0 {
		notice = n[0]
	}
	return t.Source(), notice
}

// Render renders a conversation for the model. In the rendered text, an ImageMarker
// stands for each picture.
func (m *Model) Render(ctx context.Context, c *Chat) (*chat.Prompt, error) {
	p, _, err := m.render(ctx, c)
	return p, err
}

// render is Render; it also returns the URLs of the pictures.
func (m *Model) render(ctx context.Context, c *Chat) (*chat.Prompt, []string, error) {
	t, err := m.templateOf(c)
	if err != nil {
		return nil, nil, err
	}
	in := chat.Input{AddGenerationPrompt: !c.Continue, Continue: c.Continue, Thinking: c.Thinking, Now: time.Now()}
	var messages, tools *chat.List
	if err := decode("messages", c.Messages, &messages); err != nil {
		return nil, nil, err
	}
	if err := decode("tools", c.Tools, &tools); err != nil {
		return nil, nil, err
	}
	if err := decode("chat_template_kwargs", c.Kwargs, &in.Kwargs); err != nil {
		return nil, nil, err
	}
	in.Messages = messages
	if c.ToolChoice != "none" {
		in.Tools = tools
	}
	p, err := t.Render(ctx, in)
	var wrong *chat.InputError
	if errors.As(err, &wrong) {
		return nil, nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err != nil && ctx.Err() != nil {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: chat template: %w", ErrRequest, err)
	}
	return p, p.Images, nil
}

// decode reads a JSON value of one type. Empty text leaves dst unchanged.
func decode[T jinja.Value](name string, raw json.RawMessage, dst *T) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	v, err := chat.Decode(raw)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrRequest, name, err)
	}
	t, ok := v.(T)
	if !ok {
		return fmt.Errorf("%w: %s has the wrong type", ErrRequest, name)
	}
	*dst = t
	return nil
}

// named reports whether the answer must be one call of a particular function.
func (c *Chat) named() bool {
	return !slices.Contains([]string{"", "auto", "none", "required"}, c.ToolChoice)
}

// parts splits an answer into content, reasoning and tool calls.
type parts struct{ p *chat.Parser }

// marked reports whether the model writes reasoning or calls between control
// tokens, so that the parser needs these tokens.
func (c *Chat) marked(p *chat.Prompt) bool {
	return !c.RawParts && (p.Tags != chat.Tags{} || len(c.Tools) > 0 || p.Kind == chat.Harmony)
}

func (s parts) push(text string) []Event { return events(s.p.Push(text)) }
func (s parts) finish() []Event          { return events(s.p.Finish()) }
func (s parts) called() bool             { return s.p.Called() }
func (s parts) thinking() bool           { return s.p.Thinking() }
func (s parts) held() int                { return s.p.Held() }

func events(deltas []chat.Delta) []Event {
	var out []Event
	for _, d := range deltas {
		switch d.Kind {
		case chat.Content:
			out = append(out, Event{Kind: Text, Text: d.Text})
		case chat.Reasoning:
			out = append(out, Event{Kind: Reasoning, Text: d.Text})
		case chat.CallStart:
			out = append(out, Event{Kind: Call, Call: CallDelta{Index: d.Index, ID: d.ID, Name: d.Name}})
		case chat.CallArgs:
			out = append(out, Event{Kind: Call, Call: CallDelta{Index: d.Index, Arguments: d.Text}})
		}
	}
	return out
}

// ChatText renders a conversation with the model's template and returns the text.
func (m *Model) ChatText(ctx context.Context, c *Chat) (string, error) {
	p, err := m.Render(ctx, c)
	if err != nil {
		return "", err
	}
	return p.Text(), nil
}

// TemplateHash returns the SHA-256 of a template's source in hex, or "" without
// a template.
func TemplateHash(source string) string {
	if source == "" {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(source)))
}
