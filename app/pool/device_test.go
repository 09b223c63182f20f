package pool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"godwit/app/hub"
	"godwit/engine"
	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/engine/testmodel"
)

// card is a device with memory of its own. It computes on the CPU.
type card struct {
	cpu.Driver
	all, held *atomic.Int64
}

func (c card) Name() string { return "card" }

func (c card) info() backend.Info {
	return backend.Info{Backend: "card", Device: "Card 1", Memory: c.all.Load(), Free: c.all.Load() - c.held.Load()}
}

func (c card) Devices() ([]backend.Info, error) { return []backend.Info{c.info()}, nil }

func (c card) Open(device int, o backend.Options) (backend.Backend, error) {
	b, err := c.Driver.Open(device, o)
	return onCard{b, c}, err
}

type onCard struct {
	backend.Backend
	card card
}

func (b onCard) Info() backend.Info { return b.card.info() }

func (b onCard) Compile(ctx context.Context, p *graph.Plan, l *layout.Layout, s backend.Sizes) (backend.Program, error) {
	prog, err := b.Backend.Compile(ctx, p, l, s)
	if err != nil {
		return nil, err
	}
	b.card.held.Add(prog.Memory().Total())
	return &cardProgram{prog, b.card}, nil
}

type cardProgram struct {
	backend.Program
	card card
}

func (p *cardProgram) Close() error {
	p.card.held.Add(-p.Program.Memory().Total())
	return p.Program.Close()
}

// A load on a device must fit in the device's free memory, less a reserve, and unloads
// only models on the same device. The device's memory is reported apart from the host's.
func TestDeviceMemory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "host"} {
		if err := os.Symlink(testmodel.Golden(t, "models", "tiny", "llama-hd64.gguf"), filepath.Join(dir, name+".gguf")); err != nil {
			t.Fatal(err)
		}
	}
	files, err := hub.Open(hub.Options{Dir: dir, URL: "https://hub.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	c := card{all: new(atomic.Int64), held: new(atomic.Int64)}
	c.all.Store(1 << 30)
	p, err := New(Options{Library: files, KeepAlive: -1, Engine: func(path string) (engine.Options, error) {
		o := engine.Options{Context: 4096, Parallel: 1, Threads: 1, Driver: c}
		if filepath.Base(path) == "host.gguf" {
			o.Driver = nil
		}
		return o, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(p.Close(), files.Close()); err != nil || c.held.Load() != 0 {
			t.Errorf("%v, %d bytes are left on the device", err, c.held.Load())
		}
	}()
	use := func(name string) error {
		t.Helper()
		m, err := p.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		l, err := p.Acquire(t.Context(), m, Terms{})
		if err == nil {
			l.Release()
		}
		return err
	}
	state := func(name string) State { return p.Standing(filepath.Join(dir, name+".gguf")).State }
	if err := errors.Join(use("host"), use("a")); err != nil {
		t.Fatal(err)
	}
	need := c.held.Load()
	want := Device{Backend: "card", Device: "Card 1", Memory: 1 << 30, Free: 1<<30 - need - 1<<26, Models: need}
	if list := p.Devices(); len(list) != 1 || list[0] != want {
		t.Errorf("devices %+v, want %+v", list, want)
	}
	for _, h := range p.Holdings() {
		if h.Host != (h.Model == "host") || h.Host != (h.Backend == cpu.Name) {
			t.Errorf("%+v", h)
		}
	}

	c.all.Store(2*need + need/16) // room for both models, but not for the reserve, which is a sixteenth of the memory
	if err := use("b"); err != nil {
		t.Fatal(err)
	}
	if state("a") != Unloaded || state("b") != Loaded || state("host") != Loaded {
		t.Errorf("a is %s, b is %s, host is %s", state("a"), state("b"), state("host"))
	}
	c.all.Store(need + 1<<12) // free memory of 0 would mean unknown
	var lack *engine.MemoryError
	if err := use("a"); !errors.As(err, &lack) || lack.Free >= need || lack.Wanted <= lack.Free {
		t.Errorf("a load that does not fit: %v", err)
	}
}
