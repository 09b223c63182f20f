package pool

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"godwit/engine"
)

// A background calibration waits while a model is in use, ends when it is stopped,
// and starts again with the next load.
func TestPreparer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var busy atomic.Bool
	states := make(chan Preparing, 1000)
	var p preparer
	p.init(ctx, busy.Load, func(path string, s Preparing) {
		if path == "a" {
			states <- s
		}
	}, slog.New(slog.DiscardHandler))
	p.rest, p.look = time.Millisecond, time.Millisecond
	step, took := make(chan float64), make(chan struct{})
	p.measure = func(ctx context.Context, path string, _ engine.Options, progress func(float64) error) error {
		for {
			select {
			case share := <-step:
				if err := progress(share); err != nil {
					return err
				}
				if share == 1 {
					return nil
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			took <- struct{}{}
		}
	}
	until := func(state string) Preparing {
		for {
			select {
			case s := <-states:
				if s.State == state {
					return s
				}
			case <-time.After(time.Minute):
				t.Fatalf("never %s", state)
			}
		}
	}
	busy.Store(true)
	p.add("a", engine.Options{})
	p.add("a", engine.Options{}) // the model was loaded again in the meantime
	until(Waiting)
	select {
	case step <- 0.1:
		t.Fatal("measures while a model is in use")
	case <-time.After(20 * time.Millisecond):
	}
	busy.Store(false)
	step <- 0.2
	<-took
	if s := until(Measuring); s.Share != 0.2 {
		t.Errorf("%+v", s)
	}
	busy.Store(true)
	step <- 0.3
	until(Waiting)
	select {
	case <-took:
		t.Fatal("continues while a model is in use")
	case <-time.After(20 * time.Millisecond):
	}
	p.stop("a") // while it waits
	until(Stopped)
	busy.Store(false)
	p.add("a", engine.Options{})
	step <- 1
	until(Prepared)
	p.measure = func(context.Context, string, engine.Options, func(float64) error) error { return errors.New("broken") }
	p.work.Wait()
	p.add("a", engine.Options{})
	until(Unready)
	p.work.Wait()
	cancel()
	p.add("a", engine.Options{}) // the server has closed
}
