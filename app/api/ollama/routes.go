package ollama

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"godwit/app/api/wire"
	"godwit/app/hub"
)

// dialect answers the endpoints.
type dialect struct {
	wire.Service
	shelf   wire.Shelf
	version string
}

// Routes lists the endpoints that generate text, and the endpoints that list,
// describe and download models.
func Routes(svc wire.Service, shelf wire.Shelf, version string) []wire.Route {
	d := dialect{svc, shelf, version}
	return []wire.Route{
		wire.On("GET", "/api/tags", "List the models.", d.tags, nil, Tags{}),
		wire.On("GET", "/api/ps", "List the loaded models.", d.running, nil, Running{}),
		wire.On("GET", "/api/version", "Report the version.", d.versionOf, nil, Version{}),
		wire.On("POST", "/api/show", "Describe a model.", d.show, Named{}, Show{}),
		wire.On("POST", "/api/chat", "Answer a conversation, as JSON lines.", d.call(ParseChat), ChatRequest{}, Answer{}),
		wire.On("POST", "/api/generate", "Answer a prompt, as JSON lines.", d.call(ParseGenerate), GenerateRequest{}, Answer{}),
		wire.On("POST", "/api/embed", "Compute embeddings.", d.embed, EmbedRequest{}, Embeddings{}),
		wire.On("POST", "/api/embeddings", "Compute an embedding.", d.embedOne, EmbeddingRequest{}, Embedding{}),
		wire.On("POST", "/api/pull", "Download a model, with progress as JSON lines.", d.pull, Named{}, Status{}),
		wire.On("DELETE", "/api/delete", "Remove a model from the library.", d.remove, Named{}, nil),
	}
}

// Alive returns the route of the endpoint /. It reports that the server runs,
// in the words that Ollama's clients expect.
func Alive() wire.Route {
	return wire.On("GET", "/{$}", "Report that the server runs, in the words that Ollama's clients expect.", func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "Ollama is running") // the client may have disconnected
		return nil
	}, nil, nil)
}

// call answers POST /api/chat and /api/generate. A call without a prompt and with a
// keep-alive of zero unloads the model.
func (d dialect) call(parse func([]byte) (*Call, error)) wire.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := d.Body(w, r)
		if err != nil {
			return err
		}
		c, err := parse(body)
		if err != nil {
			return err
		}
		if span := c.Head().KeepAlive; c.Load() && span != nil && *span == 0 {
			m, err := d.shelf.Find(c.Model)
			if err != nil {
				return err
			}
			if err := d.shelf.Unload(m.Name); err != nil {
				return err
			}
			wire.WriteJSON(w, http.StatusOK, c.Whole(&wire.Model{Name: m.Name}).Body())
			return nil
		}
		return d.Answer(w, r, c)
	}
}

// tags answers GET /api/tags.
func (d dialect) tags(w http.ResponseWriter, _ *http.Request) error {
	list, err := d.shelf.Models()
	if err != nil {
		return err
	}
	out := Tags{Models: []Model{}}
	for i := range list {
		out.Models = append(out.Models, NewModel(&list[i].Model))
	}
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}

// running answers GET /api/ps.
func (d dialect) running(w http.ResponseWriter, _ *http.Request) error {
	list, err := d.shelf.Models()
	if err != nil {
		return err
	}
	out := Running{Models: []RunningModel{}}
	for i := range list {
		m := &list[i]
		if !m.Loaded() {
			continue
		}
		until := m.Until
		if until.IsZero() { // the model is in use, or is kept forever
			until = time.Now().Add(100 * 365 * 24 * time.Hour)
		}
		out.Models = append(out.Models, RunningModel{
			Name: m.Name, Model: m.Name, Size: m.Bytes, Digest: Digest(&m.Model), Details: NewDetails(&m.Model),
			Expires: until.UTC().Format(time.RFC3339Nano), Context: m.Standing.Context,
		})
	}
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}

// readNamed reads a body with a model's name.
func (d dialect) readNamed(w http.ResponseWriter, r *http.Request) (Named, error) {
	var q Named
	if err := wire.Read(d, w, r, &q); err != nil {
		return q, err
	}
	if q.Which() == "" {
		return q, wire.Bad("model", "this field is required")
	}
	return q, nil
}

// show answers POST /api/show.
func (d dialect) show(w http.ResponseWriter, r *http.Request) error {
	q, err := d.readNamed(w, r)
	if err != nil {
		return err
	}
	m, err := d.shelf.Find(q.Which())
	if err != nil {
		return err
	}
	info, err := hub.Describe(m.Path) // info includes the template
	if err != nil {
		return err
	}
	m.Template = info.Template
	wire.WriteJSON(w, http.StatusOK, NewShow(&m, wire.Capabilities(&m)))
	return nil
}

// remove answers DELETE /api/delete.
func (d dialect) remove(w http.ResponseWriter, r *http.Request) error {
	q, err := d.readNamed(w, r)
	if err != nil {
		return err
	}
	if err := d.shelf.Remove(r.Context(), q.Which()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// pull answers POST /api/pull.
func (d dialect) pull(w http.ResponseWriter, r *http.Request) error {
	q, err := d.readNamed(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := d.Context(r)
	defer cancel()
	out := wire.NewOut(w, true)
	streamed := q.Stream == nil || *q.Stream
	var broken error // error while sending, which means that the client has disconnected
	say := func(st Status) {
		if !streamed || broken != nil {
			return
		}
		if broken = errors.Join(out.Send("", st), out.Flush()); broken != nil {
			cancel()
		}
	}
	m, err := d.shelf.Pull(ctx, strings.TrimSuffix(q.Which(), ":latest"), func(p hub.Progress) {
		if p.Phase != hub.PhaseDone {
			say(Status{Status: string(p.Phase) + " " + p.File, Digest: p.File, Total: p.Total, Completed: p.Done})
		}
	})
	switch {
	case err == nil && streamed:
		say(Status{Status: "success", Digest: m.SHA256})
	case err == nil:
		wire.WriteJSON(w, http.StatusOK, Status{Status: "success", Digest: m.SHA256})
	case !out.Begun:
		return err
	default:
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		_ = errors.Join(out.Send("", ErrorForm(d.Explain(err))), out.Flush()) // the client may have disconnected
	}
	return nil
}

// versionOf answers GET /api/version.
func (d dialect) versionOf(w http.ResponseWriter, _ *http.Request) error {
	v := strings.TrimPrefix(d.version, "v")
	if v == "" || v[0] < '0' || v[0] > '9' {
		v = strings.TrimSuffix("0.0.0-"+v, "-") // clients compare the version with other versions
	}
	wire.WriteJSON(w, http.StatusOK, Version{Version: v})
	return nil
}
