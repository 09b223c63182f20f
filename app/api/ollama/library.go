package ollama

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"godwit/app/api/wire"
	"godwit/app/hub"
)

// Tags is the answer of GET /api/tags.
type Tags struct {
	Models []Model `json:"models"`
}

// Model is a model in the library.
type Model struct {
	Name     string  `json:"name"`
	Model    string  `json:"model"`
	Modified string  `json:"modified_at"`
	Size     int64   `json:"size"`
	Digest   string  `json:"digest"`
	Details  Details `json:"details"`
}

// Details are details from the model file.
type Details struct {
	Parent     string   `json:"parent_model"`
	Format     string   `json:"format"`
	Family     string   `json:"family"`
	Families   []string `json:"families"`
	Parameters string   `json:"parameter_size"`
	Quant      string   `json:"quantization_level"`
}

// NewModel describes a model.
func NewModel(m *hub.Model) Model {
	return Model{
		Name: m.Name, Model: m.Name, Modified: modified(m), Size: m.Size, Digest: Digest(m),
		Details: NewDetails(m),
	}
}

// Digest returns the model's digest, or a substitute if none was computed. It
// always has more than twelve characters, because Ollama's client shortens it
// to twelve without checking the length.
func Digest(m *hub.Model) string {
	if m.SHA256 != "" {
		return m.SHA256
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s %d %s", m.Path, m.Size, modified(m))))
}

// modified returns when a model was added. For a model that was not added
// through the library, it returns the time of the file.
func modified(m *hub.Model) string {
	at := m.Added
	if at.IsZero() {
		if info, err := os.Stat(m.Path); err == nil {
			at = info.ModTime()
		}
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// NewDetails describes a model's file.
func NewDetails(m *hub.Model) Details {
	return Details{
		Format: "gguf", Family: m.Arch, Families: []string{m.Arch}, Parameters: parameters(m.Parameters), Quant: m.Quant,
	}
}

// parameters formats a count as Ollama does, as in 134.5M.
func parameters(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1fK", float64(n)/1e3)
}

// Running is the answer of GET /api/ps.
type Running struct {
	Models []RunningModel `json:"models"`
}

// RunningModel is a loaded model.
type RunningModel struct {
	Name    string  `json:"name"`
	Model   string  `json:"model"`
	Size    int64   `json:"size"`
	Digest  string  `json:"digest"`
	Details Details `json:"details"`
	Expires string  `json:"expires_at"`
	VRAM    int64   `json:"size_vram"`
	Context int     `json:"context_length"`
}

// Named is a body with a model's name in one of two fields.
type Named struct {
	Model  string `json:"model" most:"512" doc:"Name of the model."`
	Name   string `json:"name" most:"512" doc:"Older name of this field."`
	Stream *bool  `json:"stream" doc:"false: send the whole answer at the end."`
}

// Which returns the name.
func (n *Named) Which() string {
	if n.Model != "" {
		return n.Model
	}
	return n.Name
}

// Show is the answer of POST /api/show.
type Show struct {
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters"`
	Template     string         `json:"template"`
	System       string         `json:"system,omitempty"`
	Details      Details        `json:"details"`
	Info         map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	Licence      string         `json:"license,omitempty"`
	Modified     string         `json:"modified_at"`
}

// NewShow describes a model.
func NewShow(m *hub.Model, capabilities []string) Show {
	key := func(s string) string { return m.Arch + "." + s }
	show := Show{
		Modelfile: "FROM " + m.Name, Template: m.Template, Details: NewDetails(m), Capabilities: capabilities,
		Licence: m.Licence, Modified: modified(m),
		Info: map[string]any{
			"general.architecture": m.Arch, "general.basename": m.Title, "general.parameter_count": m.Parameters,
			key("context_length"): m.Context, key("embedding_length"): m.Embedding, key("block_count"): m.Layers,
			key("attention.head_count"): m.Heads, key("attention.head_count_kv"): m.KVHeads,
			key("attention.key_length"): m.HeadDim, key("vocab_size"): m.Vocab,
		},
	}
	if p := m.Profile; p != nil {
		show.tell(p)
	}
	return show
}

// tell adds the settings that a derived model adds to its files.
func (s *Show) tell(p *hub.Profile) {
	s.System, s.Details.Parent = p.System, p.From
	if p.Template != "" {
		s.Template = p.Template
	}
	if p.From != "" {
		s.Modelfile = "FROM " + p.From
	}
	for _, part := range [][2]string{{"TEMPLATE", p.Template}, {"SYSTEM", p.System}} {
		if part[1] != "" {
			s.Modelfile += fmt.Sprintf("\n%s \"\"\"%s\"\"\"", part[0], part[1])
		}
	}
	if o, err := wire.ReadObject(p.Parameters, ""); err == nil {
		for _, f := range o {
			values, err := wire.List(f.Value, "")
			if err != nil { // a single value
				values = []json.RawMessage{f.Value}
			}
			for _, v := range values {
				line := fmt.Sprintf("%s %s", f.Key, v)
				s.Modelfile += "\nPARAMETER " + line
				s.Parameters += line + "\n"
			}
		}
	}
	s.Parameters = strings.TrimSuffix(s.Parameters, "\n")
}

// Status is a line in the response of POST /api/pull.
type Status struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Completed int64  `json:"completed,omitempty"`
}

// Version is the answer of GET /api/version.
type Version struct {
	Version string `json:"version"`
}

// EmbedRequest is the body of POST /api/embed.
type EmbedRequest struct {
	Model      string          `json:"model" need:"" most:"512" doc:"Name of the model."`
	Input      json.RawMessage `json:"input" need:"" doc:"A text or a list of texts."`
	Truncate   *bool           `json:"truncate" doc:"false: a text that is too long is an error."`
	Dimensions *int            `json:"dimensions" min:"1"`
	KeepAlive  KeepAlive       `json:"keep_alive"`
}

// Embeddings is the answer of POST /api/embed.
type Embeddings struct {
	Model  string      `json:"model"`
	Rows   [][]float32 `json:"embeddings"`
	Total  int64       `json:"total_duration"`
	Load   int64       `json:"load_duration"`
	Prompt int         `json:"prompt_eval_count"`
}

// EmbeddingRequest is the body of POST /api/embeddings, the older form.
type EmbeddingRequest struct {
	Model     string    `json:"model" need:"" most:"512" doc:"Name of the model."`
	Prompt    string    `json:"prompt"`
	KeepAlive KeepAlive `json:"keep_alive"`
}

// Embedding is the answer of POST /api/embeddings.
type Embedding struct {
	Row []float32 `json:"embedding"`
}
