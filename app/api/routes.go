package api

import (
	"context"
	"io"
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

// handler answers a request, or returns an error before it has sent anything.
type handler func(w http.ResponseWriter, r *http.Request) error

// route is one endpoint.
type route struct {
	method, path string // path in the notation of http.ServeMux
	about        string
	do           handler
	request      any // wire type of the body; nil: none
	answer       any // wire type of the answer; nil: not JSON
	query        []string
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
	return slices.Concat(s.openaiRoutes(), s.anthropicRoutes(), s.batchRoutes(), s.resumeRoutes(), s.llamaRoutes(), s.ollamaRoutes(), s.libraryRoutes(), s.ownRoutes(), refusalRoutes(),
		mount(llamaserver.Routes(service{s}, service{s})), mount(lmstudio.Routes(service{s}, service{s}, s.embeddings)))
}

func (s *Server) openaiRoutes() []route {
	chat := s.generate(calls(openai.ParseChat))
	return []route{
		{"GET", "/v1/models", "List the models with their state.", s.openaiModels, nil, openai.ModelList{}, nil},
		{"GET", "/v1/models/{id...}", "Describe a model.", s.openaiModel, nil, openai.ModelInfo{}, nil},
		{"POST", "/v1/chat/completions", "Answer a conversation.", chat, openai.ChatRequest{}, openai.ChatCompletion{}, nil},
		{"POST", "/v1/chat/completions/control", "Change an answer while it is generated.", s.control, openai.Control{}, openai.Controlled{}, nil},
		{"POST", "/v1/completions", "Go on with a text.", s.generate(calls(openai.ParseCompletion)), openai.CompletionRequest{}, openai.TextCompletion{}, nil},
		{"POST", "/v1/embeddings", "Turn texts into vectors.", s.embeddings, openai.EmbeddingRequest{}, openai.Embeddings{}, nil},
		{"POST", "/v1/responses", "Answer a conversation (OpenAI's Responses API).", s.responses, openai.ResponsesRequest{}, openai.Response{}, nil},
		{"GET", "/v1/responses/{id}", "Read a kept response.", s.keptResponse, nil, openai.Response{}, []string{"stream"}},
		{"DELETE", "/v1/responses/{id}", "Drop a kept response.", s.dropResponse, nil, openai.Deleted{}, nil},
		{"POST", "/v1/responses/{id}/cancel", "End a response that runs in the background.", s.cancelResponse, nil, openai.Response{}, nil},
		{"GET", "/v1/responses/{id}/input_items", "List what a kept response answers.", s.inputItems, nil, openai.ItemList{}, []string{"after", "limit", "order"}},
		{"POST", "/v1/responses/input_tokens", "Count the tokens of a conversation.", s.inputTokens, openai.ResponsesRequest{}, openai.TokenCount{}, nil},
		{"POST", "/chat/completions", "Same as /v1/chat/completions.", chat, openai.ChatRequest{}, openai.ChatCompletion{}, nil},
		{"GET", "/models", "Same as /v1/models.", s.openaiModels, nil, openai.ModelList{}, nil},
	}
}

func (s *Server) anthropicRoutes() []route {
	return []route{
		{"POST", "/v1/messages", "Answer a conversation in Anthropic's form.", s.generate(calls(s.messages)), anthropic.Request{}, anthropic.Message{}, nil},
		{"POST", "/v1/messages/count_tokens", "Count the tokens of a conversation.", s.countTokens, anthropic.Prompt{}, anthropic.Count{}, nil},
	}
}

func (s *Server) llamaRoutes() []route {
	model := []string{"model"}
	completion := s.generate(calls(llamaserver.ParseCompletion))
	return []route{
		{"GET", "/health", "Tell whether the model is loaded.", s.health, nil, llamaserver.Health{}, nil},
		{"GET", "/v1/health", "Same as /health.", s.health, nil, llamaserver.Health{}, nil},
		{"GET", "/props", "Describe the loaded model.", s.props, nil, llamaserver.Props{}, model},
		{"GET", "/slots", "List the slots.", s.slots, nil, []llamaserver.Slot{}, []string{"model", "fail_on_no_slot"}},
		{"POST", "/slots/{id}", "Save, restore or erase a slot; the body names the file.", s.slot, nil, nil, []string{"action", "model"}},
		{"GET", "/metrics", "Counters in the text form of Prometheus.", s.metricsText, nil, nil, nil},
		{"POST", "/tokenize", "Turn text into token ids.", s.tokenize, llamaserver.TokenizeRequest{}, llamaserver.Tokens{}, nil},
		{"POST", "/detokenize", "Turn token ids into text.", s.detokenize, llamaserver.DetokenizeRequest{}, llamaserver.Text{}, nil},
		{"POST", "/apply-template", "Write a conversation as the model reads it.", s.applyTemplate, openai.ChatRequest{}, llamaserver.Prompt{}, nil},
		{"POST", "/completion", "Go on with a text.", completion, llamaserver.CompletionRequest{}, llamaserver.Completion{}, nil},
		{"POST", "/completions", "Same as /completion.", completion, llamaserver.CompletionRequest{}, llamaserver.Completion{}, nil},
		{"GET", "/lora-adapters", "List the LoRA adapters with their scales.", s.loras, nil, []llamaserver.Adapter{}, nil},
		{"POST", "/lora-adapters", "Set the scales of the LoRA adapters; those that the list lacks are switched off.", s.setLoras, []llamaserver.AdapterScale{}, llamaserver.Done{}, nil},
		{"POST", "/infill", "Fill in between two texts.", s.generate(calls(llamaserver.ParseInfill)), llamaserver.InfillRequest{}, llamaserver.Completion{}, nil},
	}
}

func (s *Server) ollamaRoutes() []route {
	list := []route{
		{"GET", "/api/tags", "List the models.", s.tags, nil, ollama.Tags{}, nil},
		{"GET", "/api/ps", "List the loaded models.", s.running, nil, ollama.Running{}, nil},
		{"GET", "/api/version", "Tell the version.", s.version, nil, ollama.Version{}, nil},
		{"POST", "/api/show", "Describe a model.", s.show, ollama.Named{}, ollama.Show{}, nil},
		{"POST", "/api/chat", "Answer a conversation, as JSON lines.", s.ollamaCall(ollama.ParseChat), ollama.ChatRequest{}, ollama.Answer{}, nil},
		{"POST", "/api/generate", "Answer a text, as JSON lines.", s.ollamaCall(ollama.ParseGenerate), ollama.GenerateRequest{}, ollama.Answer{}, nil},
		{"POST", "/api/embed", "Turn texts into vectors.", s.embed, ollama.EmbedRequest{}, ollama.Embeddings{}, nil},
		{"POST", "/api/embeddings", "Turn a text into a vector.", s.embedOne, ollama.EmbeddingRequest{}, ollama.Embedding{}, nil},
		{"POST", "/api/pull", "Download a model, telling how far it is as JSON lines.", s.pull, ollama.Named{}, ollama.Status{}, nil},
		{"DELETE", "/api/delete", "Remove a model from the library.", s.remove, ollama.Named{}, nil, nil},
	}
	if s.o.Page == nil {
		list = append(list, route{"GET", "/{$}", "Say that the server runs, in the words that Ollama's clients look for.", s.alive, nil, nil, nil})
	}
	return list
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
func refusalRoutes() []route {
	var list []route
	for _, path := range slices.Sorted(maps.Keys(refusals)) {
		list = append(list, route{"POST", path, "Refused: " + refusals[path] + ".", func(http.ResponseWriter, *http.Request) error {
			return quiet{wire.Fault(http.StatusNotImplemented, wire.Unsupported, "%s", refusals[path])}
		}, nil, nil, nil})
	}
	return list
}

// alive answers GET and HEAD of / where no page is served.
func (s *Server) alive(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "Ollama is running") // the client may be gone
	return nil
}

func (s *Server) ownRoutes() []route {
	return []route{
		{"GET", "/api/kv", "What each layer of the loaded model keeps, as its memory says.", s.kv, nil, engine.Plan{}, []string{"model"}},
		{"GET", "/api/kv/plan", "What a model would keep, before a load.", s.kvPlan, nil, engine.Plan{}, []string{"model", "ctx", "k", "v"}},
		{"GET", "/api/prefixes", "What is kept of what models have read: sizes and ages, never text.", s.prefixes, nil, keptPrefixes{}, nil},
		{"DELETE", "/api/prefixes", "Forget what models have read, in memory and on disk.", s.clearPrefixes, nil, keptPrefixes{}, nil},
		{"GET", "/api/v0/models", "List the models in LM Studio's form.", s.studioModels, nil, lmstudio.Models{}, nil},
		{"GET", "/api/v0/models/{id...}", "Describe a model in LM Studio's form.", s.studioModel, nil, lmstudio.Model{}, nil},
		{"GET", "/openapi.json", "This document.", s.openapiDocument, nil, nil, nil},
	}
}

// messages reads a call of Anthropic's dialect as the settings say.
func (s *Server) messages(body []byte) (*anthropic.Call, error) {
	return anthropic.ParseMessages(body, s.live.Load().anthropic)
}

// open reports whether an endpoint needs no key.
func open(path string) bool { return path == "/" || path == "/health" || path == "/v1/health" }

// keyless reports whether a request needs no API key: the page itself holds no
// secrets, and its own endpoints check their own token, which only a key gets.
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

// pageFile is the file of the page that a path means.
func pageFile(path string) string {
	if path == "/" {
		return "index.html"
	}
	return strings.TrimPrefix(path, "/")
}

// forms are the error objects of the dialects other than OpenAI's, by path.
var forms = map[string]func(*wire.Error) any{
	"/v1/messages": anthropic.ErrorForm, "/api/kv": (*wire.Error).Body, "/api/prefixes": (*wire.Error).Body,
	"/health": llamaserver.ErrorForm, "/v1/health": llamaserver.ErrorForm, "/props": llamaserver.ErrorForm,
	"/slots": llamaserver.ErrorForm, "/metrics": llamaserver.ErrorForm, "/tokenize": llamaserver.ErrorForm,
	"/detokenize": llamaserver.ErrorForm, "/apply-template": llamaserver.ErrorForm, "/completion": llamaserver.ErrorForm,
	"/completions": llamaserver.ErrorForm, "/infill": llamaserver.ErrorForm,
	"/embedding": llamaserver.ErrorForm, "/embeddings": llamaserver.ErrorForm, "/lora-adapters": llamaserver.ErrorForm,
	"/rerank": llamaserver.ErrorForm, "/reranking": llamaserver.ErrorForm, "/v1/rerank": llamaserver.ErrorForm, "/v1/reranking": llamaserver.ErrorForm,
}

// formsBelow are those of all that lies below a path, and what is there not too:
// a client that asks for it reads no other. The first that fits counts.
var formsBelow = []struct {
	path string
	form func(*wire.Error) any
}{
	{"/api/kv/", (*wire.Error).Body},
	{"/api/v0/", (*wire.Error).Body},
	{"/api/v1/", (*wire.Error).Body},
	{"/api/", ollama.ErrorForm},
	{"/v1/messages/", anthropic.ErrorForm},
	{"/slots/", llamaserver.ErrorForm},
	{"/models/", llamaserver.ErrorForm},
}

// formOf is the form of errors of the dialect that a path belongs to.
func formOf(path string) func(*wire.Error) any {
	if f := forms[path]; f != nil {
		return f
	}
	for _, f := range formsBelow {
		if strings.HasPrefix(path, f.path) {
			return f.form
		}
	}
	return (*wire.Error).Body
}

// routes builds the handler of all endpoints.
func (s *Server) routes() *http.ServeMux {
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
		rec := &recorder{ResponseWriter: w, status: http.StatusOK, request: route.request}
		if err := s.run(rec, r.WithContext(context.WithValue(r.Context(), tallyKey{}, &rec.tally)), route); err != nil {
			s.fail(rec, form, err)
		}
		s.counters.request(method+" "+path, rec.status)
		if s.live.Load().log {
			s.log.Info("request", append([]any{"method", method, "path", path, "status", rec.status, "ms", time.Since(start).Milliseconds()}, rec.tally.attrs()...)...)
		}
	})
}

// run answers a request unless too many are being answered.
func (s *Server) run(w http.ResponseWriter, r *http.Request, route route) error {
	if route.method != http.MethodGet {
		if err := s.enter(r); err != nil {
			return err
		}
		defer func() { <-s.flight }()
		if p, ok := r.Body.(*paced); ok {
			s.readers.add(p)
			defer s.readers.drop(p)
		}
	}
	return route.do(w, r)
}

func clipPath(s string) string { return s[:min(len(s), 128)] }

// recorder remembers the status for the metrics, and the wire type of the body.
type recorder struct {
	http.ResponseWriter
	status  int
	request any
	tally   tally
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
