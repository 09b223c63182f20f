// Package page serves the endpoints of the built page: chats, models, downloads,
// settings and the cache panel below /app/, and one event stream per window.
// Requests need a random token, which the page reads from /app/config.json. Other
// web pages cannot read it.
//
//	p, err := page.New(models, page.Options{Store: chats, Library: files, Settings: live, …})
//	server.Mount(page.Path, p, page.Keyless)
//
// Answers belong to the server, not to the window that requested them. They
// continue when that window closes, and any window can follow them.
package page

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/app/store"
	"godwit/app/tune"
	"godwit/engine"
)

// Native provides what only a window can do.
type Native interface {
	// PickFiles asks the user for model files. It returns none if the user cancels.
	PickFiles(ctx context.Context) ([]string, error)
	// PickFolder asks the user for a folder. It returns "" if the user cancels.
	PickFolder(ctx context.Context) (string, error)
	// SaveFile asks the user where to save a file with the given name. It returns
	// "" if the user cancels.
	SaveFile(ctx context.Context, name string) (string, error)
	Reveal(path string) error
	Open(url string) error
	Focus()
}

// Options configures a Page. Store, Library, Settings and Engine are required.
type Options struct {
	Store    *store.Store
	Library  *hub.Library
	Settings *config.Live
	Engine   func(*config.Engine) (engine.Options, error)
	Tuned    *tune.Book // settings of individual models; may be nil
	Model    *hub.Model // a model outside the library; nil without one
	Version  string
	Log      *slog.Logger             // nil to log nothing
	LogFile  string                   // path shown in diagnostics; empty without one
	Level    func(level string) error // changes the log level; nil if that is not possible
	Native   Native                   // nil outside a window
	Lab      Lab                      // nil if nothing can be measured
	Notices  []string                 // problems that were found before the page existed
}

// models leases models. It is implemented by *pool.Pool.
type models interface {
	Acquire(ctx context.Context, m hub.Model, terms pool.Terms) (*pool.Lease, error)
	Borrow(path string, wanted func()) *pool.Lease
	Standing(path string) pool.Standing
	EraseText(ctx context.Context, keys []engine.PrefixKey) error
	StopLoad(path string) bool
	StopPreparing(path string)
	Unload(path string) error
}

// Page is the handler of /app/.
type Page struct {
	o       Options
	log     *slog.Logger
	token   string
	mux     *http.ServeMux
	models  models
	events  broadcaster
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	closing sync.RWMutex // locked for writing while Close waits for running work
	saving  sync.Mutex   // allows one change of the settings at a time

	library   library
	downloads downloads
	answers   answers
	titles    titles
	notices   notices
	lab       lab
	private   private
	bandwidth bandwidth
}

// New returns the handler of a page for a pool's models.
func New(models *pool.Pool, o Options) (*Page, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Page{o: o, log: o.Log, models: models, token: rand.Text()}
	p.ctx, p.stop = context.WithCancel(context.Background())
	if err := p.private.open(); err != nil {
		return nil, err
	}
	for _, text := range o.Notices {
		p.notices.add("error", text)
	}
	if err := p.downloads.init(o.Library); err != nil {
		p.notices.add("warning", err.Error())
	}
	p.routes()
	o.Settings.OnChange(p.apply)
	models.Watch(p.watcher())
	return p, nil
}

// Token returns the token that requests must contain.
func (p *Page) Token() string { return p.token }

// Close stops the answers, stores their text so far, and deletes the private chats. It must be called before the
// models are unloaded.
func (p *Page) Close() error {
	p.closing.Lock()
	p.stop()
	p.closing.Unlock()
	p.work.Wait()
	return p.private.close()
}

// spawn runs f in a goroutine that Close waits for. After Close it runs nothing.
func (p *Page) spawn(f func()) bool {
	p.closing.RLock()
	defer p.closing.RUnlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.work.Go(f)
	return true
}

// reload returns the engine's options for a load of the model at a path with
// the current settings. The path is empty if no particular model is meant.
func (p *Page) reload(path string) (engine.Options, error) {
	s, err := p.o.Settings.Settings()
	if err != nil {
		return engine.Options{}, err
	}
	return p.options(path, &s)
}

// options returns the engine's options for a load of the model at a path.
func (p *Page) options(path string, s *config.Settings) (engine.Options, error) {
	e := s.Engine
	p.o.Tuned.Load(path, &e)
	return p.o.Engine(&e)
}

// Path is the path at which the page's handler is mounted.
const Path = "/app/"

// Keyless reports whether a path below Path needs no API key. The endpoints
// check the page's token instead, and reading that token needs a key.
func Keyless(path string) bool { return path != configPath }

// ServeHTTP checks the token and serves the request. Host and Origin have already
// been checked.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != configPath && !p.trusted(r) {
		fail(w, refuse(http.StatusForbidden, "wrong_token", textWrongToken))
		return
	}
	p.mux.ServeHTTP(w, r)
}

func (p *Page) trusted(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) == 1
}

// notice is a line that stays on the page until the user closes it.
type notice struct {
	ID    string `json:"id"`
	Level string `json:"level" ts:"'info' | 'warning' | 'error'"`
	Text  string `json:"text"`
}

type notices struct {
	mu   sync.Mutex
	list []notice
	next int
}

func (n *notices) add(level, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next++
	n.list = append(n.list, notice{fmt.Sprint(n.next), level, text})
}

func (n *notices) all() []notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]notice{}, n.list...)
}

func (n *notices) drop(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = slices.DeleteFunc(n.list, func(x notice) bool { return x.ID == id })
}

// say shows a notice on every page.
func (p *Page) say(level, text string) {
	p.notices.add(level, text)
	p.noticesChanged()
}

func (p *Page) noticesChanged() {
	p.events.publish("notices", "notices", latest(func() any { return p.notices.all() }))
}

// Reasons why a run ended.
var (
	errStopped = errors.New("stopped") // the user stopped the run
	errClosing = errors.New(textClosing)
)
