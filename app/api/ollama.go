package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"godwit/app/api/ollama"
	"godwit/app/api/wire"
	"godwit/app/hub"
	"godwit/app/pool"
)

// ollamaCall answers POST /api/chat and /api/generate. A call that asks
// nothing and keeps nothing unloads the model.
func (s *Server) ollamaCall(parse func([]byte) (*ollama.Call, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := s.body(w, r)
		if err != nil {
			return err
		}
		c, err := parse(body)
		if err != nil {
			return err
		}
		if span := c.Head().KeepAlive; c.Load() && span != nil && *span == 0 {
			m, err := s.pool.Find(c.Model)
			if err != nil {
				return err
			}
			if err := s.pool.Unload(m.Path); err != nil {
				return inUse(err, m.Name)
			}
			writeJSON(w, http.StatusOK, c.Whole(&wire.Model{Name: m.Name}).Body())
			return nil
		}
		return s.answer(w, r, c)
	}
}

// tags answers GET /api/tags.
func (s *Server) tags(w http.ResponseWriter, _ *http.Request) error {
	list, err := s.pool.Models()
	if err != nil {
		return err
	}
	out := ollama.Tags{Models: []ollama.Model{}}
	for i := range list {
		out.Models = append(out.Models, ollama.NewModel(&list[i].Model))
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// running answers GET /api/ps.
func (s *Server) running(w http.ResponseWriter, _ *http.Request) error {
	list, err := s.pool.Models()
	if err != nil {
		return err
	}
	out := ollama.Running{Models: []ollama.RunningModel{}}
	for i := range list {
		m := &list[i]
		if !m.Loaded() {
			continue
		}
		until := m.Until
		if until.IsZero() { // in use, or kept for ever
			until = time.Now().Add(100 * 365 * 24 * time.Hour)
		}
		out.Models = append(out.Models, ollama.RunningModel{
			Name: m.Name, Model: m.Name, Size: m.Bytes, Digest: ollama.Digest(&m.Model), Details: ollama.NewDetails(&m.Model),
			Expires: until.UTC().Format(time.RFC3339Nano), Context: m.Standing.Context,
		})
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// readNamed reads a body that names a model.
func (s *Server) readNamed(w http.ResponseWriter, r *http.Request) (ollama.Named, error) {
	var q ollama.Named
	if err := s.read(w, r, &q); err != nil {
		return q, err
	}
	if q.Which() == "" {
		return q, wire.Bad("model", "this field is required")
	}
	return q, nil
}

// show answers POST /api/show.
func (s *Server) show(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readNamed(w, r)
	if err != nil {
		return err
	}
	m, err := s.pool.Find(q.Which())
	if err != nil {
		return err
	}
	info, err := hub.Describe(m.Path) // with the template
	if err != nil {
		return err
	}
	m.Template = info.Template
	writeJSON(w, http.StatusOK, ollama.NewShow(&m, capabilities(&m)))
	return nil
}

// capabilities are what a model can do, as far as its file tells.
func capabilities(m *hub.Model) []string {
	if pool.Embeds(m) {
		return []string{"embedding"}
	}
	list := []string{"completion"}
	if m.Vision {
		list = append(list, "vision")
	}
	if strings.Contains(m.Template, "tools") {
		list = append(list, "tools")
	}
	if strings.Contains(m.Template, "enable_thinking") || strings.Contains(m.Template, "</think>") || strings.Contains(m.Template, "reasoning_effort") {
		list = append(list, "thinking")
	}
	return list
}

// remove answers DELETE /api/delete.
func (s *Server) remove(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readNamed(w, r)
	if err != nil {
		return err
	}
	m, err := s.named(q.Which())
	if err != nil {
		return err
	}
	if err := s.pool.Remove(r.Context(), m.Model); err != nil {
		return hubFault(inUse(err, m.Name))
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// pull answers POST /api/pull.
func (s *Server) pull(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readNamed(w, r)
	if err != nil {
		return err
	}
	if s.pool.Library() == nil {
		return wire.Fault(http.StatusNotImplemented, wire.Unsupported, "this server has no library")
	}
	ctx, cancel := s.context(r)
	defer cancel()
	out := newStream(w, true)
	streamed := q.Stream == nil || *q.Stream
	var broken error // the client has gone
	say := func(st ollama.Status) {
		if !streamed || broken != nil {
			return
		}
		if broken = errors.Join(out.Send("", st), out.flush()); broken != nil {
			cancel()
		}
	}
	name := strings.TrimSuffix(q.Which(), ":latest")
	m, err := s.pool.Library().Pull(ctx, name, func(p hub.Progress) {
		if p.Phase != hub.PhaseDone {
			say(ollama.Status{Status: string(p.Phase) + " " + p.File, Digest: p.File, Total: p.Total, Completed: p.Done})
		}
	})
	switch {
	case err == nil && streamed:
		say(ollama.Status{Status: "success", Digest: m.SHA256})
	case err == nil:
		writeJSON(w, http.StatusOK, ollama.Status{Status: "success", Digest: m.SHA256})
	case !out.begun:
		return hubFault(err)
	default:
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		_ = errors.Join(out.Send("", ollama.ErrorForm(s.explain(hubFault(err)))), out.flush()) // the client may have gone
	}
	return nil
}

// hubStatus gives the errors of the library their status.
var hubStatus = []struct {
	err    error
	status int
	kind   string
}{
	{hub.ErrNotFound, http.StatusNotFound, wire.NotFound},
	{hub.ErrName, http.StatusBadRequest, wire.Invalid},
	{hub.ErrTaken, http.StatusConflict, wire.Invalid},
	{hub.ErrFile, http.StatusBadRequest, wire.Invalid},
	{hub.ErrDigest, http.StatusBadRequest, wire.Invalid},
	{hub.ErrSize, http.StatusRequestEntityTooLarge, wire.Invalid},
	{hub.ErrBusy, http.StatusConflict, wire.Invalid},
	{hub.ErrBlocked, http.StatusForbidden, wire.Forbidden},
	{hub.ErrAuth, http.StatusBadGateway, wire.Forbidden},
	{hub.ErrLimited, http.StatusTooManyRequests, wire.Unavailable},
	{hub.ErrServer, http.StatusBadGateway, wire.Unavailable},
	{hub.ErrNetwork, http.StatusBadGateway, wire.Unavailable},
	{hub.ErrSpace, http.StatusInsufficientStorage, wire.Internal},
}

func hubFault(err error) error {
	for _, h := range hubStatus {
		if errors.Is(err, h.err) {
			return wire.Fault(h.status, h.kind, "%v", err)
		}
	}
	return err
}

// version answers GET /api/version.
func (s *Server) version(w http.ResponseWriter, _ *http.Request) error {
	v := strings.TrimPrefix(s.o.Version, "v")
	if v == "" || v[0] < '0' || v[0] > '9' {
		v = strings.TrimSuffix("0.0.0-"+v, "-") // clients compare it with others
	}
	writeJSON(w, http.StatusOK, ollama.Version{Version: v})
	return nil
}
