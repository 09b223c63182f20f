package wire

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit/app/hub"
	"godwit/app/keys"
	"godwit/app/pool"
	"godwit/engine"
)

// Handler serves a request. It returns an error only if it has sent nothing.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Route is an endpoint of a dialect.
type Route struct {
	Method, Path string // Path is in the notation of http.ServeMux
	About        string
	Do           Handler
	Request      any // wire type of the body; nil without one
	Answer       any // wire type of the response; nil if it is not JSON
	Query        []string
	Form         func(*Error) any // error form, if it differs from the dialect's; may be nil
}

// In returns the route with an error form that differs from its dialect's.
func (r Route) In(form func(*Error) any) Route {
	r.Form = form
	return r
}

// Dialect holds the endpoints of an API and the form of their errors.
type Dialect struct {
	Form func(*Error) any
	// Below lists the prefixes of the dialect's paths, including unknown paths.
	// Clients that use these paths read only this error form.
	Below  []string
	Routes []Route
}

// On returns a route.
func On(method, path, about string, do Handler, request, answer any, query ...string) Route {
	return Route{Method: method, Path: path, About: about, Do: do, Request: request, Answer: answer, Query: query}
}

// Service is the part of the server that the endpoints of a dialect need.
type Service interface {
	// Body reads the body of a request within the limits.
	Body(w http.ResponseWriter, r *http.Request) ([]byte, error)
	// Answer runs a call and sends its answer.
	Answer(w http.ResponseWriter, r *http.Request, c Call) error
	// Context returns a context that ends when the client disconnects or the
	// server stops.
	Context(r *http.Request) (context.Context, context.CancelFunc)
	// Explain converts any error to the message for the client.
	Explain(err error) *Error
	// Use runs do with a loaded model.
	Use(r *http.Request, h Head, do func(ctx context.Context, m *Model) error) error
	// Note sends the client notices about how a request was read, and logs the
	// fields that have no effect.
	Note(w http.ResponseWriter, notices Notices, unused []string)
}

// Host provides what outlives a request.
type Host interface {
	// Client identifies the sender of a request.
	Client(r *http.Request) Client
	// Defaults returns the parameters for a request that leaves them out.
	Defaults() Defaults
	// Life ends with the server.
	Life() context.Context
	// Go runs do in a goroutine. The server waits for it before it ends.
	Go(do func())
	// Whole returns the complete answer of a call.
	Whole(ctx context.Context, c Call, from Client) (any, error)
	// Send streams the answer of a call. It returns an error only if nothing was sent.
	Send(ctx context.Context, w http.ResponseWriter, c Call, from Client) error
}

// Client is the sender of a request.
type Client struct {
	Key   string      // API key; empty if the request has none or needs none
	Grant *keys.Grant // what a named key allows; nil for other clients
	Whose Whose
}

// Shelf is the list of the server's models, and the ways to change it.
type Shelf interface {
	// Models lists the models with their state.
	Models() ([]pool.Model, error)
	// Named returns the model with exactly the given name, even if one model serves
	// every name.
	Named(name string) (pool.Model, error)
	// Find returns the model for the name in a request.
	Find(name string) (hub.Model, error)
	// Unload unloads a model. It returns an error if the model is in use.
	Unload(name string) error
	// Remove removes a model from the library.
	Remove(ctx context.Context, name string) error
	// Pull downloads a model and waits for it.
	Pull(ctx context.Context, name string, progress func(hub.Progress)) (hub.Model, error)
	// Download starts to download a model in the background.
	Download(name string) (Download, error)
	// Downloads lists the downloads of this server, newest last.
	Downloads() []Download
	// Changed returns a channel that receives a value after a model or a download
	// has changed, until the context ends.
	Changed(ctx context.Context) <-chan struct{}
}

// Download is a download of a model.
type Download struct {
	ID, Name  string
	Status    string // downloading, completed, failed
	Total     int64
	Done      int64
	Speed     float64 // bytes per second
	Started   time.Time
	Completed time.Time
	Err       string // reason for a failure
	Present   bool   // whether the model already existed; no other field is set then
}

// Read reads and decodes the body of a request.
func Read(s Service, w http.ResponseWriter, r *http.Request, into any) error {
	body, err := s.Body(w, r)
	if err != nil {
		return err
	}
	return Decode(body, into)
}

