package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
)

// reading is a translated prompt.
type reading struct {
	chat    engine.Chat
	notices wire.Notices
	unused  []string // fields that have no effect
}

// billing is the beginning of a line that Anthropic's client puts before the
// system prompt. The line changes with every request, which would prevent the
// reuse of cached prompts.
const billing = "x-anthropic-billing-header:"

// read translates the prompt.
func (p *Prompt) read(o Options) (reading, error) {
	var r reading
	system, err := p.system(&r, o)
	if err != nil {
		return r, err
	}
	if err := openai.CheckTemplate(p.Template, "chat_template"); err != nil {
		return r, err
	}
	r.chat.Template = p.Template
	if len(p.Messages) == 0 {
		return r, wire.Bad("messages", "want at least one message")
	}
	t := turns{reading: &r, names: map[string]string{}}
	if system != "" {
		t.out = append(t.out, text("system", system))
	}
	for i, raw := range p.Messages {
		if err := t.add(raw, fmt.Sprintf("messages[%d]", i)); err != nil {
			return r, err
		}
	}
	r.chat.Messages, r.chat.Continue = wire.RawList(t.out), t.last == "assistant"
	names, err := p.tools(&r)
	if err != nil {
		return r, err
	}
	if p.Thinking != nil && (p.Thinking.Type == "enabled" || p.Thinking.Type == "disabled") {
		on := p.Thinking.Type == "enabled"
		r.chat.Thinking = &on
	}
	if p.Output != nil && p.Output.Effort != "" {
		o := wire.Object{}
		o.SetText("reasoning_effort", p.Output.Effort)
		r.chat.Kwargs = o.Raw()
	}
	p.rest(&r)
	r.chat.ToolChoice, err = p.choice(names)
	return r, err
}

// rest records the fields that have no effect.
func (p *Prompt) rest(r *reading) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"metadata", !wire.IsNull(p.Metadata)},
		{"betas", len(p.Betas) > 0},
		{"context_management", !wire.IsNull(p.Context)},
		{"cache_control", !wire.IsNull(p.Cache)},
		{"container", !wire.IsNull(p.Container)},
	} {
		if f.set {
			r.unused = append(r.unused, f.name)
		}
	}
	if len(p.Servers) > 0 {
		r.notices.Add("mcp_servers skipped, because this server does not connect to MCP servers")
	}
}

