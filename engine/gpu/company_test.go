package gpu_test

import (
	"context"
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/gpu"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/shaders/emu"
)

// layer is one attention layer between matrices.
type layer struct {
	plan   *graph.Plan
	layout layout.Layout
	cache  *pages.Cache
	prog   backend.Program
}

const (
	layerVocab = 32
	layerHeads = 4
	layerDim   = 32
)

func newLayer(t *testing.T, d gpu.Device) *layer {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	weight := func(name string, cols, rows int) *graph.Weight {
		w := &graph.Weight{Name: name, Type: dtype.F32, Shape: []int{cols, rows}}
		for range cols * rows {
			w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(float32(rng.NormFloat64())/4))
		}
		return w
	}
	const n = layerHeads * layerDim
	g := graph.NewBuilder()
	x := g.Embed(weight("embedding", n, layerVocab), 1, graph.ByToken)
	y := g.Attend(g.Linear(x, weight("q", n, n), nil), g.Linear(x, weight("k", n, n/2), nil), g.Linear(x, weight("v", n, n/2), nil),
		graph.Attention{Heads: layerHeads, KVHeads: layerHeads / 2, DimK: layerDim, DimV: layerDim, Scale: 0.2})
	l := &layer{}
	var err error
	if l.plan, err = g.Finish(g.Linear(g.Gather(g.Add(x, y)), weight("output", n, 16), nil)); err != nil {
		t.Fatal(err)
	}
	l.layout, err = layout.Resolve(layout.Want{K: kv.Q8_0, V: kv.F16}, []layout.LayerInfo{{
		Cached: true, Heads: layerHeads, KVHeads: layerHeads / 2, HeadDimK: layerDim, HeadDimV: layerDim, Share: -1,
	}}, layout.Settings{Cells: 2048, Seqs: 20, UBatch: 128})
	if err != nil {
		t.Fatal(err)
	}
	b, err := gpu.Driver{Kind: "test", Connect: func(int) (gpu.Device, error) { return d, nil }}.Open(0, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sizes := backend.Sizes{Rows: 128, Outputs: 32, Pages: []int{l.layout.Groups[0].Pages}}
	if l.prog, err = b.Compile(context.Background(), l.plan, &l.layout, sizes); err != nil {
		t.Fatal(err)
	}
	l.cache, err = pages.New(&l.layout, pages.Options{Copier: l.prog, Shuffle: rand.New(rand.NewPCG(1, 1))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.prog.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// batch extends sequences by some rows; the last of each is wanted.
func (l *layer) batch(t *testing.T, rows map[llm.Seq]int) *llm.Batch {
	t.Helper()
	b := &llm.Batch{}
	for _, seq := range slices.Sorted(maps.Keys(rows)) {
		n, have, first := rows[seq], l.cache.Len(seq), len(b.Tokens)
		if err := l.cache.Extend(seq, n); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			b.Tokens = append(b.Tokens, llm.Token((int(seq)*7+(have+i)*5)%layerVocab))
			b.Pos = append(b.Pos, int32(have+i))
		}
		b.Spans = append(b.Spans, llm.Span{Seq: seq, First: first, Rows: n, Len: have + n})
		b.Outputs = append(b.Outputs, int32(first+n-1))
	}
	l.cache.Fill(b)
	b.Logits = make([]float32, 16*len(rows))
	return b
}

// run runs one batch with some rows of each sequence and returns the result of
// the last row of each.
func (l *layer) run(t *testing.T, rows map[llm.Seq]int) map[llm.Seq][]float32 {
	t.Helper()
	b := l.batch(t, rows)
	if err := l.prog.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	out := map[llm.Seq][]float32{}
	for i, seq := range slices.Sorted(maps.Keys(rows)) {
		out[seq] = b.Logits[16*i : 16*(i+1)]
	}
	return out
}

// A sequence's results do not depend on the other sequences in the batch, on
// whether they are decoded or prefilled, or on their number. A device that
// stores launches gives the same bits as one that does not.
func TestCompany(t *testing.T) {
	var want [][]float32
	for name, wrap := range map[string]func(gpu.Device) gpu.Device{
		"launches": func(d gpu.Device) gpu.Device { return d },
		"graphs":   func(d gpu.Device) gpu.Device { return &recorder{Device: d} },
	} {
		t.Run(name, func(t *testing.T) {
			device := func() gpu.Device {
				d, err := emu.Open(emu.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return wrap(d)
			}
			alone, first := newLayer(t, device()), want == nil
			for i, n := range []int{70, 1, 1, 5} {
				got := alone.run(t, map[llm.Seq]int{1: n})[1]
				if first {
					want = append(want, got)
				} else if !slices.Equal(got, want[i]) {
					t.Errorf("batch %d: %v, without graphs %v", i, got[:4], want[i][:4])
				}
			}
			mixed := newLayer(t, device())
			many := map[llm.Seq]int{}
			for i := range llm.Seq(18) {
				many[1+i] = 1
			}
			for i, rows := range []map[llm.Seq]int{{0: 9, 1: 70, 2: 3}, {0: 1, 1: 1, 2: 30, 3: 2}, many, {0: 1, 1: 5, 4: 1}} {
				if got := mixed.run(t, rows)[1]; !slices.Equal(got, want[i]) {
					t.Errorf("batch %d: %v, alone %v", i, got[:4], want[i][:4])
				}
			}
		})
	}
}

// Rows that only pad a decode step are not counted, whatever their number.
func TestCounts(t *testing.T) {
	for name, wrap := range map[string]func(gpu.Device) gpu.Device{
		"launches": func(d gpu.Device) gpu.Device { return d },
		"graphs":   func(d gpu.Device) gpu.Device { return &recorder{Device: d} },
	} {
		t.Run(name, func(t *testing.T) {
			d, err := emu.Open(emu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			l, want := newLayer(t, wrap(d)), int64(0)
			for _, n := range []int{1, 2, 3, 5, 6, 7, 8, 9, 15, 16, 3} {
				rows := map[llm.Seq]int{}
				for seq := range llm.Seq(n) {
					rows[seq] = 1
					want += int64(layerHeads * (l.cache.Len(seq) + 1))
				}
				l.run(t, rows)
				if got := l.prog.Counts()[0].Considered; got != want {
					t.Fatalf("%d rows: %d cells were counted, want %d", n, got, want)
				}
			}
		})
	}
}

// recorder is a device that stores launches.
type recorder struct {
	gpu.Device
	on   bool
	kept []func()
}

type kept []func()

func (kept) Close() error { return nil }

func (r *recorder) Begin() error {
	r.on, r.kept = true, nil
	return nil
}

func (r *recorder) End() (gpu.Graph, error) {
	r.on = false
	return kept(r.kept), nil
}

func (r *recorder) Replay(g gpu.Graph) {
	for _, f := range g.(kept) {
		f()
	}
}

func (r *recorder) Launch(p gpu.Pipeline, grid [3]uint32, args []gpu.Bind, params []byte) {
	if !r.on {
		r.Device.Launch(p, grid, args, params)
		return
	}
	args, params = slices.Clone(args), slices.Clone(params)
	r.kept = append(r.kept, func() { r.Device.Launch(p, grid, args, params) })
}

func (r *recorder) Barrier() {
	if !r.on {
		r.Device.Barrier()
		return
	}
	r.kept = append(r.kept, r.Device.Barrier)
}

var _ gpu.Recorder = (*recorder)(nil)

// A step allocates nothing on the host, whether its sequences are decoded,
// prefilled, or some of each.
func TestRunAllocs(t *testing.T) {
	d, asked := gpu.Idle()
	l := newLayer(t, d)
	for _, rows := range []map[llm.Seq]int{{0: 1}, {0: 5}, {0: 1, 1: 7, 2: 1}} {
		b := l.batch(t, rows)
		run := func() {
			if err := l.prog.Run(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if n := testing.AllocsPerRun(20, run); n > 0 {
			t.Errorf("%v: %v allocations", rows, n)
		}
	}
	t.Log(asked())
}
