//go:build linux || darwin

package emu

import (
	"fmt"
	"math"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/llm"
	"godwit/engine/ref"
	"godwit/shaders"
)

// oracle is a plan with one op, run by ref, whose operands are rows of float32.
type oracle struct {
	*graph.Builder
	t     testing.TB
	rows  int
	batch llm.Batch
}

func newOracle(t testing.TB, rows int) *oracle {
	o := &oracle{Builder: graph.NewBuilder(), t: t, rows: rows}
	for r := range rows {
		o.batch.Tokens = append(o.batch.Tokens, llm.Token(r))
		o.batch.Pos = append(o.batch.Pos, int32(1000*r+17))
	}
	return o
}

// weight is a tensor of float32.
func weight(x []float32, shape ...int) *graph.Weight {
	return &graph.Weight{Name: "w", Type: dtype.F32, Shape: shape, Data: raw(x)}
}

// value is an operand. x is [rows][width].
func (o *oracle) value(x []float32) graph.Value {
	return o.Embed(weight(x, len(x)/o.rows, o.rows), 1, graph.ByToken)
}

// result runs the plan.
func (o *oracle) result(v graph.Value) []float64 {
	o.t.Helper()
	p, err := o.Finish(v)
	if err != nil {
		o.t.Fatal(err)
	}
	var flat []float64
	for _, row := range ref.New(p, nil).Run(&o.batch) {
		flat = append(flat, row...)
	}
	return flat
}

// rowInfo returns the buffer rows of the table for a batch of one sequence.
func (o *oracle) rowInfo() []int32 {
	var info []int32
	for _, p := range o.batch.Pos {
		info = append(info, p, p+1, 0, 0)
	}
	return info
}

// ulps is a bound of n units in the last place of the reference, for values whose
// terms are not much larger than the value.
func ulps(want []float64, n, floor float64) func(int) float64 {
	return func(i int) float64 { return n * 0x1p-23 * math.Max(math.Abs(want[i]), floor) }
}

func TestUnary(t *testing.T) {
	x := append(normal(1, 990), 0, 88, -88, 30, -30, 12, -12, 1e-6, -1e-6, 4.5)
	for f := graph.Identity; f <= graph.Tanh; f++ {
		o := newOracle(t, 1)
		want := o.result(o.Act(o.value(x), f))
		out := once{
			kernel: "unary", grid: groups("unary", len(x)), args: map[string][]byte{"x": raw(x), "y": nans(len(x))},
			params: shaders.Bytes(&shaders.UnaryParams{Count: uint32(len(x)), Func: uint32(f), By: 1}),
		}.run(t)
		// a factor close to 1 or 0 has an error of some units of 1, times x
		near(t, fmt.Sprintf("function %d", f), as[float32](out["y"]), want, func(i int) float64 {
			return 4 * 0x1p-23 * math.Max(math.Abs(want[i]), math.Max(1, math.Abs(float64(x[i]))))
		})
	}
	o := newOracle(t, 1)
	want := o.result(o.Softcap(o.Scale(o.value(x), 2.5), 30))
	out := once{
		kernel: "unary", grid: groups("unary", len(x)), args: map[string][]byte{"x": raw(x), "y": nans(len(x))},
		params: shaders.Bytes(&shaders.UnaryParams{Count: uint32(len(x)), By: 2.5, Cap: 30}),
	}.run(t)
	near(t, "soft cap", as[float32](out["y"]), want, ulps(want, 4, 0x1p-20))
}

func TestBinary(t *testing.T) {
	const rows, width, group = 3, 70, 7
	a, b, narrow := normal(1, rows*width), normal(2, rows*width), normal(3, rows*width/group)
	o := newOracle(t, rows)
	sum := o.result(o.Add(o.value(a), o.value(b)))
	out := once{
		kernel: "binary", grid: groups("binary", len(a)), args: map[string][]byte{"a": raw(a), "b": raw(b), "y": nans(len(a))},
		params: shaders.Bytes(&shaders.BinaryParams{Count: uint32(len(a)), Group: 1}),
	}.run(t)
	near(t, "add", as[float32](out["y"]), sum, ulps(sum, 1, 0))
	o = newOracle(t, rows)
	product := o.result(o.Mul(o.value(a), o.value(narrow)))
	out = once{
		kernel: "binary", grid: groups("binary", len(a)), args: map[string][]byte{"a": raw(a), "b": raw(narrow), "y": nans(len(a))},
		params: shaders.Bytes(&shaders.BinaryParams{Count: uint32(len(a)), Group: group, Mul: 1}),
	}.run(t)
	near(t, "mul", as[float32](out["y"]), product, ulps(product, 1, 0))
}

