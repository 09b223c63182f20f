package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"godwit/engine/chat/jinja"
	"godwit/engine/llm"
	"godwit/engine/tokenizer"
)

// Chat is a conversation for the model's chat template.
type Chat struct {
	Messages json.RawMessage // list of messages in OpenAI's form; order of keys counts
	Tools    json.RawMessage // list of tools in OpenAI's form, or empty
	// ToolChoice is auto (or empty), none, required, or the name of a function.
	ToolChoice string
	Kwargs     json.RawMessage // object whose keys become template variables, or empty
	Thinking   *bool           // whether a model that can think first does; nil: as its template says
	Continue   bool            // go on with the last message instead of starting a new one
	RawParts   bool            // leave reasoning and tool calls in the text
}

// chatML is what models without a template of their own get.
const chatML = `{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\n' }}
{%- endif -%}`

// DefaultTemplate is what a model of an architecture gets when its file has no
// chat template, and a line that says so.
func DefaultTemplate(arch string) (source, notice string) {
	return chatML, "this " + arch + " model has no chat template; ChatML is used"
}

// ChatTemplate is the source of the template in use.
func (m *Model) ChatTemplate() (source, notice string) {
	if s, ok := m.File.KV.String("tokenizer.chat_template"); ok && s != "" {
		return s, ""
	}
	return DefaultTemplate(m.Config().Arch)
}

// render turns messages into marked text.
func (m *Model) render(c *Chat) ([]tokenizer.Piece, error) {
	source, _ := m.ChatTemplate()
	t, err := jinja.Parse(source, jinja.Limits{})
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	vars, err := m.variables(c)
	if err != nil {
		return nil, err
	}
	pieces, err := t.Render(context.Background(), vars, jinja.Options{Now: time.Now()})
	if err != nil {
		return nil, fmt.Errorf("%w: chat template: %w", ErrRequest, err)
	}
	out := make([]tokenizer.Piece, len(pieces))
	for i, p := range pieces {
		out[i] = tokenizer.Piece{Text: p.Text, Trusted: p.Trusted}
	}
	return out, nil
}

// variables are what the template sees.
func (m *Model) variables(c *Chat) (*jinja.Dict, error) {
	vars := jinja.NewDict()
	tok, err := m.Tokenizer()
	if err != nil {
		return nil, err
	}
	for name, id := range map[string]llm.Token{"bos_token": tok.BOS(), "eos_token": tok.EOS()} {
		if id >= 0 {
			vars.Set(name, jinja.Trusted(tok.Text(id)))
		}
	}
	vars.Set("add_generation_prompt", jinja.Bool(!c.Continue))
	if c.Thinking != nil {
		vars.Set("enable_thinking", jinja.Bool(*c.Thinking))
	}
	for name, raw := range map[string]json.RawMessage{"messages": c.Messages, "tools": c.Tools} {
		if len(raw) == 0 {
			continue
		}
		v, err := jinja.DecodeJSON(raw, true)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrRequest, name, err)
		}
		vars.Set(name, v)
	}
	if len(c.Kwargs) > 0 {
		v, err := jinja.DecodeJSON(c.Kwargs, true)
		d, ok := v.(*jinja.Dict)
		if err != nil || !ok {
			return nil, fmt.Errorf("%w: chat_template_kwargs is no object", ErrRequest)
		}
		for k, v := range d.All() {
			vars.Set(k, v)
		}
	}
	return vars, nil
}

func (m *Model) newSplitter(*Chat) splitter { return plain{} }

// TemplateHash is the SHA-256 of a template's source in hex, empty for none.
func TemplateHash(source string) string {
	if source == "" {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(source)))
}
