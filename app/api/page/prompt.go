package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/store"
	"godwit/engine"
)

// chatSettings holds the settings of a chat or a preset.
type chatSettings struct {
	Sampling  map[string]float64 `json:"sampling,omitempty"`
	MaxTokens int                `json:"max_tokens,omitempty"`
	Thinking  *bool              `json:"thinking,omitempty"`
	Tools     []json.RawMessage  `json:"tools,omitempty" ts:"Tool[]"` // definitions of functions in OpenAI's form
}

// readSettings parses settings and checks every number and every tool.
func readSettings(raw json.RawMessage) (c chatSettings, set []engine.SamplingField, err error) {
	if len(raw) == 0 {
		return c, nil, nil
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		var other *json.UnmarshalTypeError
		if errors.As(err, &other) {
			return c, nil, bad(textChatField, cmp.Or(other.Field, "everything"), other.Value)
		}
		return c, nil, bad(textChatSettings, err)
	}
	if c.MaxTokens < 0 {
		return c, nil, bad(textLength, c.MaxTokens)
	}
	known := 0
	for _, f := range engine.SamplingFields() {
		v, ok := c.Sampling[f.Name]
		if !ok {
			continue
		}
		known++
		if err := f.Check(v); err != nil {
			return c, nil, bad("%v", err)
		}
		set = append(set, f)
	}
	if known < len(c.Sampling) {
		return c, nil, bad(textNoParameter)
	}
	if err := openai.CheckTools(c.Tools); err != nil {
		return c, nil, bad("%v", err)
	}
	return c, set, nil
}

// sampling returns the sampling parameters of the settings.
func sampling(c *config.Sampling) engine.Sampling {
	s := engine.SamplingDefaults()
	s.Temperature, s.TopK, s.TopP, s.MinP = c.Temperature, c.TopK, c.TopP, c.MinP
	if c.Seed != nil {
		s.Seed = *c.Seed
	}
	return s
}

// request returns the engine's request for an answer of m to the last of the
// messages. If goOn is set, the answer continues the last message. Values that
// the chat does not set come from the settings of m, or otherwise from the
// settings for all models.
func (p *Page) request(chat *store.Chat, m *hub.Model, path []store.Message, goOn bool) (engine.Request, error) {
	s, err := p.o.Settings.Settings()
	if err != nil {
		return engine.Request{}, err
	}
	own, set, err := readSettings(chat.Settings)
	if err != nil {
		return engine.Request{}, err
	}
	r := engine.Request{Sampling: sampling(&s.Sampling), MaxTokens: max(s.Sampling.Predict, 0)}
	p.o.Tuned.Sample(m.Path, &r.Sampling)
	r.MaxTokens = p.o.Tuned.MaxTokens(m.Path, r.MaxTokens)
	for _, f := range set {
		if err := f.Set(&r.Sampling, own.Sampling[f.Name]); err != nil {
			return r, bad("%v", err)
		}
	}
	if own.MaxTokens > 0 {
		r.MaxTokens = own.MaxTokens
	}
	r.Chat = &engine.Chat{Messages: conversation(variables(chat.Model, time.Now()).Replace(chat.System), path), Continue: goOn, Thinking: own.Thinking}
	if len(own.Tools) > 0 {
		r.Chat.Tools = wire.RawList(own.Tools)
	}
	if s.Server.ChatTemplateKwargs != "" {
		r.Chat.Kwargs = json.RawMessage(s.Server.ChatTemplateKwargs)
	}
	if n, text := s.Server.ReasoningBudget, s.Server.ReasoningMessage; n >= 0 || text != "" {
		r.Budget = &engine.Budget{Tokens: n, Message: text}
	}
	if r.Chat.Thinking == nil && s.Server.Reasoning != "auto" {
		on := s.Server.Reasoning == "on"
		r.Chat.Thinking = &on
	}
	return r, nil
}

// conversation returns the messages in OpenAI's form. Keys have a fixed order, so
// that the same chat gives the same prompt. Answers that ended before their first
// token are left out, because small models reply with nothing after an empty turn.
func conversation(system string, path []store.Message) json.RawMessage {
	var list []json.RawMessage
	if strings.TrimSpace(system) != "" {
		var o wire.Object
		o.SetText("role", "system")
		o.SetText("content", system)
		list = append(list, o.Raw())
	}
	for i := range path {
		m := &path[i]
		if i < len(path)-1 && silent(m) {
			continue
		}
		var o wire.Object
		o.SetText("role", string(m.Role))
		o.SetText("content", content(m))
		if m.Reasoning != "" {
			o.SetText("reasoning_content", m.Reasoning)
		}
		if len(m.ToolCalls) > 0 {
			o.Set("tool_calls", m.ToolCalls)
		}
		if m.ToolCall != "" {
			o.SetText("tool_call_id", m.ToolCall)
		}
		list = append(list, o.Raw())
	}
	return wire.RawList(list)
}

// silent reports whether an answer is empty.
func silent(m *store.Message) bool {
	return m.Role == store.Assistant && m.Content == "" && m.Reasoning == "" && len(m.ToolCalls) == 0
}

// content returns the text of a message with its attachments before it.
func content(m *store.Message) string {
	if len(m.Attachments) == 0 {
		return m.Content
	}
	var b strings.Builder
	for _, a := range m.Attachments {
		fmt.Fprintf(&b, "File %s:\n%s\n\n", a.Name, fenced(a.Text))
	}
	b.WriteString(m.Content)
	return b.String()
}

// fenced encloses a file in a code fence that is longer than any fence in it.
func fenced(text string) string {
	longest, run := 2, 0
	for i := range len(text) {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	return fence + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence
}
