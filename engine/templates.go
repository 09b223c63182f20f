package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"godwit/engine/chat"
)

// ChatTemplate is a chat template that replaces the templates of models.
type ChatTemplate struct {
	Model  string // base name of the file without .gguf; empty: every model
	Source string // Jinja source
}

// ChatTemplates returns the names of the built-in chat templates.
func ChatTemplates() []string { return chat.Builtins() }

// BuiltinTemplate returns the source of a built-in chat template.
func BuiltinTemplate(name string) (string, bool) { return chat.Builtin(name) }

// templateFor picks the template for a model: the last one that names the model,
// else the last one without a model name, else none.
func templateFor(path string, list []ChatTemplate) string {
	name := strings.TrimSuffix(filepath.Base(path), ".gguf")
	out := ""
	named := false
	for _, t := range list {
		switch {
		case t.Model != "" && strings.EqualFold(t.Model, name):
			out, named = t.Source, true
		case t.Model == "" && !named:
			out = t.Source
		}
	}
	return out
}

// Limits of templates in requests.
const (
	maxTemplate  = 1 << 20 // bytes of a template
	maxTemplates = 8       // templates remembered per model
)

// templates holds the most recent templates in requests, newest last.
type templates struct {
	mu   sync.Mutex
	list []*chat.Template
}

// templateOf returns the chat template of a conversation.
func (m *Model) templateOf(c *Chat) (*chat.Template, error) {
	if c.Template == "" {
		return m.template()
	}
	if len(c.Template) > maxTemplate {
		return nil, fmt.Errorf("%w: a chat template of %d bytes is too long; the limit is %d", ErrRequest, len(c.Template), maxTemplate)
	}
	m.templates.mu.Lock()
	defer m.templates.mu.Unlock()
	list := m.templates.list
	if i := slices.IndexFunc(list, func(t *chat.Template) bool { return t.Source() == c.Template }); i >= 0 {
		t := list[i]
		m.templates.list = append(slices.Delete(list, i, i+1), t)
		return t, nil
	}
	o, err := m.templateOptions()
	if err != nil {
		return nil, err
	}
	t, err := chat.New(c.Template, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if len(list) == maxTemplates {
		list = list[1:]
	}
	m.templates.list = append(list, t)
	return t, nil
}
