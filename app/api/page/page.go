// Package page is what the built page talks to: endpoints below /app/ for chats,
// models, downloads, settings and the cache panel, and one long stream of events
// a window. They need a random token that the page reads from /app/config.json,
// which other web pages cannot read.
//
//	p, err := page.New(models, page.Options{Store: chats, Library: files, Settings: live, …})
//	server.Mount(page.Path, p, page.Keyless)
//
// Answers belong to the server, not to the window that asked: they continue when it
// closes, and any window can follow them.
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
	"godwit/engine"
)

// Native is what only a window can do.
type Native interface {
	// PickFiles asks for model files; none where the person thinks better of it.
	PickFiles(ctx context.Context) ([]string, error)
	// PickFolder asks for a folder, empty for none.
	PickFolder(ctx context.Context) (string, error)
	// SaveFile asks where to save a file of that name, empty for nowhere.
	SaveFile(ctx context.Context, name string) (string, error)
	Reveal(path string) error
	Open(url string) error
	Focus()
}

// Options of a Page. Store, Library, Settings and Engine are needed.
type Options struct {
	Store    *store.Store
	Library  *hub.Library
	Settings *config.Live
	Engine   func(*config.Engine) (engine.Options, error)
	Model    *hub.Model // one that lies outside of the library; nil: none
	Version  string
	Log      *slog.Logger             // nil: none
	LogFile  string                   // shown in diagnostics; empty: none
	Level    func(level string) error // changes the level of the log; nil: cannot
	Native   Native                   // nil: outside of the window
	Lab      Lab                      // nil: nothing can be measured
	Notices  []string                 // what went wrong before the page was there
}

// models lends models; *pool.Pool does.
type models interface {
	Acquire(ctx context.Context, m hub.Model, terms pool.Terms) (*pool.Lease, error)
	Standing(path string) pool.Standing
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
	closing sync.RWMutex // held for writing while Close looks at work
	saving  sync.Mutex   // one change of the settings at a time

	library   library
	downloads downloads
	answers   answers
	held      held
	notices   notices
	lab       lab
	bandwidth bandwidth
}

// New makes the handler of a page for a pool's models.
func New(models *pool.Pool, o Options) (*Page, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Page{o: o, log: o.Log, models: models, token: rand.Text()}
	p.ctx, p.stop = context.WithCancel(context.Background())
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

// Token is what requests have to bear.
func (p *Page) Token() string { return p.token }

// Close ends the answers, keeps what there is of them, and saves the states of
// chats. It is called before the models are unloaded.
func (p *Page) Close() error {
	p.closing.Lock()
	p.stop()
	p.closing.Unlock()
	p.work.Wait()
	return p.saveHeld(context.Background(), "")
}

// spawn runs f in a goroutine that Close waits for. After Close nothing runs.
func (p *Page) spawn(f func()) bool {
	p.closing.RLock()
	defer p.closing.RUnlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.work.Go(f)
	return true
}

// reload returns the engine's options as the settings are now.
func (p *Page) reload() (engine.Options, error) {
	s, err := p.o.Settings.Settings()
	if err != nil {
		return engine.Options{}, err
	}
	return p.o.Engine(&s.Engine)
}

// Path is what the handler of a page is mounted at.
const Path = "/app/"

// Keyless reports whether a path below Path needs no API key: the endpoints check a
// token of their own, which is read with a key.
func Keyless(path string) bool { return path != configPath }

// ServeHTTP checks the token and answers. Host and Origin have been checked.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != configPath && !p.trusted(r) {
		fail(w, &refusal{http.StatusForbidden, "wrong_token", "this request does not come from the page of this run of Godwit; load the page again"})
		return
	}
	p.mux.ServeHTTP(w, r)
}

func (p *Page) trusted(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) == 1
}

// notice is a line that stays on the page until somebody takes it away.
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

// say puts a notice on every page.
func (p *Page) say(level, text string) {
	p.notices.add(level, text)
	p.noticesChanged()
}

func (p *Page) noticesChanged() {
	p.events.publish("notices", "notices", latest(func() any { return p.notices.all() }))
}

// The errors of a run that ends.
var (
	errStopped = errors.New("stopped") // cancelled by a person
	errClosing = errors.New("the program is closing")
)
