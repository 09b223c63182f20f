package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"godwit/engine"
)

// chatTemplates reads the values of --chat-template. FILE or NAME applies to every
// model, MODEL=FILE or MODEL=NAME to one.
func chatTemplates(values []string) ([]engine.ChatTemplate, error) {
	var out []engine.ChatTemplate
	for _, value := range values {
		source, err := chatTemplate(value)
		if err == nil {
			out = append(out, engine.ChatTemplate{Source: source})
			continue
		}
		if model, rest, ok := strings.Cut(value, "="); ok && model != "" {
			if source, err = chatTemplate(rest); err == nil {
				out = append(out, engine.ChatTemplate{Model: strings.TrimSuffix(model, ".gguf"), Source: source})
				continue
			}
		}
		return nil, err
	}
	return out, nil
}

// chatTemplate reads a template from a file or returns the built-in one with the
// name.
func chatTemplate(value string) (string, error) {
	if source, ok := engine.BuiltinTemplate(value); ok {
		return source, nil
	}
	b, err := os.ReadFile(value)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("--chat-template: there is no file %q; built-in templates are %s", value, strings.Join(engine.ChatTemplates(), ", "))
	case err != nil:
		return "", fmt.Errorf("--chat-template: %w", err)
	case strings.TrimSpace(string(b)) == "":
		return "", fmt.Errorf("--chat-template: %s is empty", value)
	}
	return string(b), nil
}
