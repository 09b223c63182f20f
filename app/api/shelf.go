package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"godwit/app/api/ollama"
	"godwit/app/api/wire"
	"godwit/app/hub"
)

// store is the part of the library that endpoints use to create models.
type store struct{ s *Server }

var _ ollama.Store = store{}

func (v store) Library() (*hub.Library, error) {
	lib := v.s.pool.Library()
	if lib == nil || v.s.pool.Only() {
		return nil, wire.Fault(http.StatusNotImplemented, wire.Unsupported, "this server serves one model; to create models, start godwit serve without a model")
	}
	return lib, nil
}

func (v store) Find(name string) (hub.Model, error) { return v.s.pool.Named(name) }

func (v store) Made() { v.s.changes.tell() }

// libraryRoutes lists the endpoints that create models. Browsers must send JSON
// to them, so that no web page can upload files.
func (s *Server) libraryRoutes() []wire.Route {
	list := ollama.LibraryRoutes(service{s}, store{s})
	for i := range list {
		do := list[i].Do
		list[i].Do = func(w http.ResponseWriter, r *http.Request) error {
			if r.Method == http.MethodPost {
				if err := checkType(r); err != nil {
					return err
				}
			}
			return hubFault(do(w, r))
		}
	}
	return list
}

// Download starts to download a model in the background.
func (v service) Download(name string) (wire.Download, error) {
	s := v.s
	if s.pool.Library() == nil {
		return wire.Download{}, wire.Fault(http.StatusNotImplemented, wire.Unsupported, "this server serves one model and has no library")
	}
	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "https://huggingface.co/"), "hf.co/"), ":latest")
	if m, err := s.pool.Named(name); err == nil {
		return wire.Download{Name: m.Name, Status: "already_downloaded", Present: true}, nil
	}
	if err := hub.CheckName(name); err != nil {
		return wire.Download{}, hubFault(err)
	}
	if err := s.pool.Library().Allowed(); err != nil {
		return wire.Download{}, hubFault(err)
	}
	d := &wire.Download{ID: wire.ID("job_"), Name: name, Status: "downloading", Started: time.Now()}
	if err := s.downloads.begin(d); err != nil {
		return wire.Download{}, err
	}
	first := *d
	s.changes.tell()
	s.work.Go(func() {
		_, err := s.pool.Library().Pull(s.ctx, name, func(p hub.Progress) { s.progress(d, p) })
		s.downloads.mu.Lock()
		d.Status, d.Completed, d.Speed = "completed", time.Now(), 0
		if err != nil {
			d.Status, d.Completed, d.Err = "failed", time.Time{}, hubFault(err).Error()
		}
		s.downloads.mu.Unlock()
		s.changes.tell()
		if err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("download failed", "model", name, "err", err)
		}
	})
	return first, nil
}

func (s *Server) progress(d *wire.Download, p hub.Progress) {
	s.downloads.mu.Lock()
	d.Total, d.Done = cmp.Or(p.Total, d.Total), max(p.Done, d.Done)
	if span := time.Since(d.Started).Seconds(); span > 0 {
		d.Speed = float64(d.Done) / span
	}
	s.downloads.mu.Unlock()
	s.changes.tell()
}

// Downloads lists the downloads.
func (v service) Downloads() []wire.Download {
	v.s.downloads.mu.Lock()
	defer v.s.downloads.mu.Unlock()
	out := make([]wire.Download, len(v.s.downloads.list))
	for i, d := range v.s.downloads.list {
		out[i] = *d
	}
	return out
}
