package engine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

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

// render turns messages into marked text.
func (e *Engine) render(*Chat) ([]tokenizer.Piece, error) {
	return nil, fmt.Errorf("%w: this model has no chat template", ErrRequest)
}

func (e *Engine) newSplitter(*Chat) splitter { return plain{} }

// TemplateHash is the SHA-256 of a template's source in hex, empty for none.
func TemplateHash(source string) string {
	if source == "" {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(source)))
}
