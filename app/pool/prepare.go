package pool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"godwit/app/telemetry"
	"godwit/engine"
)

// Preparing describes a background calibration. The next load of the model uses it.
type Preparing struct {
	State  string  // measuring, waiting, done, failed or stopped
	Share  float64 // finished share, from 0 to 1
	Left   time.Duration
	Reason error // cause of a failure
}

// The states of a background calibration.
const (
	Measuring = "measuring"
	Waiting   = "waiting" // waits until an answer or a load has ended
	Prepared  = "done"
	Unready   = "failed"
	Stopped   = "stopped" // the user stopped it; the next load starts it again
)

// preparer runs the calibrations that loads have postponed. It runs one at a
// time, and only while no model is in use.
type preparer struct {
	ctx     context.Context
	busy    func() bool
	tell    func(path string, p Preparing)
	log     *slog.Logger
	measure func(ctx context.Context, path string, o engine.Options, progress func(float64) error) error
	work    sync.WaitGroup
	rest    time.Duration // idle time before a calibration begins
	look    time.Duration // interval between checks whether a model is in use

	mu     sync.Mutex
	queue  []prepared
	now    string             // path of the model being measured
	cancel context.CancelFunc // cancels the calibration; nil if nothing is measured
	idle   chan struct{}      // closed when the current calibration has ended
}

type prepared struct {
	path    string
	options engine.Options
}

// Intervals of a preparer.
const (
	prepareRest = 3 * time.Second
	prepareLook = 100 * time.Millisecond
)

func (p *preparer) init(ctx context.Context, busy func() bool, tell func(string, Preparing), log *slog.Logger) {
	p.ctx, p.busy, p.tell, p.log = ctx, busy, tell, log
	p.measure, p.rest, p.look = engine.CalibrateFile, prepareRest, prepareLook
	if p.tell == nil {
		p.tell = func(string, Preparing) {}
	}
}

// add queues a model that was loaded with the given options. The model is measured
// once, even if it is loaded again in the meantime.
func (p *preparer) add(path string, o engine.Options) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.queue {
		if p.queue[i].path == path {
			p.queue[i].options = o
			return
		}
	}
	if p.now == path || p.ctx.Err() != nil {
		return
	}
	p.queue = append(p.queue, prepared{path, o})
	if p.cancel == nil {
		p.next()
	}
}

// next starts the first calibration in the queue. The caller holds p.mu.
func (p *preparer) next() {
	if len(p.queue) == 0 || p.ctx.Err() != nil {
		p.now, p.cancel = "", nil
		return
	}
	q := p.queue[0]
	p.queue = p.queue[1:]
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(p.ctx)
	p.now, p.idle = q.path, make(chan struct{})
	p.work.Add(1)
	go p.run(ctx, q, p.cancel, p.idle)
}

func (p *preparer) run(ctx context.Context, q prepared, cancel context.CancelFunc, idle chan struct{}) {
	defer p.work.Done()
	defer cancel()
	err := p.prepare(ctx, q)
	end := Preparing{State: Prepared, Share: 1}
	switch {
	case errors.Is(err, context.Canceled):
		end = Preparing{State: Stopped}
	case err != nil:
		end = Preparing{State: Unready, Reason: err}
		p.log.Warn("calibration stopped", "model", q.path, "err", err)
	default:
		p.log.Info("calibration finished, used by the next load", "model", q.path)
	}
	p.mu.Lock()
	p.next()
	p.mu.Unlock()
	close(idle)
	p.tell(q.path, end)
}

// prepare measures a calibration while no model is in use.
func (p *preparer) prepare(ctx context.Context, q prepared) error {
	var pace telemetry.Pace
	last := Preparing{State: Waiting}
	p.tell(q.path, last)
	if err := p.quiet(ctx, p.rest, nil); err != nil {
		return err
	}
	p.log.Info("calibrating in the background", "model", q.path)
	return p.measure(ctx, q.path, q.options, func(share float64) error {
		err := p.quiet(ctx, 0, func(waited time.Duration) {
			if waited == 0 {
				p.tell(q.path, Preparing{State: Waiting, Share: share, Left: last.Left})
				return
			}
			pace.Rest(waited)
		})
		last = Preparing{State: Measuring, Share: share, Left: pace.Left(share, time.Now())}
		p.tell(q.path, last)
		return err
	})
}

// quiet waits until no model has been in use for a while. If waits is not nil,
// it is called with 0 when the wait begins, and with the duration when the wait
// ends.
func (p *preparer) quiet(ctx context.Context, rest time.Duration, waits func(time.Duration)) error {
	start := time.Now()
	since, waited := start, false
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.busy() {
			if since = time.Now(); !waited && waits != nil {
				waits(0)
			}
			waited = true
			if rest == 0 {
				rest = p.rest // another answer may follow
			}
		} else if time.Since(since) >= rest {
			break
		}
		select {
		case <-time.After(p.look):
		case <-ctx.Done():
		}
	}
	if waited && waits != nil {
		waits(time.Since(start))
	}
	return nil
}

// stop cancels the calibration of a path or removes it from the queue, and waits
// until that is done.
func (p *preparer) stop(path string) {
	p.mu.Lock()
	for i := range p.queue {
		if p.queue[i].path == path {
			p.queue = append(p.queue[:i], p.queue[i+1:]...)
			break
		}
	}
	if p.now != path || p.cancel == nil {
		p.mu.Unlock()
		return
	}
	p.cancel()
	idle := p.idle
	p.mu.Unlock()
	<-idle
}

// StopPreparing stops the background calibration of a model. Its progress is saved,
// and the next load continues it.
func (p *Pool) StopPreparing(path string) { p.preparer.stop(path) }
