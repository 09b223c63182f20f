package api

import (
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
)

// handler answers a request, or returns an error before it has sent anything.
type handler func(w http.ResponseWriter, r *http.Request) error

// route is one endpoint.
type route struct {
	method, path string // path in the notation of http.ServeMux
	about        string
	do           handler
	request      any // wire type of the body; nil: none
	answer       any // wire type of the answer; nil: not JSON
}

// calls reads bodies with a parser that returns a concrete type.
func calls[T wire.Call](parse func([]byte) (T, error)) parser {
	return func(body []byte) (wire.Call, error) {
		c, err := parse(body)
		return c, err
	}
}

// table lists all endpoints.
func (s *Server) table() []route {
	return slices.Concat(s.openaiRoutes())
}

func (s *Server) openaiRoutes() []route {
	chat := s.generate(calls(openai.ParseChat))
	return []route{
		{"GET", "/v1/models", "List the models with their state.", s.openaiModels, nil, openai.ModelList{}},
		{"GET", "/v1/models/{id...}", "Describe a model.", s.openaiModel, nil, openai.ModelInfo{}},
		{"POST", "/v1/chat/completions", "Answer a conversation.", chat, openai.ChatRequest{}, openai.ChatCompletion{}},
		{"POST", "/v1/completions", "Go on with a text.", s.generate(calls(openai.ParseCompletion)), openai.CompletionRequest{}, openai.TextCompletion{}},
		{"POST", "/chat/completions", "Same as /v1/chat/completions.", chat, openai.ChatRequest{}, openai.ChatCompletion{}},
		{"GET", "/models", "Same as /v1/models.", s.openaiModels, nil, openai.ModelList{}},
	}
}

// open reports whether an endpoint needs no key.
func open(path string) bool { return path == "/health" || path == "/v1/health" }

// formOf is the form of errors of the dialect that a path belongs to.
func formOf(path string) func(*wire.Error) any {
	return (*wire.Error).Body
}

// routes builds the handler of all endpoints.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	byPath := map[string]map[string]route{}
	for _, r := range s.table() {
		if byPath[r.path] == nil {
			byPath[r.path] = map[string]route{}
		}
		byPath[r.path][r.method] = r
	}
	for path, methods := range byPath {
		mux.Handle(path, s.methods(path, methods))
	}
	if s.o.App != nil {
		mux.Handle("/app/", s.o.App)
	}
	mux.Handle("/", s.page())
	return mux
}

// methods picks the route of a path by method.
func (s *Server) methods(path string, routes map[string]route) http.Handler {
	var allowed []string
	for m := range routes {
		allowed = append(allowed, m)
	}
	slices.Sort(allowed)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form := formOf(r.URL.Path)
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		route, ok := routes[method]
		if !ok {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			e := wire.Fault(http.StatusMethodNotAllowed, wire.Invalid, "%s is not allowed for %s, only %s", clipPath(r.Method), clipPath(r.URL.Path), strings.Join(allowed, ", "))
			e.Code = "method_not_allowed"
			s.fail(w, form, e)
			return
		}
		start := time.Now()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		if err := s.run(rec, r, route); err != nil {
			s.fail(rec, form, err)
		}
		s.counters.request(method+" "+path, rec.status)
		if s.o.Settings.Server.RequestLog {
			s.log.Info("request", "method", method, "path", path, "status", rec.status, "ms", time.Since(start).Milliseconds())
		}
	})
}

// run answers a request unless too many are being answered.
func (s *Server) run(w http.ResponseWriter, r *http.Request, route route) error {
	if route.method == http.MethodPost {
		select {
		case s.flight <- struct{}{}:
			defer func() { <-s.flight }()
		default:
			return wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%d requests are waiting already", cap(s.flight))
		}
	}
	return route.do(w, r)
}

func clipPath(s string) string { return s[:min(len(s), 128)] }

// recorder remembers the status for the metrics.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// page serves the built page at /, and tells of what is not there.
func (s *Server) page() http.Handler {
	missing := func(w http.ResponseWriter, r *http.Request) {
		e := wire.Fault(http.StatusNotFound, wire.NotFound, "there is no endpoint %s %s; GET /openapi.json lists them", clipPath(r.Method), clipPath(r.URL.Path))
		e.Code = "not_found"
		s.fail(w, formOf(r.URL.Path), e)
	}
	if s.o.Page == nil {
		return http.HandlerFunc(missing)
	}
	files := http.FileServerFS(s.o.Page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		info, err := fs.Stat(s.o.Page, name)
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead, name != "index.html" && (err != nil || info.IsDir()):
			missing(w, r)
		case err != nil:
			e := wire.Fault(http.StatusNotFound, wire.NotFound, "this build has no page, run: make build")
			e.Code = "no_page"
			s.fail(w, (*wire.Error).Body, e)
		default:
			files.ServeHTTP(w, r)
		}
	})
}