func TestGlu(t *testing.T) {
	g, u := normal(1, 600), normal(2, 600)
	for _, c := range []struct {
		f     graph.Func
		limit float32
	}{{graph.SiLU, 0}, {graph.GELU, 0}, {graph.SiLU, 0.8}} {
		o := newOracle(t, 1)
		want := o.result(o.Glu(o.value(g), o.value(u), c.f, c.limit))
		out := once{
			kernel: "glu", grid: groups("glu", len(g)), args: map[string][]byte{"gate": raw(g), "up": raw(u), "y": nans(len(g))},
			params: shaders.Bytes(&shaders.GluParams{Count: uint32(len(g)), Func: uint32(c.f), Limit: c.limit}),
		}.run(t)
		near(t, "glu", as[float32](out["y"]), want, func(i int) float64 {
			return 8 * 0x1p-23 * math.Max(math.Abs(want[i]), math.Abs(float64(g[i]*u[i])))
		})
	}
}

func TestAffineAndTemperature(t *testing.T) {
	const rows, width = 4, 96
	x, w, b := normal(1, rows*width), normal(2, 32), normal(3, width)
	o := newOracle(t, rows)
	want := o.result(o.Affine(o.value(x), weight(w, 32), weight(b, width)))
	out := once{
		kernel: "affine", grid: groups("affine", len(x)), args: map[string][]byte{"x": raw(x), "w": raw(w), "b": raw(b), "y": nans(len(x))},
		params: shaders.Bytes(&shaders.AffineParams{Count: rows * width, Width: width, WLen: 32, BLen: width}),
	}.run(t)
	near(t, "affine", as[float32](out["y"]), want, func(i int) float64 {
		return 2 * 0x1p-23 * (math.Abs(float64(x[i]*w[i%32])) + math.Abs(float64(b[i%width])))
	})
	o = newOracle(t, rows)
	want = o.result(o.Temperature(o.value(x), graph.Temperature{Every: 300, Scale: 0.1}))
	out = once{
		kernel: "temperature", grid: groups("temperature", len(x)), args: map[string][]byte{"x": raw(x), "rows": raw(o.rowInfo()), "y": nans(len(x))},
		params: shaders.Bytes(&shaders.TemperatureParams{Count: rows * width, Width: width, Every: 300, Scale: 0.1}),
	}.run(t)
	near(t, "temperature", as[float32](out["y"]), want, ulps(want, 3, 0))
}

func TestColumns(t *testing.T) {
	const rows, width = 3, 24
	x, z := normal(1, rows*width), normal(2, rows*8)
	for _, c := range []struct {
		name   string
		plan   func(o *oracle, v graph.Value) graph.Value
		params shaders.ColumnsParams
	}{
		{"slice", func(o *oracle, v graph.Value) graph.Value { return o.Slice(v, 8, 2, 5) }, shaders.ColumnsParams{Group: 8, First: 2, Take: 5, Times: 1}},
		{"repeat", func(o *oracle, v graph.Value) graph.Value { return o.Repeat(v, 6, 3, false) }, shaders.ColumnsParams{Group: 6, Take: 6, Times: 3}},
		{"tile", func(o *oracle, v graph.Value) graph.Value { return o.Repeat(v, 6, 3, true) }, shaders.ColumnsParams{Group: 6, Take: 6, Times: 3, Tile: 1}},
	} {
		o := newOracle(t, rows)
		want := o.result(c.plan(o, o.value(x)))
		c.params.Count, c.params.Width = uint32(len(want)), width
		out := once{
			kernel: "columns", grid: groups("columns", len(want)), args: map[string][]byte{"x": raw(x), "y": nans(len(want))},
			params: shaders.Bytes(&c.params),
		}.run(t)
		near(t, c.name, as[float32](out["y"]), want, func(int) float64 { return 0 })
	}
	for _, c := range []struct{ groupX, groupZ int }{{12, 4}, {6, 8}, {24, 2}} {
		o := newOracle(t, rows)
		want := o.result(o.Concat(o.value(x), o.value(z), c.groupX, c.groupZ))
		out := once{
			kernel: "concat", grid: groups("concat", len(want)), args: map[string][]byte{"a": raw(x), "b": raw(z), "y": nans(len(want))},
			params: shaders.Bytes(&shaders.ConcatParams{
				Count: uint32(len(want)), WidthA: width, WidthB: 8, GroupA: uint32(c.groupX), GroupB: uint32(c.groupZ),
			}),
		}.run(t)
		near(t, "concat", as[float32](out["y"]), want, func(int) float64 { return 0 })
	}
}

