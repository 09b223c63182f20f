//go:build device && (linux || windows)

package cuda

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"godwit/engine/backend"
	"godwit/engine/backend/backendtest"
	"godwit/engine/backend/backendtest/gotest"
	"godwit/engine/dtype"
	"godwit/engine/gpu"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
)

// fakeCard is a fake driver, if the build has one.
var fakeCard func(t *testing.T) backend.Driver

func faking() bool { return os.Getenv("GODWIT_DEVICE") == "fake" }

// sized returns n on a card, and a small number on the fake driver.
func sized(n, little int) int {
	if faking() {
		return little
	}
	return n
}

// underTest returns the driver that GODWIT_DEVICE names: cuda, hip or fake.
func underTest(t *testing.T) backend.Driver {
	t.Helper()
	if faking() && fakeCard != nil {
		return fakeCard(t)
	}
	for _, d := range []backend.Driver{NVIDIA(), AMD()} {
		if d.Name() == os.Getenv("GODWIT_DEVICE") {
			return d
		}
	}
	t.Fatalf("GODWIT_DEVICE is %q; it names cuda, hip or fake", os.Getenv("GODWIT_DEVICE"))
	return nil
}

// TestDeviceConformance checks every op on a card with graphs, both with the
// kernels for the card and with the kernels for older cards.
func TestDeviceConformance(t *testing.T) {
	d := underTest(t).(gpu.Driver)
	t.Run("card", func(t *testing.T) {
		backendtest.Run(gotest.Of(t), d, backend.Options{FloatAttn: true})
	})
	connect := d.Connect
	d.Connect = func(i int) (gpu.Device, error) {
		dev, err := connect(i)
		if err != nil {
			return nil, err
		}
		return older{dev.(gpu.Recorder)}, nil
	}
	t.Run("older", func(t *testing.T) {
		backendtest.Run(gotest.Of(t), d, backend.Options{FloatAttn: true})
	})
}

// older hides the features of newer cards.
type older struct{ gpu.Recorder }

// report is one line of the script's output.
func report(t *testing.T, what string, more map[string]any) {
	t.Helper()
	more["test"] = what
	line, err := json.Marshal(more)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("DEVICE %s\n", line)
}

// perSecond returns a rate. It returns nil if the time, which is a difference
// of two times, is not positive.
func perSecond(work float64, d time.Duration) any {
	if d <= 0 {
		return nil
	}
	return work / d.Seconds()
}

// plain hides that a device can store launches, and the features of newer
// cards.
type plain struct{ gpu.Device }

// step is a compiled plan that runs one token at a time.
type step struct {
	t     *testing.T
	prog  backend.Program
	cache *pages.Cache
	batch llm.Batch
	width int
}

