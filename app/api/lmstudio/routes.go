package lmstudio

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/app/pool"
)

// Below lists the prefixes of the dialect's paths, including unknown paths.
var Below = []string{"/api/v0/", "/api/v1/"}

// Routes lists the endpoints of LM Studio's two REST APIs.
func Routes(s wire.Service, m wire.Shelf) []wire.Route {
	chats := &Chats{}
	return []wire.Route{
		wire.On("GET", "/api/v0/models", "List the models in LM Studio's form.", func(w http.ResponseWriter, _ *http.Request) error { return models(m, w) }, nil, Models{}),
		wire.On("GET", "/api/v0/models/{id...}", "Describe a model in LM Studio's form.", func(w http.ResponseWriter, r *http.Request) error { return model(m, w, r) }, nil, Model{}),
		wire.On("POST", "/api/v0/chat/completions", "Answer a conversation, with LM Studio's stats.", wire.Generate(s, parseChat), openai.ChatRequest{}, ChatCompletion{}),
		wire.On("POST", "/api/v0/completions", "Continue a text, with LM Studio's stats.", wire.Generate(s, parseCompletion), openai.CompletionRequest{}, TextCompletion{}),
		wire.On("POST", "/api/v0/embeddings", "Compute embeddings.", openai.EmbeddingsOf(s), openai.EmbeddingRequest{}, openai.Embeddings{}),
		wire.On("GET", "/api/v1/models", "List the models in LM Studio's newer form.", func(w http.ResponseWriter, _ *http.Request) error { return list(m, w) }, nil, List{}),
		wire.On("POST", "/api/v1/chat", "Answer a message; the server remembers the conversation.", wire.Generate(s, chats.parse), ChatRequest{}, Chat{}),
		wire.On("POST", "/api/v1/models/load", "Load a model.", func(w http.ResponseWriter, r *http.Request) error { return load(s, w, r) }, LoadRequest{}, LoadedModel{}),
		wire.On("POST", "/api/v1/models/unload", "Unload a model.", func(w http.ResponseWriter, r *http.Request) error { return unload(s, m, w, r) }, UnloadRequest{}, UnloadedModel{}),
		wire.On("POST", "/api/v1/models/download", "Download a model in the background.", func(w http.ResponseWriter, r *http.Request) error { return download(s, m, w, r) }, DownloadRequest{}, Job{}),
		wire.On("GET", "/api/v1/models/download/status", "List the downloads.", func(w http.ResponseWriter, _ *http.Request) error { return jobs(m, w) }, nil, Jobs{}),
		wire.On("GET", "/api/v1/models/download/status/{id}", "Report the progress of a download.", func(w http.ResponseWriter, r *http.Request) error { return job(m, w, r) }, nil, Job{}),
	}
}

// List is the answer of GET /api/v1/models.
type List struct {
	Models []Entry `json:"models"`
}

// Entry is a model in a List.
type Entry struct {
	Type         string        `json:"type"` // llm, embedding
	Publisher    string        `json:"publisher"`
	Key          string        `json:"key"`
	Name         string        `json:"display_name"`
	Arch         *string       `json:"architecture,omitempty"`
	Quant        Quant         `json:"quantization"`
	Size         int64         `json:"size_bytes"`
	Params       *string       `json:"params_string"`
	Loaded       []Instance    `json:"loaded_instances"`
	MaxContext   int           `json:"max_context_length"`
	Format       string        `json:"format"`
	Capabilities *Capabilities `json:"capabilities,omitempty"`
	Description  *string       `json:"description"`
}

// Quant is the quantisation of a model's weights.
type Quant struct {
	Name string   `json:"name"`
	Bits *float64 `json:"bits_per_weight"`
}

// Instance is a loaded model.
type Instance struct {
	ID     string     `json:"id"`
	Config LoadConfig `json:"config"`
}

// Capabilities lists what a model can do according to its file.
type Capabilities struct {
	Vision bool `json:"vision"`
	Tools  bool `json:"trained_for_tool_use"`
}

func list(m wire.Shelf, w http.ResponseWriter) error {
	models, err := m.Models()
	if err != nil {
		return err
	}
	wire.LoadedFirst(models)
	out := List{Models: []Entry{}}
	for i := range models {
		out.Models = append(out.Models, entry(&models[i]))
	}
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}

func entry(m *pool.Model) Entry {
	e := Entry{
		Type: "llm", Publisher: m.Publisher(), Key: m.Name, Name: m.Title, Quant: Quant{Name: m.Quant}, Size: m.Size,
		Loaded: []Instance{}, MaxContext: m.Info.Context, Format: "gguf",
	}
	if e.Name == "" {
		e.Name = m.Name
	}
	if m.Parameters > 0 {
		bits := float64(8*m.Size) / float64(m.Parameters)
		params := paramsString(m.Parameters)
		e.Quant.Bits, e.Params = &bits, &params
	}
	if pool.Embeds(&m.Model) {
		e.Type = "embedding"
	} else {
		e.Arch, e.Capabilities = &m.Arch, &Capabilities{Vision: m.Vision, Tools: m.Tools}
	}
	if m.Loaded() {
		e.Loaded = append(e.Loaded, Instance{m.Name, LoadConfig{Context: m.Standing.Context}})
	}
	return e
}

// paramsString formats a number of parameters, as in 7B.
func paramsString(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.3gB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.3gM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.3gK", float64(n)/1e3)
}

