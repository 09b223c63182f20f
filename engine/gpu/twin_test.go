package gpu_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
)

// twinCase describes some attention layers that read the same rows.
type twinCase struct {
	k, v      string
	dim       int
	window    int // window of every other layer; 0 for none
	exact     kv.Window
	mla       bool
	channels  bool // calibrated
	equalised bool // InnerQ
	self      bool // calibrated by each conversation itself
	softcap   float32
	pinned    bool
}

const (
	twinLayers  = 3
	twinVocab   = 40
	twinKVHeads = 2
	twinHeads   = 4
)

// twin is a program, the bookkeeping of its cache, a source of random tokens,
// and the last logits.
type twin struct {
	prog   backend.Program
	cache  *pages.Cache
	rng    *rand.Rand
	logits []float32
}

// twins are the GPU backend on the emulator and the CPU backend, which get the
// same batches.
type twins struct {
	twinCase
	layout layout.Layout
	plan   *graph.Plan
	gpu    twin
	cpu    twin
}

func newTwins(t *testing.T, c twinCase) *twins {
	t.Helper()
	w := &twins{twinCase: c}
	w.build(t)
	w.gpu = w.open(t, emulator())
	w.cpu = w.open(t, cpu.Driver{})
	return w
}

// build makes a plan whose layers all read the same queries, keys and values.
// What they store therefore does not depend on the rounding of an earlier
// layer.
func (w *twins) build(t *testing.T) {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	qw, kw := twinHeads*w.dim, twinKVHeads*w.dim
	x := make([]float32, (qw+2*kw)*twinVocab)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	weight := func(x []float32, shape ...int) *graph.Weight {
		g := &graph.Weight{Type: dtype.F32, Shape: shape}
		for _, v := range x {
			g.Data = binary.LittleEndian.AppendUint32(g.Data, math.Float32bits(v))
		}
		return g
	}
	channels := make([]kv.Channels, twinKVHeads)
	for h := range channels {
		c := kv.Channels{Mean: make([]float32, w.dim), Gain: make([]float32, w.dim)}
		for i := range w.dim {
			c.Mean[i], c.Gain[i] = float32(rng.NormFloat64()), float32(math.Exp(rng.NormFloat64()/2))
			if w.equalised {
				c.Mean[i] = 0
			}
		}
		channels[h] = c
	}
	g := graph.NewBuilder()
	y := g.Embed(weight(x, qw+2*kw, twinVocab), 1, graph.ByToken)
	var sum graph.Value
	var info []layout.LayerInfo
	for i := range twinLayers {
		a := graph.Attention{
			Layer: i, Heads: twinHeads, KVHeads: twinKVHeads, DimK: w.dim, DimV: w.dim, Scale: float32(1 / math.Sqrt(float64(w.dim))),
			Softcap: w.softcap, MLA: w.mla, RopeBase: 10000,
		}
		if i%2 == 1 {
			a.Window = w.window
		}
		if w.pinned {
			a.SinkLogits = weight([]float32{0, 2, -1, 4}, twinHeads)
		}
		v := g.Slice(y, 0, qw+kw, kw)
		if w.mla {
			v, a.DimV = graph.None, w.dim
		}
		out := g.Attend(g.Slice(y, 0, 0, qw), g.Slice(y, 0, qw, kw), v, a)
		if i == 0 {
			sum = out
		} else {
			sum = g.Add(sum, g.Scale(out, float32(i+1)))
		}
		info = append(info, layout.LayerInfo{
			Layer: i, Cached: true, Heads: twinHeads, KVHeads: twinKVHeads, HeadDimK: w.dim, HeadDimV: a.DimV, Window: a.Window, Share: -1, MLA: w.mla, RopeBase: 10000,
		})
	}
	var err error
	if w.plan, err = g.Finish(g.Gather(sum)); err != nil {
		t.Fatal(err)
	}
	w.resolve(t, info, channels)
}