func TestGatherAndPool(t *testing.T) {
	const rows, width = 5, 40
	x := normal(1, rows*width)
	o := newOracle(t, rows)
	o.batch.Outputs = []int32{1, 4}
	want := o.result(o.Gather(o.value(x)))
	out := once{
		kernel: "gather", grid: groups("gather", len(want)), args: map[string][]byte{"x": raw(x), "index": raw(o.batch.Outputs), "y": nans(len(want))},
		params: shaders.Bytes(&shaders.GatherParams{Count: uint32(len(want)), Width: width}),
	}.run(t)
	near(t, "gather", as[float32](out["y"]), want, func(int) float64 { return 0 })
	for kind := graph.PoolMean; kind <= graph.PoolLast; kind++ {
		o := newOracle(t, rows)
		o.batch.Spans = []llm.Span{{First: 0, Rows: 2}, {First: 2, Rows: 3}}
		want := o.result(o.Pool(o.value(x), kind))
		out := once{
			kernel: "pool", grid: groups("pool", len(want)),
			args:   map[string][]byte{"x": raw(x), "spans": raw([]int32{0, 2, 2, 3}), "y": nans(len(want))},
			params: shaders.Bytes(&shaders.PoolParams{Count: uint32(len(want)), Width: width, Kind: uint32(kind)}),
		}.run(t)
		near(t, "pool", as[float32](out["y"]), want, func(int) float64 { return 4 * 0x1p-23 })
	}
}

func TestNorm(t *testing.T) {
	for _, c := range []struct {
		kind               graph.NormKind
		width, group, wLen int
		bias, add          bool
	}{
		{graph.RMS, 576, 576, 576, false, false},
		{graph.RMS, 576, 576, 576, false, true},
		{graph.RMS, 96, 32, 32, false, false},
		{graph.RMS, 96, 32, 96, false, false},
		{graph.Layer, 200, 200, 200, true, false},
		{graph.Layer, 200, 200, 200, true, true},
		{graph.L2, 128, 64, 0, false, false},
	} {
		const rows = 3
		x, r, w, b := normal(1, rows*c.width), normal(2, rows*c.width), normal(3, c.wLen), normal(4, c.width)
		o := newOracle(t, rows)
		v := o.value(x)
		p := shaders.NormParams{Width: uint32(c.width), Group: uint32(c.group), WLen: uint32(c.wLen), Kind: uint32(c.kind), Eps: 1e-5}
		if c.add {
			v, p.Add = o.Add(v, o.value(r)), 1
		}
		var gain, bias *graph.Weight
		if c.wLen > 0 {
			gain = weight(w, c.wLen)
		}
		if c.bias {
			bias, p.BLen = weight(b, c.width), uint32(c.width)
		}
		want := o.result(o.Norm(v, c.kind, gain, bias, 1e-5, c.group))
		args := map[string][]byte{"x": raw(x), "r": raw(r), "b": raw(b), "y": nans(len(x)), "sum": nans(len(x))}
		if c.wLen > 0 {
			args["w"] = raw(w)
		}
		out := once{
			kernel: "norm", grid: [3]uint32{uint32(rows * c.width / c.group), 1, 1}, args: args, params: shaders.Bytes(&p),
		}.run(t)
		near(t, fmt.Sprintf("norm %+v", c), as[float32](out["y"]), want, ulps(want, 8, 1))
		if c.add {
			sum := make([]float64, len(x))
			for i := range x {
				sum[i] = float64(x[i] + r[i])
			}
			near(t, "sum", as[float32](out["sum"]), sum, func(int) float64 { return 0 })
		}
	}
}

func TestRope(t *testing.T) {
	for _, c := range []struct {
		dim, first, pairs int
		adjacent          bool
		scale             float32
	}{{64, 0, 32, false, 1}, {64, 0, 32, true, 1}, {80, 0, 16, false, 1.25}, {96, 64, 16, true, 1}} {
		const rows, heads = 5, 2
		o := newOracle(t, rows)
		o.batch.Pos = []int32{0, 1, 1000, 131071, 1 << 20}
		x := normal(1, rows*heads*c.dim)
		r := graph.Rope{HeadDim: c.dim, First: c.first, Adjacent: c.adjacent, Scale: c.scale}
		for i := range c.pairs {
			r.Freqs = append(r.Freqs, float32(math.Pow(10000, -float64(i)/float64(c.pairs))))
		}
		want := o.result(o.Rope(o.value(x), r))
		p := shaders.RopeParams{
			Rows: rows, Heads: heads, HeadDim: uint32(c.dim), First: uint32(c.first), HalfDim: uint32(c.pairs), Scale: c.scale,
		}
		if c.adjacent {
			p.Adjacent = 1
		}
		out := once{
			kernel: "rope", grid: groups("rope", rows*heads*(c.dim-c.pairs)), params: shaders.Bytes(&p),
			args: map[string][]byte{"x": raw(x), "rows": raw(o.rowInfo()), "freqs": raw(r.Freqs), "y": nans(len(x))},
		}.run(t)
		near(t, fmt.Sprintf("rope %+v", c), as[float32](out["y"]), want, ulps(want, 3, 6))
	}
}
