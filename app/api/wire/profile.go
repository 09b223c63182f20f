package wire

import (
	"encoding/json"

	"godwit/app/hub"
	"godwit/engine"
)

// Options are the sampling options of a derived model, under Ollama's names.
type Options struct {
	Sampling
	Predict *int  `json:"num_predict" min:"-2" doc:"Maximum tokens of the answer; negative: until the context is full."`
	Stop    Stops `json:"stop" doc:"Texts that end the answer."`
	Keep    *int  `json:"num_keep" min:"-1"`
	Context *int  `json:"num_ctx" min:"1" max:"16777216" doc:"Minimum context length in tokens. If the loaded context is shorter, the model is reloaded, with at most its trained length."`
}

// ProfileOptions returns the options of a model, or none if it has no profile.
func ProfileOptions(p *hub.Profile) (o Options, err error) {
	if p == nil || IsNull(p.Parameters) {
		return o, nil
	}
	return o, Decode(p.Parameters, &o)
}

// options returns the options in the model's profile.
func (m *Model) options() (Options, error) { return ProfileOptions(m.Info.Profile) }

// Complete adds the settings in the model's profile that the request does not set.
func (m *Model) Complete(r *engine.Request) error {
	o, err := m.options()
	if err != nil {
		return err
	}
	if len(r.Stop) == 0 {
		r.Stop = o.Stop
	}
	return nil
}

// introduce puts the system prompt and the messages of the model's profile
// before a conversation. If the conversation has its own system prompt, that
// one is kept.
func (m *Model) introduce(c *engine.Chat) {
	p := m.Info.Profile
	if p == nil {
		return
	}
	if c.Template == "" {
		c.Template = p.Template
	}
	list, err := List(c.Messages, "messages")
	if err != nil {
		return // the conversation is rejected later with its own error
	}
	var first []json.RawMessage
	if p.System != "" && !(len(list) > 0 && instructs(list[0])) {
		o := Object{}
		o.SetText("role", "system")
		o.SetText("content", p.System)
		first = append(first, o.Raw())
	}
	if len(list) > 0 && instructs(list[0]) {
		first, list = append(first, list[0]), list[1:]
	}
	if shots, err := List(p.Messages, "messages"); err == nil && !IsNull(p.Messages) {
		first = append(first, shots...)
	}
	if len(first) > 0 {
		c.Messages = RawList(append(first, list...))
	}
}

// instructs reports whether a message is a system prompt.
func instructs(raw json.RawMessage) bool {
	o, err := ReadObject(raw, "")
	if err != nil {
		return false
	}
	role, err := Text(o.Value("role"), "")
	return err == nil && (role == "system" || role == "developer")
}
