package page

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/app/hub"
)

// download is a download in the page's form.
type download struct {
	Ref   string  `json:"ref"`
	File  string  `json:"file"`
	Phase string  `json:"phase,omitempty"`
	Done  int64   `json:"done"`
	Total int64   `json:"total"`
	Speed float64 `json:"speed"`                                               // bytes per second
	State string  `json:"state" ts:"'running' | 'paused' | 'failed' | 'done'"` // running, paused, failed
	Error string  `json:"error,omitempty"`
}

// The states of a download.
const (
	running = "running"
	paused  = "paused"
	failed  = "failed"
)

type downloads struct {
	mu   sync.Mutex
	all  []*transfer
	last time.Time // time at which windows were last notified
}

type transfer struct {
	download
	cancel context.CancelFunc // nil unless the download is running
	ended  chan struct{}
}

// init finds unfinished downloads of earlier runs.
func (d *downloads) init(l *hub.Library) error {
	left, err := l.Downloads()
	for _, x := range left {
		if t := d.of(x.Ref); t != nil { // this is another file of the same model
			t.Done, t.Total = t.Done+x.Done, t.Total+x.Size
			continue
		}
		d.all = append(d.all, &transfer{download: download{Ref: x.Ref, File: x.File, Done: x.Done, Total: x.Size, State: paused}})
	}
	return err
}

func (d *downloads) of(ref string) *transfer {
	for _, t := range d.all {
		if strings.EqualFold(t.Ref, ref) {
			return t
		}
	}
	return nil
}

func (d *downloads) list() []download {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]download, len(d.all))
	for i, t := range d.all {
		list[i] = t.download
	}
	return list
}

func (p *Page) downloadsChanged() {
	p.events.publish("downloads", "downloads", latest(func() any { return p.downloads.list() }))
}

func (p *Page) searchHub(_ http.ResponseWriter, r *http.Request) (any, error) {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	if query == "" {
		return nil, bad(textSearchTerm)
	}
	repos, err := p.find(r.Context(), query)
	if err != nil {
		return nil, err
	}
	out := make([]found, 0, len(repos))
	machine := p.machine()
	for _, repo := range repos {
		f := found{Repo: repo, URL: p.o.Library.RepoURL(repo.ID)}
		for _, m := range repo.Models {
			f.Models = append(f.Models, file{m, fit(m.Size, machine)})
		}
		out = append(out, f)
	}
	return map[string]any{"repos": out, "memory": machine.Memory, "free": machine.Free}, nil
}

// find gets a repository from the hub by its name, or searches for
// repositories.
func (p *Page) find(ctx context.Context, query string) ([]hub.Repo, error) {
	if ref, err := hub.ParseRef(query); err == nil {
		repo, err := p.o.Library.Repo(ctx, ref.ID())
		if err == nil {
			return []hub.Repo{repo}, nil
		}
		if !errors.Is(err, hub.ErrNotFound) {
			return nil, err
		}
	}
	return p.o.Library.Search(ctx, query, 20)
}

// found is a repository with a rating of each file.
type found struct {
	hub.Repo
	URL    string `json:"url"` // address of the repository's web page on the hub
	Models []file `json:"models" ts:"HubFile[] | null"`
}

type file struct {
	hub.RepoModel
	Fit string `json:"fit" ts:"'fits' | 'tight' | 'large' | 'unknown'"` // fits, tight, large, unknown
}

// needs returns the memory for a file: twice its size, because of the cache and the
// computation, or its size plus 1 GiB if that is less.
func needs(size int64) int64 { return size + min(size, 1<<30) }

// fit rates whether a file can run on this machine.
func fit(size int64, m machine) string {
	need := needs(size)
	switch {
	case m.Memory == 0 || size == 0:
		return "unknown"
	case need <= m.Free:
		return "fits"
	case need <= m.Memory:
		return "tight"
	}
	return "large"
}

