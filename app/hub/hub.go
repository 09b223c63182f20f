// Package hub keeps the local library of models. It adds models from a hub with
// Hugging Face's API, adds the two demo models from Python packages, and links
// to files elsewhere.
//
//	lib, err := hub.Open(hub.Options{})
//	m, err := lib.Pull(ctx, "owner/repo:Q4_K_M", show)
//	m, err = lib.Find("repo-Q4_K_M")
//
// A download is written to a .part file. After an interruption or a restart,
// pulling the same name resumes the download. The file gets its final name only
// if its SHA-256 is right. Cancelling the context pauses a download.
package hub

import (
	"context"
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

// Classes of errors. An error adds advice for the user to its class.
var (
	ErrNotFound = errors.New("no such model")
	ErrName     = errors.New("not a model name")
	ErrExists   = errors.New("already in the library")
	ErrBusy     = errors.New("already being downloaded")
	ErrAuth     = errors.New("the hub refused access")
	ErrLimited  = errors.New("the hub limits requests")
	ErrServer   = errors.New("the hub reported an error")
	ErrNetwork  = errors.New("the connection to the hub broke")
	ErrBlocked  = errors.New("address not allowed")
	ErrSize     = errors.New("wrong size")
	ErrFile     = errors.New("no model can be read from this file")
	ErrDigest   = fetch.ErrDigest
	ErrSpace    = errors.New("not enough disk space")
	ErrOff      = errors.New("downloads are off (setting library.downloads)")
)

// DefaultURL is the hub's URL unless Options set another.
const DefaultURL = "https://huggingface.co"

// Options configures a Library. The zero value works.
type Options struct {
	Dir          string   // model folder; if empty, the folder models in Home
	Folders      []string // other folders, whose models are listed but never changed
	URL          string   // base URL of the hub; if empty, DefaultURL
	Token        string   // token that is sent only to the hub's own host
	AllowHTTP    bool     // allows plain http
	AllowPrivate bool     // allows addresses of local networks
	NoDownloads  bool     // no connections to a hub at first; see Allow
	MaxBytes     int64    // maximum size of a downloaded file; 0 selects 1 TiB
	Log          *slog.Logger

	// Removed is called with the path of a model's first file when the last
	// model with that file has been removed; nil if there is no such function.
	Removed func(ctx context.Context, path string) error
}

// Home returns the folder for Godwit's data; see fetch.Home.
func Home() (string, error) { return fetch.Home() }

// Library is the model folder and the connection to the hub. Its methods are safe
// for concurrent use, and several processes may share a folder.
type Library struct {
	dir  string
	max  int64
	log  *slog.Logger
	o    Options
	from atomic.Pointer[source]
	off  atomic.Bool // no downloads and no search

	// Tests replace these functions and pauses. The functions create the file
	// that a download writes to, return the free disk space, and extract a model
	// from packages.
	create func(root *os.Root, name string) (partFile, error)
	free   func(dir string) (int64, error)
	demo   demoFetcher
	pause  time.Duration
	stall  time.Duration
}

// Open prepares a library. It reads no files and makes no connections.
func Open(o Options) (*Library, error) {
	if o.Dir == "" {
		home, err := Home()
		if err != nil {
			return nil, fmt.Errorf("there is no folder for models; set GODWIT_HOME: %w", err)
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
	l.off.Store(o.NoDownloads)
	return l, l.Change(o.Folders, o.URL, o.Token)
}

// source holds the settings for models from outside the model folder.
type source struct {
	folders []string
	hub     *client
}

// Change sets other folders, another hub URL and another token. A download in
// progress continues from its old hub. An empty URL selects DefaultURL. If
// Change fails, nothing is changed.
func (l *Library) Change(folders []string, address, token string) error {
	if address == "" {
		address = DefaultURL
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return fmt.Errorf("%w: hub address %q; want one such as %s", ErrName, address, DefaultURL)
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

// Allow turns connections to hubs on or off. If they are off, Search and downloads
// return ErrOff. A download in progress continues.
func (l *Library) Allow(downloads bool) { l.off.Store(!downloads) }

// Allowed returns ErrOff if connections to hubs are off.
func (l *Library) Allowed() error {
	if l.off.Load() {
		return ErrOff
	}
	return nil
}

// RepoURL returns the web page of a repository on the hub.
func (l *Library) RepoURL(id string) string { return l.hub().base.JoinPath(id).String() }

func (l *Library) hub() *client { return l.from.Load().hub }

// Dir returns the model folder.
func (l *Library) Dir() string { return l.dir }

// Close drops idle connections.
func (l *Library) Close() error {
	l.hub().http.CloseIdleConnections()
	return nil
}

// Progress is the progress of a Pull.
type Progress struct {
	Name  string  `json:"name"`  // requested name
	File  string  `json:"file"`  // file in progress
	Phase Phase   `json:"phase"` // current phase
	Done  int64   `json:"done"`  // finished bytes of all files of the model
	Total int64   `json:"total"` // size of all files of the model
	Speed float64 `json:"speed"` // current speed in bytes per second; 0 if unknown
}

// Phase is a step of a Pull.
type Phase string

// Phases of a Pull, in order.
const (
	PhaseCheck    Phase = "check" // reads existing files
	PhaseDownload Phase = "download"
	PhaseDone     Phase = "done"
)

// ETA returns the estimated remaining time, or 0 if unknown.
func (p Progress) ETA() time.Duration {
	if p.Speed <= 0 {
		return 0
	}
	return time.Duration(float64(p.Total-p.Done) / p.Speed * float64(time.Second))
}
