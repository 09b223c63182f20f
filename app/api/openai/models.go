package openai

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string      `json:"object"`
	Data   []ModelInfo `json:"data"`
	Models []ModelName `json:"models"` // the same models in llama-server's form
}

// ModelName is a model in llama-server's form.
type ModelName struct {
	Name         string   `json:"name"`
	Model        string   `json:"model"`
	Type         string   `json:"type"`
	Capabilities []string `json:"capabilities"`
	Context      int      `json:"context_length"`
}

// ModelInfo is one model. The fields after OwnedBy are Godwit's.
type ModelInfo struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Created int64     `json:"created"`
	OwnedBy string    `json:"owned_by"`
	State   string    `json:"state"` // unloaded, loading, loaded, failed
	Meta    ModelMeta `json:"meta"`
	// context length of the loaded model, or else the trained one
	Context      int      `json:"context_length"`
	Window       int      `json:"context_window"`
	Capabilities []string `json:"capabilities"`
}

// ModelMeta holds details from the model file.
type ModelMeta struct {
	Arch       string `json:"arch"`
	Quant      string `json:"quantization"`
	Parameters int64  `json:"n_params"`
	Size       int64  `json:"size"`
	Context    int    `json:"n_ctx_train"`
	Loaded     int    `json:"n_ctx"` // context of the loaded model; 0 if it is not loaded
	Vocab      int    `json:"n_vocab"`
	Embedding  int    `json:"n_embd"`
}
