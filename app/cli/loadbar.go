package cli

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"godwit/app/telemetry"
)

// loadBar shows the progress of a load and of the calibration before it. On a
// terminal it is a bar. Otherwise it logs the calibration's progress from time to
// time.
type loadBar struct {
	r    *run
	name string
	drew bool // whether the bar was drawn

	mu        sync.Mutex
	bar       *bar
	measuring bool
	pace      telemetry.Pace
	last      time.Time // time of the last log line
}

// Intervals between log lines about a calibration.
const (
	firstLine = 2 * time.Second
	nextLines = 10 * time.Second
)

// loadBar starts a bar for a model. If drawn is not set, it only logs.
func (r *run) loadBar(name string, drawn bool) *loadBar {
	b := &loadBar{r: r, name: filepath.Base(name), drew: drawn, bar: &bar{}}
	if drawn {
		b.bar = r.bar("loading", name)
	}
	return b
}

// share shows the progress of the load.
func (b *loadBar) share(s float64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.measuring {
		b.measuring = false
		b.bar.close()
		if b.drew {
			b.bar = b.r.bar("loading", b.name)
		}
	}
	return b.bar.share(s)
}

// measured shows the progress of the calibration.
func (b *loadBar) measured(s float64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.measuring {
		b.measuring = true
		b.last = now.Add(firstLine - nextLines)
		b.bar.close()
		if b.drew {
			b.bar = b.r.bar("calibrating the KV cache of", b.name)
		}
	}
	left := b.pace.Left(s, now)
	if b.bar.p == nil && now.Sub(b.last) >= nextLines {
		b.last = now
		b.r.log.Info("calibrating the KV cache", "model", b.name, "done", fmt.Sprintf("%.0f%%", 100*s), "left", left.Round(time.Second))
	}
	return b.bar.share(s)
}

func (b *loadBar) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bar.close()
}

// loadBars holds the bars of a server's models, by path.
type loadBars struct {
	r    *run
	mu   sync.Mutex
	bars map[string]*loadBar
}

// of returns the bar for a path. A new bar only logs.
func (l *loadBars) of(path string) *loadBar {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bars == nil {
		l.bars = map[string]*loadBar{}
	}
	if l.bars[path] == nil {
		l.bars[path] = l.r.loadBar(path, false)
	}
	return l.bars[path]
}
