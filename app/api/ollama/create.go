package ollama

import (
	"encoding/json"
	"net/http"
	"strings"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/app/hub"
)

// Create is the body of POST /api/create.
type Create struct {
	Model    string            `json:"model" most:"512" doc:"Name of the new model."`
	Name     string            `json:"name" most:"512" doc:"Older name of this field."`
	From     string            `json:"from" most:"512" doc:"Model in the library from which the new one is made; both share the files."`
	Files    json.RawMessage   `json:"files" doc:"Uploaded GGUF files by name, as sha256:DIGEST; replaces from."`
	Template string            `json:"template" most:"1048576" doc:"Jinja chat template that replaces the model's own."`
	System   string            `json:"system" most:"1048576" doc:"System prompt for conversations without one."`
	Options  json.RawMessage   `json:"parameters" doc:"Default sampling options."`
	Messages []json.RawMessage `json:"messages" doc:"Messages at the start of every conversation."`
	Licence  json.RawMessage   `json:"license" doc:"A text, or a list of texts."`
	Stream   *bool             `json:"stream" doc:"false: send the whole answer at the end."`
	Adapters json.RawMessage   `json:"adapters" doc:"Rejected; adapters are set at the start with --lora."`
	Quantize string            `json:"quantize" most:"64" doc:"Rejected; use godwit quantize to write another type."`
	File     string            `json:"modelfile" most:"1048576" doc:"Rejected; current clients send its parts as fields."`
}

// Copy is the body of POST /api/copy.
type Copy struct {
	Source      string `json:"source" need:"" most:"512" doc:"Name of a model of the library."`
	Destination string `json:"destination" need:"" most:"512" doc:"Name of the copy, which shares the files."`
}

// Store is the part of the library that these endpoints need.
type Store interface {
	// Library returns the library, or an error without one.
	Library() (*hub.Library, error)
	// Find returns the model with exactly the given name.
	Find(name string) (hub.Model, error)
	// Made announces a new model.
	Made()
}

// maker answers the endpoints that create models.
type maker struct {
	wire.Service
	store Store
}

// LibraryRoutes lists the endpoints that create models from other models and
// from files.
func LibraryRoutes(svc wire.Service, store Store) []wire.Route {
	m := maker{svc, store}
	return []wire.Route{
		wire.On("POST", "/api/create", "Make a model from another one, with a system prompt, template and options, or from an uploaded GGUF file.", m.create, Create{}, Status{}),
		wire.On("POST", "/api/copy", "Copy a model under another name; both share the files.", m.copy, Copy{}, nil),
		wire.On("GET", "/api/blobs/{digest}", "Report whether a file was uploaded or belongs to a model (HEAD).", m.blob, nil, nil),
		wire.On("POST", "/api/blobs/{digest}", "Upload a file, as the body.", m.upload, nil, nil),
		wire.On("POST", "/api/push", "Rejected, because Godwit uploads nothing.", m.push, nil, nil),
	}
}