// LoadRequest is the body of POST /api/v1/models/load.
type LoadRequest struct {
	Model   string      `json:"model" need:"" most:"512" doc:"Name of the model."`
	Context *int        `json:"context_length" min:"1" max:"16777216" doc:"Minimum context length in tokens."`
	Config  *LoadWanted `json:"config" doc:"Earlier place of context_length in this API."`
	Echo    bool        `json:"echo_load_config" doc:"Return the configuration of the load."`
}

// LoadWanted is the requested configuration of a load.
type LoadWanted struct {
	Context *int `json:"context_length" min:"1" max:"16777216"`
}

// LoadConfig is the configuration of a loaded model.
type LoadConfig struct {
	Context int `json:"context_length"`
}

// LoadedModel is the answer of a load.
type LoadedModel struct {
	Type     string      `json:"type"`
	Instance string      `json:"instance_id"`
	Model    string      `json:"model_instance_id"`
	Took     float64     `json:"load_time_seconds"`
	Status   string      `json:"status"`
	Config   *LoadConfig `json:"load_config,omitempty"`
}

func load(s wire.Service, w http.ResponseWriter, r *http.Request) error {
	var q LoadRequest
	if err := wire.Read(s, w, r, &q); err != nil {
		return err
	}
	h := wire.Head{Model: q.Model, ContextField: "context_length"}
	if q.Config != nil && q.Config.Context != nil {
		h.Context = *q.Config.Context
	}
	if q.Context != nil {
		h.Context = *q.Context
	}
	return s.Use(r, h, func(_ context.Context, m *wire.Model) error {
		out := LoadedModel{Type: "llm", Instance: m.Name, Model: m.Name, Took: m.Load.Seconds(), Status: "loaded"}
		if m.Engine.Config().Embedding {
			out.Type = "embedding"
		}
		if q.Echo {
			out.Config = &LoadConfig{m.Engine.Context()}
		}
		wire.WriteJSON(w, http.StatusOK, out)
		return nil
	})
}

// UnloadRequest is the body of POST /api/v1/models/unload.
type UnloadRequest struct {
	Instance string `json:"instance_id" need:"" most:"512" doc:"Name of the loaded model."`
}

// UnloadedModel is the answer of an unload.
type UnloadedModel struct {
	Instance string `json:"instance_id"`
}

func unload(s wire.Service, m wire.Shelf, w http.ResponseWriter, r *http.Request) error {
	var q UnloadRequest
	if err := wire.Read(s, w, r, &q); err != nil {
		return err
	}
	if err := m.Unload(q.Instance); err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, UnloadedModel(q))
	return nil
}

// DownloadRequest is the body of POST /api/v1/models/download.
type DownloadRequest struct {
	Model string `json:"model" need:"" most:"512" doc:"Name of the model on the hub, or its link."`
	Quant string `json:"quantization" most:"64" doc:"Quantisation to download, such as Q4_K_M."`
}

// Job is a download.
type Job struct {
	ID        string   `json:"job_id,omitempty"`
	Status    string   `json:"status"` // downloading, completed, failed, already_downloaded
	Total     *int64   `json:"total_size_bytes,omitempty"`
	Done      *int64   `json:"downloaded_bytes,omitempty"`
	Speed     *float64 `json:"bytes_per_second,omitempty"`
	Ready     string   `json:"estimated_completion,omitempty"`
	Started   string   `json:"started_at,omitempty"`
	Completed string   `json:"completed_at,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// Jobs counts the downloads by status.
type Jobs struct {
	Downloading []Job `json:"downloading"`
	Completed   []Job `json:"completed"`
	Failed      []Job `json:"failed"`
	Paused      []Job `json:"paused"`
}

const isoMillis = "2006-01-02T15:04:05.000Z"

func newJob(d *wire.Download) Job {
	j := Job{ID: d.ID, Status: d.Status, Error: d.Err}
	if d.Present {
		return j
	}
	j.Total, j.Done, j.Started = &d.Total, &d.Done, d.Started.UTC().Format(isoMillis)
	switch d.Status {
	case "completed":
		j.Completed = d.Completed.UTC().Format(isoMillis)
	case "downloading":
		j.Speed = &d.Speed
		if d.Speed > 0 && d.Total >= d.Done {
			left := time.Duration(float64(d.Total-d.Done) / d.Speed * float64(time.Second))
			j.Ready = time.Now().Add(left).UTC().Format(isoMillis)
		}
	}
	return j
}

func download(s wire.Service, m wire.Shelf, w http.ResponseWriter, r *http.Request) error {
	var q DownloadRequest
	if err := wire.Read(s, w, r, &q); err != nil {
		return err
	}
	name := q.Model
	if q.Quant != "" {
		name += ":" + q.Quant
	}
	d, err := m.Download(name)
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, newJob(&d))
	return nil
}

func jobs(m wire.Shelf, w http.ResponseWriter) error {
	out := Jobs{[]Job{}, []Job{}, []Job{}, []Job{}}
	for _, d := range m.Downloads() {
		to := &out.Downloading
		switch d.Status {
		case "completed":
			to = &out.Completed
		case "failed":
			to = &out.Failed
		}
		*to = append(*to, newJob(&d))
	}
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}

func job(m wire.Shelf, w http.ResponseWriter, r *http.Request) error {
	for _, d := range m.Downloads() {
		if d.ID == r.PathValue("id") {
			wire.WriteJSON(w, http.StatusOK, newJob(&d))
			return nil
		}
	}
	e := wire.Fault(http.StatusNotFound, wire.NotFound, "there is no download %.64q", r.PathValue("id"))
	e.Code = "job_not_found"
	return e
}