// Generate is the handler of an endpoint that answers a call.
func Generate[T Call](s Service, parse func(body []byte) (T, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := s.Body(w, r)
		if err != nil {
			return err
		}
		c, err := parse(body)
		if err != nil {
			return err
		}
		return s.Answer(w, r, c)
	}
}

// WriteJSON sends a complete response.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = writePieces(w, http.NewResponseController(w), append(JSON(body), '\n')) // the client may have disconnected
}

// Timings holds the counts and times of an answer in llama-server's form.
type Timings struct {
	Cached     int `json:"cache_n"`
	CachedDisk int `json:"cache_disk_n"` // cached tokens that were on disk
	Ended
	Prompt          int     `json:"prompt_n"` // prompt tokens that were computed, because they were not in the cache
	PromptMS        float64 `json:"prompt_ms"`
	PromptPerToken  float64 `json:"prompt_per_token_ms"`
	PromptPerSecond float64 `json:"prompt_per_second"`
	Decoded         int     `json:"predicted_n"`
	DecodedMS       float64 `json:"predicted_ms"`
	PerToken        float64 `json:"predicted_per_token_ms"`
	PerSecond       float64 `json:"predicted_per_second"`
	Drafted         int     `json:"draft_n,omitempty"`          // proposed tokens that were verified
	Accepted        int     `json:"draft_n_accepted,omitempty"` // proposed tokens that became part of the answer
}

// NewTimings describes a finished answer.
func NewTimings(r *engine.Result) Timings {
	t := newTimings(r.Prompt, r.Cached, r.Completion, r.Prefill, r.Decode)
	t.CachedDisk, t.Drafted, t.Accepted, t.Ended = r.FromDisk, r.Drafted, r.Accepted, EndOf(r)
	return t
}

func newTimings(prompt, cached, decoded int, prefill, decode time.Duration) Timings {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	share := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	t := Timings{Cached: cached, Prompt: prompt - cached, PromptMS: ms(prefill), Decoded: decoded, DecodedMS: ms(decode)}
	t.PromptPerToken, t.PromptPerSecond = share(t.PromptMS, float64(t.Prompt)), share(1000*float64(t.Prompt), t.PromptMS)
	t.PerToken, t.PerSecond = share(t.DecodedMS, float64(t.Decoded)), share(1000*float64(t.Decoded), t.DecodedMS)
	return t
}

// Watch follows the events of an answer to compute the timings of its pieces.
type Watch struct {
	begun, first          time.Time
	total, cached, tokens int
}

// Progress is the progress of a prompt in llama-server's form.
type Progress struct {
	Total     int   `json:"total"`
	Cache     int   `json:"cache"`
	Processed int   `json:"processed"`
	MS        int64 `json:"time_ms"`
}

// Prefill processes an event about the prompt.
func (w *Watch) Prefill(ev *engine.Event) Progress {
	if w.begun.IsZero() {
		w.begun, w.cached = time.Now(), ev.Done
	}
	w.total = ev.Total
	return Progress{Total: ev.Total, Cache: w.cached, Processed: ev.Done, MS: time.Since(w.begun).Milliseconds()}
}

// Tokens adds generated tokens and returns the timings so far.
func (w *Watch) Tokens(n int) Timings {
	now := time.Now()
	if w.begun.IsZero() {
		w.begun = now
	}
	if w.first.IsZero() {
		w.first = now
	}
	w.tokens += n
	return newTimings(w.total, w.cached, w.tokens, w.first.Sub(w.begun), now.Sub(w.first))
}

// Quiet is an error that is not logged, because it is expected or was logged
// before. For example, programs request the server's health every second during
// a load.
type Quiet struct{ error }

// NewQuiet marks an error as quiet.
func NewQuiet(err error) Quiet { return Quiet{err} }

func (q Quiet) Unwrap() error { return q.error }

// Capabilities lists what a model can do according to its file.
func Capabilities(m *hub.Model) []string {
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

// LoadedFirst sorts loaded models to the front, then by name.
func LoadedFirst(list []pool.Model) {
	rank := func(m *pool.Model) int {
		if m.Loaded() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b pool.Model) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Name, b.Name))
	})
}

// Limit reads the query parameter limit.
func Limit(r *http.Request, standard, most int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, Bad("limit", "want a number from 1 to %d", most)
	}
	return n, nil
}
