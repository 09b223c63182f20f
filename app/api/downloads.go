package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"godwit/app/api/wire"
)

// maxDownloads limits the downloads that a server remembers. maxRunning limits
// the downloads that run at the same time.
const (
	maxDownloads = 64
	maxRunning   = 4
)

// stocks holds the downloads that clients have started, and the listeners for
// changes.
type stocks struct {
	downloads downloads
	changes   changes
}

// downloads lists the downloads that clients have started.
type downloads struct {
	mu   sync.Mutex
	list []*wire.Download
}

// begin adds a download. If there are too many, it removes the oldest finished
// one.
func (d *downloads) begin(job *wire.Download) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	running := 0
	for _, x := range d.list {
		if x.Status != "downloading" {
			continue
		}
		if running++; strings.EqualFold(x.Name, job.Name) {
			return wire.Fault(http.StatusConflict, wire.Invalid, "%s is already being downloaded", x.Name)
		}
	}
	if running >= maxRunning {
		return wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "%d models are already being downloaded, which is the limit", running)
	}
	if len(d.list) >= maxDownloads {
		if i := slices.IndexFunc(d.list, func(x *wire.Download) bool { return x.Status != "downloading" }); i >= 0 {
			d.list = slices.Delete(d.list, i, i+1)
		}
	}
	d.list = append(d.list, job)
	return nil
}

// changes notifies listeners of a change without blocking.
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

// listen returns a channel that receives a value after every change. The channel is
// closed when one of the contexts ends.
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
