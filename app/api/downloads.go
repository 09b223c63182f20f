package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/app/api/wire"
	"godwit/app/hub"
)

// maxDownloads bounds the downloads that a server remembers, and maxRunning those
// that run at the same time.
const (
	maxDownloads = 64
	maxRunning   = 4
)

// stocks are what clients have set and begun beside their answers.
type stocks struct {
	downloads downloads
	changes   changes
}

// downloads are the downloads that clients have begun.
type downloads struct {
	mu   sync.Mutex
	list []*wire.Download
}

// Download begins to download a model in the background.
func (v service) Download(name string) (wire.Download, error) {
	s := v.s
	if s.pool.Library() == nil {
		return wire.Download{}, wire.Fault(http.StatusNotImplemented, wire.Unsupported, "this server has no library")
	}
	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "https://huggingface.co/"), "hf.co/"), ":latest")
	if m, err := s.pool.Named(name); err == nil {
		return wire.Download{Name: m.Name, Status: "already_downloaded", Present: true}, nil
	}
	if err := hub.CheckName(name); err != nil {
		return wire.Download{}, hubFault(err)
	}
	d := &wire.Download{ID: wire.ID("job_"), Name: name, Status: "downloading", Started: time.Now()}
	if err := s.downloads.begin(d); err != nil {
		return wire.Download{}, err
	}
	first := *d
	s.changes.tell()
	s.work.Go(func() {
		_, err := s.pool.Library().Pull(s.ctx, name, func(p hub.Progress) { s.progress(d, p) })
		s.downloads.mu.Lock()
		d.Status, d.Completed, d.Speed = "completed", time.Now(), 0
		if err != nil {
			d.Status, d.Completed, d.Err = "failed", time.Time{}, hubFault(err).Error()
		}
		s.downloads.mu.Unlock()
		s.changes.tell()
		if err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("download failed", "model", name, "err", err)
		}
	})
	return first, nil
}

// begin adds a download, and forgets the oldest that has ended where there are many.
func (d *downloads) begin(job *wire.Download) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	running := 0
	for _, x := range d.list {
		if x.Status != "downloading" {
			continue
		}
		if running++; strings.EqualFold(x.Name, job.Name) {
			return wire.Fault(http.StatusConflict, wire.Invalid, "%s is being downloaded already", x.Name)
		}
	}
	if running >= maxRunning {
		return wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%d models are being downloaded already", running)
	}
	if len(d.list) >= maxDownloads {
		if i := slices.IndexFunc(d.list, func(x *wire.Download) bool { return x.Status != "downloading" }); i >= 0 {
			d.list = slices.Delete(d.list, i, i+1)
		}
	}
	d.list = append(d.list, job)
	return nil
}

func (s *Server) progress(d *wire.Download, p hub.Progress) {
	s.downloads.mu.Lock()
	d.Total, d.Done = cmp.Or(p.Total, d.Total), max(p.Done, d.Done)
	if span := time.Since(d.Started).Seconds(); span > 0 {
		d.Speed = float64(d.Done) / span
	}
	s.downloads.mu.Unlock()
	s.changes.tell()
}

// Downloads lists the downloads.
func (v service) Downloads() []wire.Download {
	v.s.downloads.mu.Lock()
	defer v.s.downloads.mu.Unlock()
	out := make([]wire.Download, len(v.s.downloads.list))
	for i, d := range v.s.downloads.list {
		out[i] = *d
	}
	return out
}

// changes tells listeners that something has changed, without blocking.
type changes struct {
	mu   sync.Mutex
	open map[chan struct{}]bool
}

func (c *changes) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.open {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// listen returns a channel that receives after every change, and is closed when
// one of the contexts ends.
func (c *changes) listen(ctxs ...context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[chan struct{}]bool{}
	}
	c.open[ch] = true
	for _, ctx := range ctxs {
		context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.open[ch] {
				delete(c.open, ch)
				close(ch)
			}
		})
	}
	return ch
}