func (p *Page) startDownload(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Ref string `json:"ref"`
	}
	if err := read(w, r, smallBody, &q); err != nil {
		return nil, err
	}
	if q.Ref == "" {
		return nil, bad(textDownloadName)
	}
	if err := hub.CheckName(q.Ref); err != nil {
		return nil, err
	}
	return nil, p.pull(q.Ref)
}

// pull starts or continues a download.
func (p *Page) pull(ref string) error {
	if err := p.o.Library.Allowed(); err != nil {
		return err
	}
	p.downloads.mu.Lock()
	defer p.downloads.mu.Unlock()
	t := p.downloads.of(ref)
	if t == nil {
		t = &transfer{download: download{Ref: ref}}
		p.downloads.all = append(p.downloads.all, t)
	}
	if t.cancel != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(p.ctx)
	t.State, t.Error, t.Speed = running, "", 0
	t.cancel, t.ended = cancel, make(chan struct{})
	if !p.spawn(func() { p.fetch(ctx, t) }) {
		cancel()
		close(t.ended)
		t.State, t.cancel = paused, nil
		return errClosing
	}
	p.downloadsChanged()
	return nil
}

func (p *Page) fetch(ctx context.Context, t *transfer) {
	defer close(t.ended)
	m, err := p.o.Library.Pull(ctx, t.Ref, func(q hub.Progress) {
		p.downloads.mu.Lock()
		t.File, t.Phase, t.Done, t.Total, t.Speed = q.File, string(q.Phase), q.Done, q.Total, q.Speed
		due := time.Since(p.downloads.last) > 200*time.Millisecond
		if due {
			p.downloads.last = time.Now()
		}
		p.downloads.mu.Unlock()
		if due {
			p.downloadsChanged()
		}
	})
	stopped := ctx.Err() != nil
	if err == nil { // the model must be in the list before its download disappears
		p.log.Info("downloaded", "model", m.Name, "bytes", m.Size)
		if err := p.refreshed(); err != nil {
			p.say("error", err.Error())
		}
	}
	p.downloads.mu.Lock()
	t.cancel()
	t.cancel, t.Speed = nil, 0
	switch {
	case err == nil:
		p.downloads.all = slices.DeleteFunc(p.downloads.all, func(x *transfer) bool { return x == t })
	case stopped:
		t.State = paused
	default:
		t.State, t.Error = failed, err.Error()
	}
	p.downloads.mu.Unlock()
	p.downloadsChanged()
	if err == nil {
		p.events.publish("arrived", "arrived/"+m.Name, map[string]string{"name": m.Name})
	}
}

// halt stops the download that the request names, and returns its name.
func (p *Page) halt(w http.ResponseWriter, r *http.Request) (string, error) {
	var q struct {
		Ref string `json:"ref"`
	}
	if err := read(w, r, smallBody, &q); err != nil {
		return "", err
	}
	p.downloads.mu.Lock()
	t := p.downloads.of(q.Ref)
	var ended chan struct{}
	if t != nil && t.cancel != nil {
		t.cancel()
		ended = t.ended
	}
	p.downloads.mu.Unlock()
	if t == nil {
		return "", of(hub.ErrNotFound, textNoDownload, q.Ref)
	}
	if ended != nil {
		<-ended
	}
	return t.Ref, nil
}

func (p *Page) pauseDownload(w http.ResponseWriter, r *http.Request) (any, error) {
	_, err := p.halt(w, r)
	return nil, err
}

func (p *Page) discardDownload(w http.ResponseWriter, r *http.Request) (any, error) {
	ref, err := p.halt(w, r)
	if err != nil {
		return nil, err
	}
	if err := p.o.Library.Discard(ref); err != nil && !errors.Is(err, hub.ErrNotFound) {
		return nil, err
	}
	p.downloads.mu.Lock()
	p.downloads.all = slices.DeleteFunc(p.downloads.all, func(x *transfer) bool { return x.Ref == ref })
	p.downloads.mu.Unlock()
	p.downloadsChanged()
	return nil, nil
}
