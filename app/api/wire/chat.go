package wire

import (
	"encoding/json"

	"godwit/engine"
)

// FunctionCall is a call in an assistant message in OpenAI's form. Its arguments
// are JSON in a string.
func FunctionCall(id, name string, arguments json.RawMessage) json.RawMessage {
	f := Object{}
	f.SetText("name", name)
	f.SetText("arguments", Compact(arguments))
	o := Object{}
	if id != "" {
		o.SetText("id", id)
	}
	o.SetText("type", "function")
	o.Set("function", f.Raw())
	return o.Raw()
}

// Chat returns a conversation completed with the defaults.
func (m *Model) Chat(c engine.Chat) *engine.Chat {
	if c.Thinking == nil {
		c.Thinking = m.Defaults.Thinking
	}
	if c.Kwargs == nil {
		c.Kwargs = m.Defaults.Kwargs
	}
	m.introduce(&c)
	return &c
}
