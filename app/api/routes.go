package api

import (
	"context"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"godwit/app/api/anthropic"
	"godwit/app/api/llamaserver"
	"godwit/app/api/lmstudio"
	"godwit/app/api/ollama"
	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/app/keys"
	"godwit/engine"
)

// dialects lists all endpoints, grouped by the form of their errors. If two
// dialects serve a path, its errors have the form of the first one.
func (s *Server) dialects() []wire.Dialect {
	v := service{s}
	body := (*wire.Error).Body
	models := append(ollama.Routes(v, v, s.o.Version), s.libraryRoutes()...)
	if s.o.Page == nil {
		models = append(models, ollama.Alive().In(body))
	}
	llama := llamaserver.Parts{Models: s.pool, States: s.states, Metrics: s.writeMetrics, Version: s.o.Version}
	return []wire.Dialect{
		{Form: body, Routes: append(openai.Routes(v, v, v, openai.Parts{Memory: &s.memory, Controls: &s.controls, Other: anthropic.Listed}), s.streams.Routes()...)},
		{Form: anthropic.ErrorForm, Below: anthropic.Below, Routes: anthropic.Routes(v, v, func() anthropic.Options { return s.live.Load().anthropic })},
		{Form: llamaserver.ErrorForm, Below: llamaserver.Below, Routes: llamaserver.Routes(v, v, v, llama)},
		{Form: ollama.ErrorForm, Below: ollama.Below, Routes: models},
		{Form: body, Below: lmstudio.Below, Routes: lmstudio.Routes(v, v)},
		{Form: body, Below: []string{"/api/kv/"}, Routes: s.ownRoutes()},
	}
}

// ownRoutes lists Godwit's own endpoints, which show what the server stores.
func (s *Server) ownRoutes() []wire.Route {
	return []wire.Route{
		wire.On("GET", "/api/kv", "Show what each layer of the loaded model stores, read back from memory.", s.kv, nil, engine.Plan{}, "model"),
		wire.On("GET", "/api/kv/plan", "Show what a model would store, before a load.", s.kvPlan, nil, engine.Plan{}, "model", "ctx", "k", "v"),
		wire.On("GET", "/api/memory", "Show the memory use: weights, cells, exact pages, states, scratch, stored prefixes, other processes.", s.whoHolds, nil, memoryHeld{}),
		wire.On("GET", "/api/prefixes", "Show the sizes and ages of stored prompts, never their text.", s.prefixes, nil, keptPrefixes{}),
		wire.On("DELETE", "/api/prefixes", "Delete all stored prompts, in memory and on disk.", s.clearPrefixes, nil, keptPrefixes{}),
		wire.On("GET", "/openapi.json", "This document.", s.openapiDocument, nil, nil),
	}
}

// open reports whether an endpoint needs no key.
func open(path string) bool { return path == "/" || path == "/health" || path == "/v1/health" }

// keyless reports whether a request needs no API key. The page's files contain no
// secrets, and its endpoints check a token that only clients with a key can read.
func (s *Server) keyless(path string) bool {
	if open(path) {
		return true
	}
	for _, m := range s.mounted {
		if strings.HasPrefix(path, m.path) {
			return m.keyless != nil && m.keyless(path)
		}
	}
	if s.o.Page == nil {
		return false
	}
	info, err := fs.Stat(s.o.Page, pageFile(path))
	return err == nil && !info.IsDir()
}

// mountedAt returns the path of the handler of another package that serves a path, or
// "".
func (s *Server) mountedAt(path string) string {
	for _, m := range s.mounted {
		if strings.HasPrefix(path, m.path) {
			return m.path
		}
	}
	return ""
}

// pageFile returns the file of the page for a path.
func pageFile(path string) string {
	if path == "/" {
		return "index.html"
	}
	return strings.TrimPrefix(path, "/")
}

// routes builds the handler of all endpoints.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for path, methods := range s.endpoints.routes {
		mux.Handle(path, s.methods(path, methods))
	}
	mux.Handle("/", s.page())
	return mux
}

// methods picks the route of a path by method.
func (s *Server) methods(path string, routes map[string]wire.Route) http.Handler {
	var allowed []string
	for m := range routes {
		allowed = append(allowed, m)
	}
	slices.Sort(allowed)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := w.(*recorder)
		rec.path = path
		form := s.endpoints.form(r.URL.Path)
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		route, ok := routes[method]
		if !ok {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			e := wire.Fault(http.StatusMethodNotAllowed, wire.Invalid, "%s is not allowed for %s; use %s", clipPath(r.Method), clipPath(r.URL.Path), strings.Join(allowed, ", "))
			e.Code = "method_not_allowed"
			s.fail(w, form, e)
			return
		}
		grant := keys.Of(r.Context())
		rec.route, rec.request = true, route.Request
		rec.tally.Limit = limit(grant)
		var err error
		if managing[method+" "+path] {
			err = permit(grant, "use "+method+" "+path)
		}
		if setting := governing[method+" "+path]; err == nil && setting != "" && s.o.Policy != nil {
			err = s.o.Policy.Refused(setting)
		}
		if err == nil {
			err = s.run(rec, r.WithContext(context.WithValue(r.Context(), wire.TallyKey{}, &rec.tally)), route)
		}
		if err != nil {
			s.fail(rec, form, err)
		}
		s.counters.request(method+" "+path, rec.status)
	})
}

// run serves a request unless too many are in progress.
func (s *Server) run(w http.ResponseWriter, r *http.Request, route wire.Route) error {
	if route.Method != http.MethodGet {
		if err := keys.Of(r.Context()).Admit(time.Now()); err != nil {
			return err
		}
		if err := s.enter(r); err != nil {
			return err
		}
		defer func() { <-s.flight }()
		if p, ok := r.Body.(*paced); ok {
			s.readers.add(p)
			defer s.readers.drop(p)
		}
	}
	return route.Do(w, r)
}

func clipPath(s string) string { return s[:min(len(s), 128)] }

// page serves the built page at /, and reports unknown paths.
func (s *Server) page() http.Handler {
	missing := func(w http.ResponseWriter, r *http.Request) {
		e := wire.Fault(http.StatusNotFound, wire.NotFound, "there is no endpoint %s %s; GET /openapi.json lists them", clipPath(r.Method), clipPath(r.URL.Path))
		e.Code = "not_found"
		s.fail(w, s.endpoints.form(r.URL.Path), e)
	}
	if s.o.Page == nil {
		return http.HandlerFunc(missing)
	}
	files := http.FileServerFS(s.o.Page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := pageFile(r.URL.Path)
		info, err := fs.Stat(s.o.Page, name)
		switch {
		case r.Method == http.MethodHead && r.URL.Path == "/": // Ollama's clients use it to test whether a server runs
			w.WriteHeader(http.StatusOK)
		case r.Method != http.MethodGet && r.Method != http.MethodHead, name != "index.html" && (err != nil || info.IsDir()):
			missing(w, r)
		case err != nil:
			e := wire.Fault(http.StatusNotFound, wire.NotFound, "this build does not contain the page; run: make build")
			e.Code = "no_page"
			s.fail(w, (*wire.Error).Body, e)
		default:
			h := w.Header()
			h.Set("X-Frame-Options", "DENY")
			h.Set("Cache-Control", "no-cache")
			if strings.HasPrefix(name, "assets/") { // names of assets contain a hash of their content
				h.Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			files.ServeHTTP(w, r)
		}
	})
}