// create answers POST /api/create.
func (m maker) create(w http.ResponseWriter, r *http.Request) error {
	var c Create
	if err := wire.Read(m, w, r, &c); err != nil {
		return err
	}
	lib, err := m.store.Library()
	if err != nil {
		return err
	}
	p, err := c.profile()
	if err != nil {
		return err
	}
	name := bare(c.Model, c.Name)
	if name == "" {
		return wire.Bad("model", "this field is required")
	}
	var made hub.Model
	if c.From != "" {
		var from hub.Model
		if from, err = m.store.Find(c.From); err == nil {
			p.From = from.Name
			made, err = lib.Derive(r.Context(), name, &from, p)
		}
	} else {
		var files map[string]string
		if files, err = c.files(); err == nil {
			made, err = lib.Assemble(r.Context(), name, files, p)
		}
	}
	if err != nil {
		return err
	}
	m.store.Made()
	done := Status{Status: "success", Digest: made.SHA256}
	if c.Stream != nil && !*c.Stream {
		wire.WriteJSON(w, http.StatusOK, done)
		return nil
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, st := range []Status{{Status: "writing manifest"}, done} {
		_, _ = w.Write(append(wire.JSON(st), '\n')) // the client may have disconnected
	}
	return nil
}

// bare returns the first name that is set, without the tag that Ollama's
// clients add.
func bare(names ...string) string {
	for _, n := range names {
		if n != "" {
			return strings.TrimSuffix(n, ":latest")
		}
	}
	return ""
}

// profile checks the settings that the new model adds to the files.
func (c *Create) profile() (p hub.Profile, err error) {
	switch {
	case !wire.IsNull(c.Adapters) && string(c.Adapters) != "{}":
		return p, wire.Bad("adapters", "adapters are set for the server: godwit serve --lora FILE, and POST /lora-adapters for their scales")
	case c.Quantize != "":
		return p, wire.Bad("quantize", "use the command godwit quantize to quantise models")
	case c.File != "":
		return p, wire.Bad("modelfile", "Modelfiles are not supported; send from, system, template, parameters and messages")
	}
	if err := openai.CheckTemplate(c.Template, "template"); err != nil {
		return p, err
	}
	p = hub.Profile{System: c.System, Template: c.Template, Parameters: c.Options}
	if wire.IsNull(c.Options) {
		p.Parameters = nil
	}
	if p.Licence, err = licence(c.Licence); err != nil {
		return p, err
	}
	if p.Parameters != nil {
		var o Options
		if err := wire.Decode(p.Parameters, &o); err != nil {
			return p, err
		}
	}
	if len(c.Messages) > 0 {
		if p.Messages, err = messages(c.Messages); err != nil {
			return p, err
		}
	}
	return p, nil
}

// licence reads the licence, which is a text or a list of texts.
func licence(raw json.RawMessage) (string, error) {
	switch wire.Kind(raw) {
	case "null", "nothing":
		return "", nil
	case "a string":
		return wire.Text(raw, "license")
	}
	list, err := wire.List(raw, "license")
	if err != nil {
		return "", err
	}
	texts := make([]string, len(list))
	for i, raw := range list {
		if texts[i], err = wire.Text(raw, "license"); err != nil {
			return "", err
		}
	}
	return strings.Join(texts, "\n\n"), nil
}

// files returns the digests of the files, by file name.
func (c *Create) files() (map[string]string, error) {
	if wire.IsNull(c.Files) {
		return nil, wire.Bad("from", "either this field or files is required")
	}
	list, err := wire.ReadObject(c.Files, "files")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, f := range list {
		if out[f.Key], err = wire.Text(f.Value, "files"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// copy answers POST /api/copy.
func (m maker) copy(w http.ResponseWriter, r *http.Request) error {
	var c Copy
	if err := wire.Read(m, w, r, &c); err != nil {
		return err
	}
	lib, err := m.store.Library()
	if err != nil {
		return err
	}
	from, err := m.store.Find(c.Source)
	if err != nil {
		return err
	}
	if _, err := lib.Derive(r.Context(), bare(c.Destination), &from, hub.Profile{From: from.Name}); err != nil {
		return err
	}
	m.store.Made()
	w.WriteHeader(http.StatusOK)
	return nil
}

// blob answers HEAD /api/blobs/{digest}.
func (m maker) blob(w http.ResponseWriter, r *http.Request) error {
	lib, err := m.store.Library()
	if err != nil {
		return err
	}
	has, err := lib.HasBlob(r.PathValue("digest"))
	if err != nil {
		return err
	}
	if !has {
		return wire.Fault(http.StatusNotFound, wire.NotFound, "there is no file with the digest %.80q", r.PathValue("digest"))
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// upload answers POST /api/blobs/{digest}.
func (m maker) upload(w http.ResponseWriter, r *http.Request) error {
	lib, err := m.store.Library()
	if err != nil {
		return err
	}
	if err := lib.WriteBlob(r.Context(), r.PathValue("digest"), r.Body, r.ContentLength); err != nil {
		return err
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

// push answers POST /api/push.
func (m maker) push(http.ResponseWriter, *http.Request) error {
	return wire.Fault(http.StatusNotImplemented, wire.Unsupported, "Godwit uploads nothing, so models stay on this machine")
}
