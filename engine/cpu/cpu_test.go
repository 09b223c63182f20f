package cpu_test

import (
	"context"
	"errors"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/backend/backendtest"
	"godwit/engine/backend/backendtest/gotest"
	"godwit/engine/cpu"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

func TestConformance(t *testing.T) {
	for _, o := range []backend.Options{{Threads: 1}, {Threads: 3}, {Threads: 2, NoRepack: true}} {
		backendtest.Run(gotest.Of(t), cpu.Driver{}, o)
	}
}

func TestAttentionMatrix(t *testing.T) {
	backendtest.AttentionMatrix(gotest.Of(t), cpu.Driver{}, backend.Options{Threads: 2})
}

// TestCheck runs the suite as godwit device --check does, on the CPU and on a CPU that is wrong by
// a thousandth.
func TestCheck(t *testing.T) {
	o := backend.Options{Threads: 2, FloatAttn: true}
	r, err := backendtest.Check(t.Context(), cpu.Driver{}, o, nil)
	if err != nil || len(r.Failures) > 0 || r.Cases < 2*len(kv.Types()) {
		t.Errorf("%d cases, %v: %v", r.Cases, err, r.Failures)
	}
	r, err = backendtest.Check(t.Context(), wrong{runs: new(int)}, o, nil)
	if err != nil || len(r.Failures) < r.Cases*9/10 {
		t.Errorf("%d of %d cases failed, %v", len(r.Failures), r.Cases, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun := 0
	r, err = backendtest.Check(ctx, cpu.Driver{}, o, func(string) {
		if begun++; begun == 5 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || r.Cases > 5 {
		t.Errorf("cancelled: %d cases, %v", r.Cases, err)
	}
}

// wrong is a CPU that miscomputes the first output of every batch and panics in every third batch.
type wrong struct {
	cpu.Driver
	runs *int
}

type wrongBackend struct {
	backend.Backend
	runs *int
}

type wrongProgram struct {
	backend.Program
	runs *int
}

func (w wrong) Open(i int, o backend.Options) (backend.Backend, error) {
	b, err := w.Driver.Open(i, o)
	return wrongBackend{b, w.runs}, err
}

func (w wrongBackend) Compile(ctx context.Context, p *graph.Plan, l *layout.Layout, s backend.Sizes) (backend.Program, error) {
	prog, err := w.Backend.Compile(ctx, p, l, s)
	if err != nil {
		return nil, err
	}
	return wrongProgram{prog, w.runs}, nil
}

func (w wrongProgram) Run(ctx context.Context, b *llm.Batch) error {
	if *w.runs++; *w.runs%3 == 0 {
		panic("out of order")
	}
	err := w.Program.Run(ctx, b)
	b.Logits[0] = b.Logits[0]*1.1 + 1
	return err
}
