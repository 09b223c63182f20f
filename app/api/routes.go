package api

import (
	"context"
	"io/fs"
	"maps"
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
	"godwit/engine"
)

// calls reads bodies with a parser that returns a concrete type.
func calls[T wire.Call](parse func([]byte) (T, error)) parser {
	return func(body []byte) (wire.Call, error) {
		c, err := parse(body)
		return c, err
	}
}

// dialects are all endpoints, by the form of their errors. A path that two of them
// serve belongs to the first.
func (s *Server) dialects() []wire.Dialect {
	v := service{s}
	body := (*wire.Error).Body
	models := append(ollama.Routes(v, v, s.o.Version), s.libraryRoutes()...)
	if s.o.Page == nil {
		models = append(models, ollama.Alive().In(body))
	}
	return []wire.Dialect{
		{Form: body, Routes: slices.Concat(s.openaiRoutes(), s.resumeRoutes(), openai.LibraryRoutes(v, v, anthropic.Listed), refusalRoutes())},
		{Form: anthropic.ErrorForm, Below: anthropic.Below, Routes: append(s.anthropicRoutes(), s.batchRoutes()...)},
		{Form: llamaserver.ErrorForm, Below: llamaserver.Below, Routes: append(s.llamaRoutes(), llamaserver.Routes(v, v)...)},
		{Form: ollama.ErrorForm, Below: ollama.Below, Routes: models},
		{Form: body, Below: lmstudio.Below, Routes: lmstudio.Routes(v, v)},
		{Form: body, Below: []string{"/api/kv/"}, Routes: s.ownRoutes()},
	}
}

func (s *Server) openaiRoutes() []wire.Route {
	chat := s.generate(calls(openai.ParseChat))
	return []wire.Route{
		wire.On("POST", "/v1/chat/completions", "Answer a conversation.", chat, openai.ChatRequest{}, openai.ChatCompletion{}),
		wire.On("POST", "/v1/chat/completions/control", "Change an answer while it is generated.", s.control, openai.Control{}, openai.Controlled{}),
		wire.On("POST", "/v1/completions", "Go on with a text.", s.generate(calls(openai.ParseCompletion)), openai.CompletionRequest{}, openai.TextCompletion{}),
		wire.On("POST", "/v1/responses", "Answer a conversation (OpenAI's Responses API).", s.responses, openai.ResponsesRequest{}, openai.Response{}),
		wire.On("GET", "/v1/responses/{id}", "Read a kept response.", s.keptResponse, nil, openai.Response{}, "stream"),
		wire.On("DELETE", "/v1/responses/{id}", "Drop a kept response.", s.dropResponse, nil, openai.Deleted{}),
		wire.On("POST", "/v1/responses/{id}/cancel", "End a response that runs in the background.", s.cancelResponse, nil, openai.Response{}),
		wire.On("GET", "/v1/responses/{id}/input_items", "List what a kept response answers.", s.inputItems, nil, openai.ItemList{}, "after", "limit", "order"),
		wire.On("POST", "/v1/responses/input_tokens", "Count the tokens of a conversation.", s.inputTokens, openai.ResponsesRequest{}, openai.TokenCount{}),
		wire.On("POST", "/chat/completions", "Same as /v1/chat/completions.", chat, openai.ChatRequest{}, openai.ChatCompletion{}),
	}
}

func (s *Server) anthropicRoutes() []wire.Route {
	return []wire.Route{
		wire.On("POST", "/v1/messages", "Answer a conversation in Anthropic's form.", s.generate(calls(s.messages)), anthropic.Request{}, anthropic.Message{}),
		wire.On("POST", "/v1/messages/count_tokens", "Count the tokens of a conversation.", s.countTokens, anthropic.Prompt{}, anthropic.Count{}),
	}
}

func (s *Server) llamaRoutes() []wire.Route {
	completion := s.generate(calls(llamaserver.ParseCompletion))
	return []wire.Route{
		wire.On("GET", "/health", "Tell whether the model is loaded.", s.health, nil, llamaserver.Health{}),
		wire.On("GET", "/v1/health", "Same as /health.", s.health, nil, llamaserver.Health{}),
		wire.On("GET", "/props", "Describe the loaded model.", s.props, nil, llamaserver.Props{}, "model"),
		wire.On("GET", "/slots", "List the slots.", s.slots, nil, []llamaserver.Slot{}, "model", "fail_on_no_slot"),
		wire.On("POST", "/slots/{id}", "Save, restore or erase a slot; the body names the file.", s.slot, nil, nil, "action", "model"),
		wire.On("GET", "/metrics", "Counters in the text form of Prometheus.", s.metricsText, nil, nil),
		wire.On("POST", "/tokenize", "Turn text into token ids.", s.tokenize, llamaserver.TokenizeRequest{}, llamaserver.Tokens{}),
		wire.On("POST", "/detokenize", "Turn token ids into text.", s.detokenize, llamaserver.DetokenizeRequest{}, llamaserver.Text{}),
		wire.On("POST", "/apply-template", "Write a conversation as the model reads it.", s.applyTemplate, openai.ChatRequest{}, llamaserver.Prompt{}),
		wire.On("POST", "/completion", "Go on with a text.", completion, llamaserver.CompletionRequest{}, llamaserver.Completion{}),
		wire.On("POST", "/completions", "Same as /completion.", completion, llamaserver.CompletionRequest{}, llamaserver.Completion{}),
		wire.On("GET", "/lora-adapters", "List the LoRA adapters with their scales.", s.loras, nil, []llamaserver.Adapter{}),
		wire.On("POST", "/lora-adapters", "Set the scales of the LoRA adapters; those that the list lacks are switched off.", s.setLoras, []llamaserver.AdapterScale{}, llamaserver.Done{}),
		wire.On("POST", "/infill", "Fill in between two texts.", s.generate(calls(llamaserver.ParseInfill)), llamaserver.InfillRequest{}, llamaserver.Completion{}),
	}
}

