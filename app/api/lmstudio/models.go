// Package lmstudio is the part of LM Studio's dialect that tools use: the REST APIs
// for models, chats and downloads.
package lmstudio

// Models is the answer of GET /api/v0/models.
type Models struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Model is one model.
type Model struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Type          string `json:"type"` // llm or embeddings
	Publisher     string `json:"publisher"`
	Arch          string `json:"arch"`
	Compatibility string `json:"compatibility_type"`
	Quant         string `json:"quantization"`
	State         string `json:"state"` // loaded or not-loaded
	MaxContext    int    `json:"max_context_length"`
	LoadedContext int    `json:"loaded_context_length,omitempty"`
}

// State returns a state in LM Studio's terms.
func State(loaded bool) string {
	if loaded {
		return "loaded"
	}
	return "not-loaded"
}

// Type returns the type of a model.
func Type(embedding, vision bool) string {
	switch {
	case embedding:
		return "embeddings"
	case vision:
		return "vlm"
	}
	return "llm"
}