// newStep compiles a plan on the card, with or without graphs and the features
// of newer cards.
func newStep(t *testing.T, plan *graph.Plan, l *layout.Layout, rows int, whole bool) *step {
	t.Helper()
	d := underTest(t).(gpu.Driver)
	if connect := d.Connect; !whole {
		d.Connect = func(i int) (gpu.Device, error) {
			dev, err := connect(i)
			return plain{dev}, err
		}
	}
	b, err := d.Open(0, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sizes := backend.Sizes{Rows: rows, Outputs: 1}
	for _, g := range l.Groups {
		sizes.Pages = append(sizes.Pages, g.Pages)
	}
	s := &step{t: t, width: plan.Values[plan.Output].Width}
	if s.prog, err = b.Compile(context.Background(), plan, l, sizes); err != nil {
		t.Fatal(err)
	}
	if len(l.Groups) > 0 {
		if s.cache, err = pages.New(l, pages.Options{Copier: s.prog}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := s.prog.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// feed runs the next n tokens and returns the time that they took.
func (s *step) feed(have, n int) time.Duration {
	s.t.Helper()
	b := &s.batch
	b.Tokens, b.Pos = b.Tokens[:0], b.Pos[:0]
	for i := range n {
		b.Tokens, b.Pos = append(b.Tokens, llm.Token((have+i)%32)), append(b.Pos, int32(have+i))
	}
	b.Spans = append(b.Spans[:0], llm.Span{Rows: n, Len: have + n})
	b.Outputs = append(b.Outputs[:0], int32(n-1))
	b.Logits = slices.Grow(b.Logits[:0], s.width)[:s.width]
	if s.cache != nil {
		if err := s.cache.Extend(0, n); err != nil {
			s.t.Fatal(err)
		}
		s.cache.Fill(b)
	}
	start := time.Now()
	if err := s.prog.Run(context.Background(), b); err != nil {
		s.t.Fatal(err)
	}
	return time.Since(start)
}

// best returns the shortest time of several runs of one token.
func (s *step) best(have, runs int) time.Duration {
	least := time.Hour
	for i := range runs {
		least = min(least, s.feed(have+i, 1))
	}
	return least
}

// noise returns a weight of random bytes, including the scales, because only
// the time is measured.
func noise(name string, ty dtype.Type, cols, rows int) *graph.Weight {
	w := &graph.Weight{Name: name, Type: ty, Shape: []int{cols, rows}, Data: make([]byte, ty.RowBytes(cols)*rows)}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range w.Data {
		w.Data[i] = byte(rng.Uint32()) & 0x2f // small exponents, so that no scale is infinite
	}
	return w
}

// The matrices that are measured.
var productCols, productRows = sized(4096, 256), sized(14336, 64)

// products returns a plan of n products of the same rows.
func products(t *testing.T, ty dtype.Type, n int) *graph.Plan {
	t.Helper()
	g := graph.NewBuilder()
	x := g.Embed(noise("embedding", dtype.F32, productCols, 32), 1, graph.ByToken)
	y := graph.None
	for i := range n {
		z := g.Linear(x, noise(fmt.Sprintf("w%d", i), ty, productCols, productRows), nil)
		if y != graph.None {
			z = g.Add(y, z)
		}
		y = z
	}
	plan, err := g.Finish(g.Gather(g.Slice(y, 0, 0, 16)))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestDeviceMatmul measures the products of a prefill, with the kernels for the
// card and with the kernels for older cards.
func TestDeviceMatmul(t *testing.T) {
	layers, batch := 4, sized(512, 32)
	for _, ty := range []dtype.Type{dtype.F16, dtype.Q8_0, dtype.Q4_K} {
		for _, card := range []bool{false, true} {
			var took [2]time.Duration
			for i, n := range []int{1, layers} {
				s := newStep(t, products(t, ty, n), &layout.Layout{}, batch, card)
				took[i] = s.feed(0, batch)
				for range 5 {
					took[i] = min(took[i], s.feed(0, batch))
				}
			}
			work := 2 * float64((layers-1)*productRows*productCols*batch)
			report(t, "matmul", map[string]any{"type": ty.String(), "older": !card, "tflops": perSecond(work/1e12, took[1]-took[0])})
		}
	}
}

// TestDeviceMatvec measures the bandwidth of matrix-vector products. It divides
// the bytes of 15 matrices by the difference in time between a step with 16 of
// them and a step with one.
func TestDeviceMatvec(t *testing.T) {
	const layers = 16
	for _, ty := range []dtype.Type{dtype.F16, dtype.Q8_0, dtype.Q4_K, dtype.Q6_K, dtype.Q4_0} {
		for _, graphs := range []bool{false, true} {
			few := newStep(t, products(t, ty, 1), &layout.Layout{}, 1, graphs)
			few.feed(0, 1)
			many := newStep(t, products(t, ty, layers), &layout.Layout{}, 1, graphs)
			many.feed(0, 1)
			d := many.best(1, 20) - few.best(1, 20)
			bytes := float64((layers - 1) * productRows * ty.RowBytes(productCols))
			report(t, "matvec", map[string]any{"type": ty.String(), "graphs": graphs, "gb_s": perSecond(bytes/1e9, d)})
		}
	}
}

// TestDeviceAttention measures the bandwidth of decode attention over contexts
// of several lengths. It divides the cache's bytes by the time of a step, minus
// the time of a short step. The cells between were never written, but they are
// read.
func TestDeviceAttention(t *testing.T) {
	const heads, kvHeads, dim, chunk = 32, 8, 128, 512
	for _, pair := range [][2]string{{"f16", "f16"}, {"q8_0", "q8_0"}, {"q8_0", "turbo3"}, {"turbo4", "turbo3"}, {"gw4", "gw3"}, {"gw3", "gw3"}} {
		for _, cells := range []int{sized(4<<10, 128), sized(32<<10, 256), sized(128<<10, 512)} {
			g := graph.NewBuilder()
			x := g.Embed(noise("input", dtype.F32, (heads+2*kvHeads)*dim, 32), 1, graph.ByToken)
			part := func(at, n int) graph.Value { return g.Slice(x, 0, at*dim, n*dim) }
			y := g.Attend(part(0, heads), part(heads, kvHeads), part(heads+kvHeads, kvHeads), graph.Attention{
				Heads: heads, KVHeads: kvHeads, DimK: dim, DimV: dim, Scale: 0.1,
			})
			plan, err := g.Finish(g.Gather(y))
			if err != nil {
				t.Fatal(err)
			}
			var want layout.Want
			if want.K, err = kv.Parse(pair[0]); err == nil {
				want.V, err = kv.Parse(pair[1])
			}
			if err != nil {
				t.Fatal(err)
			}
			l, err := layout.Resolve(want, []layout.LayerInfo{{
				Cached: true, Heads: heads, KVHeads: kvHeads, HeadDimK: dim, HeadDimV: dim, Share: -1,
			}}, layout.Settings{Cells: cells + 1024, Seqs: 1, UBatch: chunk})
			if err != nil {
				t.Fatal(err)
			}
			s := newStep(t, plan, &l, chunk, true)
			s.feed(0, 1)
			short := s.best(1, 30)
			for have := 31; have < cells; have += chunk {
				if err := s.cache.Extend(0, min(chunk, cells-have)); err != nil {
					t.Fatal(err)
				}
			}
			d := s.best(cells, 30) - short
			bytes := float64(cells * l.BytesPerToken())
			report(t, "attention", map[string]any{"k": pair[0], "v": pair[1], "cells": cells, "us": float64(d.Nanoseconds()) / 1e3, "gb_s": perSecond(bytes/1e9, d)})
		}
	}
}
