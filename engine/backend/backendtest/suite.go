// Package backendtest is the conformance suite of backends: every op of a
// plan, run on a device and compared with the float64 oracle.
//
// Bounds are not tuned. A sum of n products in float32 is off by at most n·2⁻²⁴
// times the sum of the magnitudes. A matrix whose activations are rounded to int8
// in blocks is off by at most half a step of every activation.
package backendtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/quant"
	"godwit/engine/ref"
)

// vocab is the number of input rows that a case can look up.
const vocab = 48

// Run checks every op of a driver's first device. lacks lists the features for
// which the device has no kernel, as its errors name them. The device must report
// each of them, and no others.
func Run(t T, d backend.Driver, o backend.Options, lacks ...string) {
	o.Unchecked = true // some cases are hostile on purpose
	b, err := d.Open(0, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if l, ok := d.(Lacker); ok {
		lacks = append(lacks, l.Lacks()...)
	}
	s := &suite{b: b, lacks: map[string]bool{}}
	for _, what := range lacks {
		s.lacks[what] = false
	}
	t.Run("rowwise", s.rowWise)
	t.Run("matrices", s.matrices)
	t.Run("experts", s.experts)
	t.Run("unchosen experts", s.unchosen)
	t.Run("recurrent", s.recurrent)
	t.Run("rare", s.rare)
	t.Run("pool", s.pool)
	t.Run("both directions", s.bothDirections)
	t.Run("pictures", s.pictures)
	t.Run("tiles", s.tiles)
	t.Run("attention", s.attention)
	t.Run("counters", s.counters)
	t.Run("largest logits", s.largest)
	for what, seen := range s.lacks {
		if !seen {
			t.Errorf("the device never said that it lacks %s", what)
		}
	}
}

// Lacker is a Driver that lists the features for which its devices have no kernel.
// Errors name the features in the same words.
type Lacker interface{ Lacks() []string }

type suite struct {
	b     backend.Backend
	lacks map[string]bool // whether the device reported the feature as lacking
}

// compile compiles a plan. It returns nil if the device is known to lack a
// feature of the plan.
func (s *suite) compile(t T, plan *graph.Plan, l *layout.Layout, sizes backend.Sizes) backend.Program {
	t.Helper()
	prog, err := s.b.Compile(context.Background(), plan, l, sizes)
	if err == nil {
		return prog
	}
	if !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), s.b.Info().Backend) {
		t.Fatal(err)
	}
	for what := range s.lacks {
		if strings.Contains(err.Error(), what) {
			s.lacks[what] = true
			return nil
		}
	}
	t.Fatal(err)
	return nil
}

// input makes weights and rows of random values.
type input struct{ rng *rand.Rand }

func newInput(seed uint64) *input { return &input{rand.New(rand.NewPCG(seed, 1))} }

// floats returns n values from a normal distribution.
func (in *input) floats(n int, size float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(in.rng.NormFloat64() * size)
	}
	return out
}

// weight returns a random tensor of any type that can be encoded.
func (in *input) weight(name string, t dtype.Type, shape ...int) *graph.Weight {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return &graph.Weight{Name: name, Type: t, Shape: shape, Data: encode(t, in.floats(n, 1))}
}

func encode(t dtype.Type, x []float32) []byte {
	if t == dtype.F32 {
		var b []byte
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b
	}
	b := make([]byte, t.RowBytes(len(x)))
	if err := quant.Encode(t, b, x, nil); err != nil {
		panic(err)
	}
	return b
}

// testCase is one case: a graph over an input of the given width.
type testCase struct {
	name  string
	width int
	build func(g *graph.Builder, x graph.Value) graph.Value
	// bound returns the largest allowed difference, given the largest magnitude
	// of the oracle's output.
	bound func(top float64) float64
	rows  int // rows per batch; 0 means 7
}

// ulps returns a bound of n float32 roundings of the largest value.
func ulps(n float64) func(float64) float64 {
	return func(top float64) float64 { return n * (1 + top) * 0x1p-24 }
}

// run compares one case over two spans in two batches.
func (s *suite) run(t T, c testCase) {
	t.Helper()
	in := newInput(1)
	table := in.weight("input", dtype.F32, c.width, vocab)
	g := graph.NewBuilder()
	x := g.Embed(table, 1, graph.ByToken)
	plan, err := g.Finish(g.Gather(c.build(g, x)))
	if err != nil {
		t.Fatal(err)
	}
	n := c.rows
	if n == 0 {
		n = 7
	}
	l := &layout.Layout{}
	prog := s.compile(t, plan, l, backend.Sizes{Rows: 2 * n, Outputs: 2 * n, Slots: 2})
	if prog == nil {
		return
	}
	defer prog.Close()
	oracle := ref.New(plan, nil)
	for step := range 2 {
		b := twoSpans(in, n, step, plan.Values[plan.Output].Width)
		want := oracle.Run(b)
		if err := prog.Run(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		compare(t, fmt.Sprintf("step %d", step), b, want, c.bound)
	}
}

// twoSpans returns batch number step of two sequences, with n and n-1 rows.
func twoSpans(in *input, n, step, width int) *llm.Batch {
	b := &llm.Batch{}
	for seq, rows := range []int{n, max(n-1, 1)} {
		first := len(b.Tokens)
		for r := range rows {
			b.Tokens = append(b.Tokens, llm.Token(in.rng.IntN(vocab)))
			b.Pos = append(b.Pos, int32(step*rows+r))
			b.Outputs = append(b.Outputs, int32(first+r))
		}
		b.Spans = append(b.Spans, llm.Span{Seq: llm.Seq(seq), First: first, Rows: rows, Len: (step + 1) * rows, State: int32(seq)})
	}
	b.Logits = make([]float32, len(b.Outputs)*width)
	return b
}

// compare checks every output.
func compare(t T, what string, b *llm.Batch, want [][]float64, bound func(float64) float64) {
	t.Helper()
	var top float64
	for _, row := range want {
		for _, v := range row {
			top = max(top, math.Abs(v))
		}
	}
	limit := bound(top)
	for r, row := range want {
		for i, w := range row {
			got := float64(b.Logits[r*len(row)+i])
			if d := math.Abs(got - w); d > limit || d != d {
				t.Fatalf("%s: row %d column %d is %g, want %g: off by %g, at most %g", what, r, i, got, w, d, limit)
			}
		}
	}
}
