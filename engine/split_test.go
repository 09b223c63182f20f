package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/graph"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// second is the CPU under another name, so that a model can be split between the
// two.
type second struct{ cpu.Driver }

func (second) Name() string { return "second" }

// A model that is split between two devices gives the same bits as on one, wherever it
// is split. If a layer reads the cache of a layer on the other device, the load fails
// with an error about it.
func TestSplit(t *testing.T) {
	shared := 0
	for _, m := range smallModels(t) {
		t.Run(m.Name, func(t *testing.T) {
			run := m.Runs[len(m.Runs)-1]
			o := engine.Options{UBatch: 64, Threads: 1}
			whole := open(t, m.small(t), run.Context, run.K, run.V, o)
			want := logits(t, whole, run.Tokens, run.Positions, false)
			stepped := logits(t, whole, run.Tokens, run.Positions, true)
			for n := range whole.Config().Layers + 2 {
				o.Driver, o.GPULayers = second{}, &n
				e, err := openSplit(t, m, run, o)
				if err != nil {
					if !strings.Contains(err.Error(), "reads the cache of layer") {
						t.Errorf("%d layers: %v", n, err)
					}
					shared++
					continue
				}
				if i := differs(logits(t, e, run.Tokens, run.Positions, false), want); i >= 0 {
					t.Errorf("%d layers: logit %d differs from one device's", n, i)
				}
				if i := differs(logits(t, e, run.Tokens, run.Positions, true), stepped); i >= 0 {
					t.Errorf("%d layers, token by token: logit %d differs from one device's", n, i)
				}
				joined := e.Device().Backend
				if cut := n > 0 && n < whole.Config().Layers; cut != (joined == "cpu+cpu") {
					t.Errorf("%d layers on %s", n, joined)
				}
			}
		})
	}
	if shared == 0 {
		t.Error("no model with layers that cannot be parted was tried")
	}
}

func openSplit(t *testing.T, m tinyModel, run tinyRun, o engine.Options) (*engine.Engine, error) {
	t.Helper()
	var err error
	if o.Want.K, err = kv.Parse(run.K); err != nil {
		t.Fatal(err)
	}
	if o.Want.V, err = kv.Parse(run.V); err != nil {
		t.Fatal(err)
	}
	o.Context, o.Parallel = run.Context, 1
	e, err := engine.Open(t.Context(), m.small(t), o)
	if err == nil {
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return e, err
}

var _ backend.Driver = second{}

// refusing is a device that rejects every model, or does not exist.
type refusing struct {
	cpu.Driver
	absent bool
}

func (refusing) Name() string { return "refusing" }

func (r refusing) Open(i int, o backend.Options) (backend.Backend, error) {
	if r.absent {
		return nil, errors.New("no such device")
	}
	b, err := r.Driver.Open(i, o)
	return refusingBackend{b}, err
}

type refusingBackend struct{ backend.Backend }

func (refusingBackend) Compile(context.Context, *graph.Plan, *layout.Layout, backend.Sizes) (backend.Program, error) {
	return nil, fmt.Errorf("%w: 12 GiB are wanted", backend.ErrMemory)
}

// With Fallback, the CPU runs a model that the device rejects, and the log gives the
// reason. Without Fallback, the load fails.
func TestFallback(t *testing.T) {
	path := golden.Small(t, "llama-hd64")
	for _, absent := range []bool{false, true} {
		var log bytes.Buffer
		o := engine.Options{
			Driver: refusing{absent: absent}, Fallback: true, Context: 64, Threads: 1, Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		e, err := engine.Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		want := "12 GiB are wanted"
		if absent {
			want = "no such device"
		}
		if e.Device().Backend != "cpu" || !strings.Contains(log.String(), want) {
			t.Errorf("on %s; log: %s", e.Device().Backend, &log)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		o.Fallback = false
		if _, err := engine.Open(t.Context(), path, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without leave: %v", err)
		}
	}
}
