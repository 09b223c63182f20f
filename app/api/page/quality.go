package page

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"godwit/app/config"
	"godwit/app/hub"
)

// Lab measures how cache types affect a model's quality. The creator of the page
// provides it.
type Lab interface {
	// Known returns earlier measurements of this program on a model.
	Known(m hub.Model, c *config.Engine) (*Quality, error)
	// Recommend measures pairs of types from the smallest up until one keeps the
	// quality, and returns the results. It opens the model itself.
	Recommend(ctx context.Context, m hub.Model, c *config.Engine, tell func(Step)) (*Quality, error)
}

// Quality holds the measurements of cache types on a model.
type Quality struct {
	Pairs []Measured `json:"pairs"` // measured pairs of types, f16 first
	Best  *Choice    `json:"best"`  // last recommendation; nil before the first one
}

// Measured is a comparison of a pair of types with f16. A value is missing if
// it was not measured or the model is too small for the task.
type Measured struct {
	K              string   `json:"k"`
	V              string   `json:"v"`
	KLD            *float64 `json:"kld"`        // mean divergence in nats
	KLDError       float64  `json:"kld_stderr"` // standard error of the mean
	Agreement      *float64 `json:"agreement"`  // share of tokens that are the same as with f16
	AgreementError float64  `json:"agreement_stderr"`
	Copy           *float64 `json:"copy"` // share of texts that were copied exactly
}

// Choice is a recommendation.
type Choice struct {
	K       string `json:"k"`
	V       string `json:"v"`
	Bytes   int64  `json:"bytes"`
	Context int    `json:"ctx"`
	Found   bool   `json:"found"`
}

// Step is the progress of a measurement.
type Step struct {
	Doing string        // current task and pair
	Share float64       // finished share of the whole measurement, from 0 to 1
	Left  time.Duration // estimated remaining time
}

// measuring is the state of a measurement as it is sent to windows.
type measuring struct {
	Model string  `json:"model"`
	State string  `json:"state" ts:"'running' | 'done' | 'cancelled' | 'failed'"` // running, done, cancelled or failed
	Doing string  `json:"doing,omitempty"`
	Share float64 `json:"share"`
	Left  float64 `json:"left_s"`
	Error string  `json:"error,omitempty"`
}

// lab holds the running measurement.
type lab struct {
	mu     sync.Mutex
	now    *measuring // nil if nothing is measured
	cancel context.CancelFunc
}

// quality returns the measurements of a model and the running measurement.
func (p *Page) quality(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, c, err := p.measurable(r.URL.Query().Get("model"))
	if err != nil {
		return nil, err
	}
	known, err := p.o.Lab.Known(m, c)
	if err != nil {
		return nil, err
	}
	p.lab.mu.Lock()
	defer p.lab.mu.Unlock()
	return struct {
		*Quality
		Measuring *measuring `json:"measuring"`
	}{known, p.lab.now}, nil
}

// measurable returns a model that can be measured, with the settings for it.
func (p *Page) measurable(name string) (hub.Model, *config.Engine, error) {
	if p.o.Lab == nil {
		return hub.Model{}, nil, refuse(http.StatusNotImplemented, "no_lab", textNoLab)
	}
	m, err := p.modelFor(name)
	if err != nil {
		return m, nil, err
	}
	s, err := p.o.Settings.Settings()
	return m, &s.Engine, err
}

// startQuality starts the search for the smallest pair that keeps the quality. It
// unloads the model, because the lab loads it once for each pair.
func (p *Page) startQuality(w http.ResponseWriter, r *http.Request) (any, error) {
	var q struct {
		Model string `json:"model"`
	}
	if err := read(w, r, smallBody, &q); err != nil {
		return nil, err
	}
	m, c, err := p.measurable(q.Model)
	if err != nil {
		return nil, err
	}
	ctx, err := p.lab.begin(p.ctx, m.Name)
	if err != nil {
		return nil, err
	}
	p.models.StopPreparing(m.Path)
	if err := p.models.Unload(m.Path); err != nil {
		p.lab.end()
		return nil, err
	}
	if !p.spawn(func() { p.runQuality(ctx, m, c) }) {
		p.lab.end()
		return nil, errClosing
	}
	return nil, nil
}

// begin records a measurement and returns its context, unless another one is
// running.
func (l *lab) begin(ctx context.Context, model string) (context.Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		return nil, refuse(http.StatusConflict, "measuring", textMeasuring, l.now.Model)
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.now = &measuring{Model: model, State: "running"}
	return ctx, nil
}

// end removes the measurement.
func (l *lab) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
	l.now = nil
}

func (p *Page) runQuality(ctx context.Context, m hub.Model, c *config.Engine) {
	last := measuring{Model: m.Name, State: "running"}
	_, err := p.o.Lab.Recommend(ctx, m, c, func(s Step) {
		last.Doing, last.Share, last.Left = s.Doing, s.Share, s.Left.Seconds()
		p.tellQuality(last)
	})
	switch {
	case errors.Is(err, context.Canceled):
		last.State = "cancelled"
	case err != nil:
		last.State, last.Error = "failed", err.Error()
	default:
		last.State, last.Share = "done", 1
	}
	p.tellQuality(last)
}

// tellQuality records the progress of the measurement and sends it to all windows.
func (p *Page) tellQuality(m measuring) {
	p.lab.mu.Lock()
	if p.lab.now = &m; m.State != "running" {
		p.lab.cancel()
		p.lab.now = nil
	}
	p.lab.mu.Unlock()
	p.events.publish("quality", "quality", m)
}

func (p *Page) cancelQuality(http.ResponseWriter, *http.Request) (any, error) {
	p.lab.mu.Lock()
	defer p.lab.mu.Unlock()
	if p.lab.now != nil {
		p.lab.cancel()
	}
	return nil, nil
}
