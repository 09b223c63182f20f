package page

import (
	"net/http"
	"time"

	"godwit/app/pool"
	"godwit/app/telemetry"
)

// progress is the progress of a calibration.
type progress struct {
	Share float64 `json:"share"`  // finished share, from 0 to 1
	Left  float64 `json:"left_s"` // remaining seconds; 0 if unknown
}

// preparing is a background calibration.
type preparing struct {
	State string `json:"state" ts:"'waiting' | 'measuring' | 'done' | 'failed'"`
	progress
	Error string `json:"error,omitempty"`
}

// measured is a calibration before a load.
type measured struct {
	progress
	pace telemetry.Pace
}

// measuring records the progress of the calibration before a load.
func (p *Page) measuring(path string, share float64) {
	l := &p.library
	l.mu.Lock()
	if l.measuring == nil {
		l.measuring = map[string]*measured{}
	}
	now := l.measuring[path]
	if now == nil {
		now = &measured{}
		l.measuring[path] = now
	}
	step := int(100*share) != int(100*now.Share)
	now.Share, now.Left = share, now.pace.Left(share, time.Now()).Seconds()
	left := now.Left
	watching := l.watching(path)
	l.mu.Unlock()
	if step {
		for _, f := range watching {
			f(waiting{Phase: "measure", Done: int(1000 * share), Total: 1000, Left: left})
		}
		p.modelsChanged()
	}
}

// preparing records the progress of a background calibration.
func (p *Page) preparing(path string, q pool.Preparing) {
	l := &p.library
	l.mu.Lock()
	if l.preparing == nil {
		l.preparing = map[string]preparing{}
	}
	was, now := l.preparing[path], preparing{State: q.State, progress: progress{q.Share, q.Left.Seconds()}}
	if q.Reason != nil {
		now.Error = q.Reason.Error()
	}
	if l.preparing[path] = now; q.State == pool.Stopped {
		delete(l.preparing, path)
	}
	l.mu.Unlock()
	if was.State != now.State || int(100*was.Share) != int(100*now.Share) {
		p.modelsChanged()
	}
}

// stopPreparing stops the background calibration of a model.
func (p *Page) stopPreparing(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, err := p.named(r)
	if err == nil {
		p.models.StopPreparing(m.Path)
	}
	return nil, err
}