// system returns the text of the system prompt.
func (p *Prompt) system(r *reading, o Options) (string, error) {
	const path = "system"
	if wire.Kind(p.System) != "a list" {
		s, err := wire.ReadContent(p.System, path)
		if err == nil && !o.KeepHeaders {
			s, _ = r.unbill(s, path)
		}
		return s, err
	}
	blocks, err := wire.List(p.System, path)
	if err != nil {
		return "", err
	}
	var parts []string
	for i, raw := range blocks {
		at := fmt.Sprintf("%s[%d]", path, i)
		s, err := wire.ReadContent(wire.RawList([]json.RawMessage{raw}), path)
		if err != nil {
			return "", wire.At(err, path+"[0]", at)
		}
		if !o.KeepHeaders {
			left, cut := r.unbill(s, at)
			if cut && left == "" {
				continue
			}
			s = left
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "\n"), nil
}

// unbill removes the billing line from the start of a block.
func (r *reading) unbill(s, path string) (string, bool) {
	if !strings.HasPrefix(s, billing) {
		return s, false
	}
	_, rest, _ := strings.Cut(s, "\n")
	r.notices.Add("%s: line %s removed, so that the prompt can be reused", path, strings.TrimSuffix(billing, ":"))
	return rest, true
}

// text returns a message with plain text.
func text(role, content string) json.RawMessage {
	o := wire.Object{}
	o.SetText("role", role)
	o.SetText("content", content)
	return o.Raw()
}

// roles maps the roles of messages to the names in chat templates.
var roles = map[string]string{"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}

// turns collects messages and converts them to OpenAI's form.
type turns struct {
	*reading
	out   []json.RawMessage
	names map[string]string // names of called tools, by id
	last  string            // role of the last message
}

// add translates one message. It may become several, because the results of tools
// become separate messages.
func (t *turns) add(raw json.RawMessage, path string) error {
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return err
	}
	given, err := wire.Text(o.Value("role"), path+".role")
	if err != nil {
		return err
	}
	role, ok := roles[given]
	if !ok {
		return wire.Bad(path+".role", "%.64q is not one of user, assistant, system, developer", given)
	}
	t.last = role
	content := o.Value("content")
	if wire.Kind(content) != "a list" {
		s, err := wire.ReadContent(content, path+".content")
		t.out = append(t.out, text(role, s))
		return err
	}
	blocks, err := wire.List(content, path+".content")
	if err != nil {
		return err
	}
	m := turn{t: t}
	for i, b := range blocks {
		if err := m.block(role, b, fmt.Sprintf("%s.content[%d]", path, i)); err != nil {
			return err
		}
	}
	m.flush(role)
	return nil
}

// turn is a message that is being translated.
type turn struct {
	t     *turns
	parts wire.Parts
	think []string
	calls []json.RawMessage
	sent  bool // whether a part of the message was already added
}

func (m *turn) block(role string, raw json.RawMessage, path string) error {
	if wire.Kind(raw) == "a string" {
		s, err := wire.Text(raw, path)
		m.parts.Text(s)
		return err
	}
	o, err := wire.ReadObject(raw, path)
	if err != nil {
		return err
	}
	kind, err := wire.Text(o.Value("type"), path+".type")
	if err != nil {
		return err
	}
	switch {
	case kind == "text":
		s, err := wire.Text(o.Value("text"), path+".text")
		m.parts.Text(s)
		return err
	case kind == "image" && role == "user":
		url, err := image(o, path)
		m.parts.Image(url)
		return err
	case kind == "thinking" && role == "assistant":
		return m.thinking(o, path)
	case kind == "redacted_thinking" && role == "assistant":
		return nil
	case kind == "tool_use" && role == "assistant":
		return m.toolUse(o, path)
	case kind == "tool_result" && role == "user":
		return m.toolResult(o, path)
	case kind == "document" || kind == "search_result":
		s, err := m.t.document(o, path)
		m.parts.Text(s)
		return err
	case role == "assistant" && (kind == "server_tool_use" || kind == "mcp_tool_use" || strings.HasSuffix(kind, "_tool_result")):
		m.t.notices.Add("blocks of type %.64q skipped, because another server ran that tool", kind)
		return nil
	}
	return unsupported(path, "blocks of type %.64q are not supported in a message with the role %s", kind, role)
}

func unsupported(path, format string, args ...any) error {
	e := wire.Bad(path, format, args...)
	e.Code = "unsupported_content"
	return e
}

// thinking reads the reasoning of an earlier answer, which may be only in the
// signature.
func (m *turn) thinking(o wire.Object, path string) error {
	s, err := wire.Text(o.Value("thinking"), path+".thinking")
	if err != nil {
		return err
	}
	if v := o.Value("signature"); s == "" && v != nil {
		sig, err := wire.Text(v, path+".signature")
		if err != nil {
			return err
		}
		s = wire.Carried(sig)
	}
	if s != "" {
		m.think = append(m.think, s)
	}
	return nil
}

func (m *turn) toolUse(o wire.Object, path string) error {
	id, err := wire.Text(o.Value("id"), path+".id")
	if err != nil {
		return err
	}
	name, err := wire.Text(o.Value("name"), path+".name")
	if err != nil {
		return err
	}
	input := o.Value("input")
	if input == nil {
		input = json.RawMessage("{}")
	}
	if wire.Kind(input) != "an object" {
		return wire.Bad(path+".input", "want an object, got %s", wire.Kind(input))
	}
	m.t.names[id] = name
	m.calls = append(m.calls, wire.FunctionCall(id, name, input))
	return nil
}

func (m *turn) toolResult(o wire.Object, path string) error {
	id, err := wire.Text(o.Value("tool_use_id"), path+".tool_use_id")
	if err != nil {
		return err
	}
	content, err := m.t.result(o.Value("content"), path+".content")
	if err != nil {
		return err
	}
	if !m.parts.Empty() {
		m.flush("user")
	}
	r := wire.Object{}
	r.SetText("role", "tool")
	if name := m.t.names[id]; name != "" {
		r.SetText("name", name)
	}
	r.SetText("tool_call_id", id)
	r.SetText("content", content)
	m.t.out, m.sent = append(m.t.out, r.Raw()), true
	return nil
}

// flush adds the collected message. It adds an empty message if the turn had no
// other content.
func (m *turn) flush(role string) {
	if m.sent && m.parts.Empty() {
		return
	}
	o := wire.Object{}
	o.SetText("role", role)
	if m.parts.Empty() && len(m.calls) > 0 {
		o.Set("content", json.RawMessage("null"))
	} else {
		o.Set("content", m.parts.Raw())
	}
	if len(m.think) > 0 {
		o.SetText("reasoning_content", strings.Join(m.think, "\n"))
	}
	if len(m.calls) > 0 {
		o.Set("tool_calls", wire.RawList(m.calls))
	}
	m.t.out, m.parts, m.sent = append(m.t.out, o.Raw()), wire.Parts{}, true
}
