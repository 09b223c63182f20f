//go:build linux

package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// product is a plan whose decode steps multiply one matrix.
func product(t *testing.T) *graph.Plan {
	t.Helper()
	g := graph.NewBuilder()
	weight := func(name string, cols, rows int) *graph.Weight {
		return &graph.Weight{Name: name, Type: dtype.F32, Shape: []int{cols, rows}, Data: make([]byte, 4*cols*rows)}
	}
	plan, err := g.Finish(g.Gather(g.Linear(g.Embed(weight("rows", 64, 4), 1, graph.ByToken), weight("matrix", 64, 512), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestFaults breaks the driver while a model is loaded and while it runs: there
// is one error with the cause and the numbers, all memory is released, and a
// card that works again can be used.
func TestFaults(t *testing.T) {
	const sick = 700
	texts[sick] = []byte("an illegal memory access was encountered\x00")
	for _, c := range []struct {
		name  string
		spoil func(*fake)
		runs  bool // whether the fault comes while the model runs
		wants []string
		is    error
	}{
		{"memory", func(f *fake) { f.free = 5000 }, false, []string{"matrix wants 131072 bytes, 3976 of 17179869184 free"}, backend.ErrMemory},
		{"weights", func(f *fake) { f.fail["cuMemcpyHtoDAsync_v2"] = sick }, false, []string{"rows", "copy to the device", "700"}, nil},
		{"compiler", func(f *fake) { f.fail["cuModuleLoadDataEx"] = 218 }, false, []string{"embed WEIGHT=0", "218", "ptxas fatal: wrong"}, nil},
		{"copy", func(f *fake) { f.fail["cuMemcpyHtoDAsync_v2"] = sick }, true, []string{"copy to the device", "700", "illegal memory access"}, nil},
		{"capture", func(f *fake) { f.fail["cuStreamBeginCapture_v2"] = sick }, true, []string{"begin capture", "700"}, nil},
		{"launch", func(f *fake) { f.fail["cuLaunchKernel"] = sick }, true, []string{"launch embed", "700"}, nil},
		{"graph memory", func(f *fake) { f.fail["cuGraphInstantiateWithFlags"] = outOfMemory }, true, []string{"instantiate graph", "out of memory"}, nil},
		{"replay", func(f *fake) { f.fail["cuGraphLaunch"] = sick }, true, []string{"start graph", "700"}, nil},
		{"lost", func(f *fake) { f.fail["cuStreamSynchronize"] = sick }, true, []string{"wait", "700"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			err := run(t, f, c.spoil, c.runs)
			judge(t, err, c.wants, c.is)
			clear(f.fail)
			f.free = 1 << 34
			if len(f.memory) > 0 {
				t.Errorf("%d buffers are left", len(f.memory))
			}
			f.capture, f.graphs = nil, 0
			if err := run(t, f, func(*fake) {}, true); err != nil || f.graphs != 2 {
				t.Errorf("afterwards, with %d graphs: %v", f.graphs, err)
			}
		})
	}
}

// run loads a plan and runs two decode steps, with a fault before it loads or
// between the steps.
func run(t *testing.T, f *fake, spoil func(*fake), later bool) error {
	t.Helper()
	b, err := driver("cuda", f.api).Open(0, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }() // this also fails on a broken card
	if !later {
		spoil(f)
	}
	p, err := b.Compile(t.Context(), product(t), &layout.Layout{}, backend.Sizes{Rows: 4, Outputs: 4})
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	if later {
		spoil(f)
	}
	batch := &llm.Batch{
		Tokens: []llm.Token{1}, Pos: []int32{0}, Spans: []llm.Span{{Rows: 1, Len: 1}}, Outputs: []int32{0}, Logits: make([]float32, 512),
	}
	first := p.Run(t.Context(), batch)
	second := p.Run(t.Context(), batch)
	if (first == nil) != (second == nil) {
		t.Errorf("the first step: %v, the second: %v", first, second)
	}
	return first
}

// Without the driver's library, no device is listed, and the error of opening
// one names the library.
func TestNoDriver(t *testing.T) {
	name := filepath.Join(t.TempDir(), "libcuda.so.1")
	missing := driver("cuda", func() (*api, error) {
		_, err := library([]string{name, "libcuda-of-nobody.so"})
		return nil, err
	})
	if list, err := missing.Devices(); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
	_, err := missing.Open(0, backend.Options{})
	judge(t, err, []string{"no driver", name}, errNone)
	if err := os.WriteFile(name, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = missing.Open(0, backend.Options{})
	judge(t, err, []string{"no driver", name}, nil)
	if errors.Is(err, backend.ErrUnsupported) {
		t.Error(err)
	}
}