// refusals are endpoints of OpenAI's that need another kind of model.
var refusals = map[string]string{
	"/v1/moderations":          "moderation needs a classifier; ask the model in a chat, with a JSON schema for the answer",
	"/v1/audio/speech":         "audio is not supported, the models here write text",
	"/v1/audio/transcriptions": "audio is not supported, the models here read text",
	"/v1/audio/translations":   "audio is not supported, the models here read text",
	"/v1/images/generations":   "images are not generated, the models here write text",
	"/v1/images/edits":         "images are not generated, the models here write text",
	"/v1/images/variations":    "images are not generated, the models here write text",
}

// refusalRoutes answer endpoints that cannot be offered with the reason.
func refusalRoutes() []wire.Route {
	var list []wire.Route
	for _, path := range slices.Sorted(maps.Keys(refusals)) {
		list = append(list, wire.On("POST", path, "Refused: "+refusals[path]+".", func(http.ResponseWriter, *http.Request) error {
			return wire.NewQuiet(wire.Fault(http.StatusNotImplemented, wire.Unsupported, "%s", refusals[path]))
		}, nil, nil))
	}
	return list
}

func (s *Server) ownRoutes() []wire.Route {
	return []wire.Route{
		wire.On("GET", "/api/kv", "What each layer of the loaded model keeps, as its memory says.", s.kv, nil, engine.Plan{}, "model"),
		wire.On("GET", "/api/kv/plan", "What a model would keep, before a load.", s.kvPlan, nil, engine.Plan{}, "model", "ctx", "k", "v"),
		wire.On("GET", "/api/memory", "Who holds what of the memory: weights, cells, exact pages, states, scratch, kept prefixes, other processes.", s.whoHolds, nil, memoryHeld{}),
		wire.On("GET", "/api/prefixes", "What is kept of what models have read: sizes and ages, never text.", s.prefixes, nil, keptPrefixes{}),
		wire.On("DELETE", "/api/prefixes", "Forget what models have read, in memory and on disk.", s.clearPrefixes, nil, keptPrefixes{}),
		wire.On("GET", "/openapi.json", "This document.", s.openapiDocument, nil, nil),
	}
}

// open reports whether an endpoint needs no key.
func open(path string) bool { return path == "/" || path == "/health" || path == "/v1/health" }

// keyless reports whether a request needs no API key. The page's files hold no secrets, and
// its endpoints check a token that is only issued for a key.
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
		form := s.endpoints.form(r.URL.Path)
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
		rec := &recorder{ResponseWriter: w, status: http.StatusOK, request: route.Request}
		if err := s.run(rec, r.WithContext(context.WithValue(r.Context(), wire.TallyKey{}, &rec.tally)), route); err != nil {
			s.fail(rec, form, err)
		}
		s.counters.request(method+" "+path, rec.status)
		if s.live.Load().log {
			s.log.Info("request", append([]any{"method", method, "path", path, "status", rec.status, "ms", time.Since(start).Milliseconds()}, rec.tally.Attrs()...)...)
		}
	})
}

// run answers a request unless too many are in progress.
func (s *Server) run(w http.ResponseWriter, r *http.Request, route wire.Route) error {
	if route.Method != http.MethodGet {
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

// recorder remembers the status for the metrics, and the wire type of the body.
type recorder struct {
	http.ResponseWriter
	status  int
	request any
	tally   wire.Tally
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController through.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

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
		case r.Method == http.MethodHead && r.URL.Path == "/": // Ollama's clients ask whether anybody is there
			w.WriteHeader(http.StatusOK)
		case r.Method != http.MethodGet && r.Method != http.MethodHead, name != "index.html" && (err != nil || info.IsDir()):
			missing(w, r)
		case err != nil:
			e := wire.Fault(http.StatusNotFound, wire.NotFound, "this build has no page, run: make build")
			e.Code = "no_page"
			s.fail(w, (*wire.Error).Body, e)
		default:
			h := w.Header()
			h.Set("X-Frame-Options", "DENY")
			h.Set("Cache-Control", "no-cache")
			if strings.HasPrefix(name, "assets/") { // named after what is in them
				h.Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			files.ServeHTTP(w, r)
		}
	})
}
