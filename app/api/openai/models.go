package openai

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string      `json:"object"`
	Data   []ModelInfo `json:"data"`
	Models []ModelName `json:"models"` // the same, as llama-server lists them beside OpenAI's form
}

// ModelName is a model as llama-server lists it.
type ModelName struct {
	Name         string   `json:"name"`
	Model        string   `json:"model"`
	Type         string   `json:"type"`
	Capabilities []string `json:"capabilities"`
	Context      int      `json:"context_length"`
}

// ModelInfo is one model. What is below OwnedBy is ours.
type ModelInfo struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Created int64     `json:"created"`
	OwnedBy string    `json:"owned_by"`
	State   string    `json:"state"` // unloaded, loading, loaded, failed
	Meta    ModelMeta `json:"meta"`
	// The context that a request has: of the loaded model, else that of its training.
	Context      int      `json:"context_length"`
	Window       int      `json:"context_window"`
	Capabilities []string `json:"capabilities"`
}

// ModelMeta is what the file says.
type ModelMeta struct {
	Arch       string `json:"arch"`
	Quant      string `json:"quantization"`
	Parameters int64  `json:"n_params"`
	Size       int64  `json:"size"`
	Context    int    `json:"n_ctx_train"`
	Loaded     int    `json:"n_ctx"` // context of the loaded model; 0 if not loaded
	Vocab      int    `json:"n_vocab"`
	Embedding  int    `json:"n_embd"`
}