// resolve makes the layout of the cache.
func (w *twins) resolve(t *testing.T, info []layout.LayerInfo, channels []kv.Channels) {
	t.Helper()
	zero := 0
	s := layout.Settings{
		Cells: 1024, Seqs: 3, UBatch: 192, Policy: &zero, AutoAsymmetric: layout.Off, SWABypass: layout.Off,
		ExactWindow: &w.exact.Newest, ExactSinks: &w.exact.Pinned, Uncalibrated: w.self, SelfCalibrate: w.self,
	}
	var want layout.Want
	var err error
	if want.K, err = kv.Parse(w.k); err == nil {
		want.V, err = kv.Parse(w.v)
	}
	if err != nil {
		t.Fatal(err)
	}
	if w.layout, err = layout.Resolve(want, info, s); err != nil {
		t.Fatal(err)
	}
	for i := range w.layout.Layers {
		if w.layout.Layers[i].K.SelfCalibrated != w.self {
			t.Fatalf("layer %d is calibrated by each conversation: %v", i, !w.self)
		}
		if w.channels || w.equalised {
			w.layout.Layers[i].K.Channels, w.layout.Layers[i].K.Equalised = channels, w.equalised
		}
	}
}

func (w *twins) open(t *testing.T, d backend.Driver) twin {
	t.Helper()
	b, err := d.Open(0, backend.Options{FloatAttn: true, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	sizes := backend.Sizes{Rows: 192, Outputs: 192}
	for _, g := range w.layout.Groups {
		sizes.Pages = append(sizes.Pages, g.Pages)
	}
	prog, err := b.Compile(context.Background(), w.plan, &w.layout, sizes)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := pages.New(&w.layout, pages.Options{Copier: prog, Shuffle: rand.New(rand.NewPCG(7, 7))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prog.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return twin{prog: prog, cache: cache, rng: rand.New(rand.NewPCG(1, 2))}
}

// feed runs a batch with rows of each sequence.
func (w *twins) feed(t *testing.T, b *twin, rows []int) {
	t.Helper()
	if err := b.prog.Run(context.Background(), w.batch(t, b, rows)); err != nil {
		t.Fatal(err)
	}
}

// batch makes a batch with some rows of each sequence.
func (w *twins) batch(t *testing.T, b *twin, rows []int) *llm.Batch {
	t.Helper()
	batch := &llm.Batch{}
	for seq, n := range rows {
		if n == 0 {
			continue
		}
		have, first := b.cache.Len(llm.Seq(seq)), len(batch.Tokens)
		if err := b.cache.Extend(llm.Seq(seq), n); err != nil {
			t.Fatal(err)
		}
		for r := range n {
			batch.Tokens = append(batch.Tokens, llm.Token(b.rng.IntN(twinVocab)))
			batch.Pos = append(batch.Pos, int32(have+r))
			batch.Outputs = append(batch.Outputs, int32(first+r))
		}
		batch.Spans = append(batch.Spans, llm.Span{Seq: llm.Seq(seq), First: first, Rows: n, Len: have + n})
	}
	b.cache.Fill(batch)
	b.logits = make([]float32, len(batch.Outputs)*w.plan.Values[w.plan.Output].Width)
	batch.Logits = b.logits
	return batch
}

// step runs the same rows on both backends and compares the results. The bound
// covers float32 sums in a different order. A score is off by √n roundings of
// the product of the lengths of query and key, with six standard deviations.
// The output is off by that share of the spread of the values, times six for
// the three layers.
func (w *twins) step(t *testing.T, rows ...int) {
	t.Helper()
	w.feed(t, &w.gpu, rows)
	w.feed(t, &w.cpu, rows)
	bound := 6 * 2 * 5 * 6 * math.Sqrt(4*float64(w.dim)) * 0x1p-24 * 2 * math.Sqrt(float64(w.dim))
	if w.channels || w.self {
		bound *= 4 // lengths grow with the gains
	}
	for i, want := range w.cpu.logits {
		if d := math.Abs(float64(w.gpu.logits[i] - want)); !(d <= bound) {
			t.Fatalf("rows %v: value %d is %g, on the CPU %g: off by %g, at most %g", rows, i, w.gpu.logits[i], want, d, bound)
		}
	}
}

// saved saves a sequence with both backends and checks that the files are
// equal.
func (w *twins) saved(t *testing.T, seq llm.Seq) []byte {
	t.Helper()
	var g, c bytes.Buffer
	if err := w.gpu.cache.Save(&g, seq, w.gpu.prog); err != nil {
		t.Fatal(err)
	}
	if err := w.cpu.cache.Save(&c, seq, w.cpu.prog); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g.Bytes(), c.Bytes()) {
		i := 0
		for i < min(g.Len(), c.Len()) && g.Bytes()[i] == c.Bytes()[i] {
			i++
		}
		t.Fatalf("sequence %d: saved %d bytes, on the CPU %d; the first that differs is %d", seq, g.Len(), c.Len(), i)
	}
	return c.Bytes()
}

// both calls do for both backends.
func (w *twins) both(t *testing.T, do func(b *twin) error) {
	t.Helper()
	for _, b := range []*twin{&w.gpu, &w.cpu} {
		if err := do(b); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwins runs the same batches on the GPU and CPU backends: chunks, single
// rows and mixed batches. It cuts and forks sequences and moves them between
// the backends. Both must give the same results and store the same bytes.
func TestTwins(t *testing.T) {
	for _, c := range []twinCase{
		{k: "q4_0", v: "turbo3", dim: 128, exact: kv.Window{Pinned: 4, Newest: 64}},
		{k: "q8_0", v: "turbo3", dim: 128, exact: kv.Window{Newest: 1}, window: 70},
		{k: "f16", v: "tbq4", dim: 64, exact: kv.Window{Pinned: 60, Newest: 90}},
		{k: "turbo3", v: "q4_0", dim: 96, exact: kv.Window{Pinned: 5}, equalised: true},
		{k: "gw3", v: "gw2", dim: 64, exact: kv.Window{Pinned: 4, Newest: 64}, channels: true},
		{k: "gw4", v: "gw3", dim: 128, exact: kv.Window{Newest: 1}, window: 70},
		{k: "gw2", v: "gw4", dim: 96, exact: kv.Window{Pinned: 3, Newest: 20}, channels: true, pinned: true},
		{k: "gw3", v: "f16", dim: 32, channels: true, softcap: 3},
		{k: "gw4", v: "gw4", dim: 80, exact: kv.Window{Newest: 70}, channels: true, softcap: 3, pinned: true, window: 100},
		{k: "q4_0", v: "q4_0", dim: 96, exact: kv.Window{Pinned: 5, Newest: 65}, mla: true},
		{k: "gw3", v: "gw2", dim: 64, exact: kv.Window{Pinned: 4, Newest: 64}, self: true},
		{k: "gw4", v: "turbo3", dim: 128, exact: kv.Window{Newest: 70}, self: true, window: 100, pinned: true},
		{k: "gw2", v: "gw4", dim: 96, exact: kv.Window{Pinned: 9, Newest: 90}, self: true, softcap: 3},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, c)
			w.step(t, 70, 0)
			w.step(t, 1, 62)
			for range 4 {
				w.step(t, 1, 1)
			}
			w.both(t, func(b *twin) error { return b.cache.Keep(0, 70) })
			w.step(t, 100, 1)
			w.step(t, 1, 80)
			file := w.saved(t, 0)
			w.saved(t, 1)
			w.both(t, func(b *twin) error { _, err := b.cache.Fork(2, 0, 130); return err })
			w.step(t, 1, 1, 1)
			w.both(t, func(b *twin) error { _, err := b.cache.Truncate(0, 64); return err })
			w.step(t, 1, 0, 30)
			w.saved(t, 2)
			w.both(t, func(b *twin) error {
				b.cache.Drop(1)
				return b.cache.Load(bytes.NewReader(file), 1, b.prog)
			})
			w.step(t, 0, 1, 1)
			w.step(t, 64, 64, 0)
			for seq := range llm.Seq(3) {
				w.saved(t, seq)
			}
		})
	}
}
