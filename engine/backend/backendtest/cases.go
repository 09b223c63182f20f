package backendtest

import (
	"math"

	"godwit/engine/dtype"
	"godwit/engine/graph"
)

// rowWise checks the ops whose rows are independent.
func (s *suite) rowWise(t T) {
	in := newInput(2)
	vec := func(n int) *graph.Weight { return in.weight("vector", dtype.F32, n) }
	freqs := func(n int) []float32 {
		f := make([]float32, n)
		for i := range f {
			f[i] = float32(math.Pow(10000, -float64(i)/float64(n)))
		}
		return f
	}
	w96, b96, w32 := vec(96), vec(96), vec(32)
	list := []testCase{
		{name: "rms norm", width: 96, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value { return g.RMSNorm(x, w96, 1e-5) }},
		{name: "rms norm of heads", width: 96, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Norm(x, graph.RMS, w32, nil, 1e-6, 32)
		}},
		{name: "rms norm without weight", width: 50, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Norm(x, graph.RMS, nil, nil, 1e-6, 0)
		}},
		{name: "layer norm", width: 96, bound: ulps(128), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Norm(x, graph.Layer, w96, b96, 1e-5, 0)
		}},
		{name: "rms norm with bias", width: 96, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Norm(x, graph.RMS, w96, w32, 1e-6, 32)
		}},
		{name: "layer norm of heads", width: 96, bound: ulps(128), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Norm(x, graph.Layer, w96, nil, 1e-5, 32)
		}},
		{name: "l2 norm with weight", width: 96, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Norm(x, graph.L2, w32, b96, 1e-6, 32)
		}},
		{name: "l2 norm of heads", width: 96, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Norm(x, graph.L2, nil, nil, 1e-6, 32)
		}},
		{name: "affine", width: 96, bound: ulps(4), build: func(g *graph.Builder, x graph.Value) graph.Value { return g.Affine(x, w32, b96) }},
		{name: "rope halves", width: 96, bound: ulps(8), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Rope(x, graph.Rope{HeadDim: 48, Freqs: freqs(24), Scale: 1})
		}},
		{name: "rope pairs, partial, scaled", width: 96, bound: ulps(8), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Rope(x, graph.Rope{HeadDim: 48, First: 16, Freqs: freqs(10), Scale: 1.2, Adjacent: true})
		}},
		{name: "temperature", width: 40, bound: ulps(4), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Temperature(x, graph.Temperature{Every: 3, Scale: 0.7})
		}},
		{name: "add and scale", width: 33, bound: ulps(4), build: func(g *graph.Builder, x graph.Value) graph.Value { return g.Add(x, g.Scale(x, 0.3)) }},
		{name: "mul by groups", width: 96, bound: ulps(4), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Mul(x, g.Slice(x, 32, 3, 1))
		}},
		{name: "softcap", width: 40, bound: ulps(16), build: func(g *graph.Builder, x graph.Value) graph.Value { return g.Softcap(x, 1.5) }},
		{name: "slice and concat", width: 96, bound: ulps(0), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Concat(g.Slice(x, 24, 4, 8), g.Slice(x, 0, 90, 5), 8, 5)
		}},
		{name: "repeat", width: 24, bound: ulps(0), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Concat(g.Repeat(x, 6, 2, false), g.Repeat(x, 6, 2, true), 48, 48)
		}},
		{name: "clamped glu", width: 64, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.Glu(g.Slice(x, 2, 0, 1), g.Slice(x, 2, 1, 1), graph.SiLU, 0.9)
		}},
	}
	places := in.weight("places", dtype.F32, 20, 16)
	list = append(list, testCase{name: "rows by position, first row", width: 20, bound: ulps(4), build: func(g *graph.Builder, x graph.Value) graph.Value {
		return g.Add(g.Add(x, g.Embed(places, 0.5, graph.ByPosition)), g.Embed(places, 0, graph.ByZero))
	}})
	for f := graph.Identity; f <= graph.Tanh; f++ {
		list = append(list,
			testCase{name: "function " + string('0'+rune(f)), width: 70, bound: ulps(16), build: func(g *graph.Builder, x graph.Value) graph.Value { return g.Act(g.Scale(x, 3), f) }},
			testCase{name: "glu " + string('0'+rune(f)), width: 70, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value {
				return g.Glu(g.Slice(x, 0, 0, 35), g.Slice(x, 0, 35, 35), f, 0)
			}})
	}
	for _, c := range list {
		t.Run(c.name, func(t T) { s.run(t, c) })
	}
}

// matrixTypes are the weight types that the suite can encode.
var matrixTypes = []dtype.Type{
	dtype.F32, dtype.F16, dtype.BF16, dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1, dtype.Q8_0,
	dtype.Q2_K, dtype.Q3_K, dtype.Q4_K, dtype.Q5_K, dtype.Q6_K, dtype.IQ4_NL, dtype.MXFP4, dtype.TQ3_1S, dtype.TQ4_1S,
}

// matrixBound returns the bound for n columns of weights of magnitude up to 5
// (the tail of a normal distribution, coarsely stored). Activations of
// magnitude up to 5 have an error of at most 5/254, and errors of random sign
// add up as √n. The bound is six standard deviations.
func matrixBound(t dtype.Type, n int) func(float64) float64 {
	if t.IsFloat() {
		return ulps(float64(n) * math.Sqrt(float64(n)))
	}
	return func(float64) float64 { return 6 * 5.0 / 254 / math.Sqrt(3) * math.Sqrt(float64(n)) }
}

// matrices checks the matrix types at odd and even sizes.
func (s *suite) matrices(t T) {
	in := newInput(3)
	for _, ty := range matrixTypes {
		t.Run(ty.String(), func(t T) { s.matricesOf(t, in, ty) })
	}
	a := graph.Adapter{A: in.weight("a", dtype.F32, 64, 4), B: in.weight("b", dtype.F32, 4, 10), Scale: 0.5}
	w := in.weight("adapted", dtype.F32, 64, 10)
	s.run(t, testCase{width: 64, bound: ulps(64 * 64), build: func(g *graph.Builder, x graph.Value) graph.Value {
		g.Adapt("adapted", a)
		return g.Linear(x, w, nil)
	}})
}

// matricesOf checks one type.
func (s *suite) matricesOf(t T, in *input, ty dtype.Type) {
	cols := max(ty.Elems(), 32) * 3
	if ty.Elems() == 1 {
		cols = 83
	}
	for _, rows := range []int{1, 16, 45} {
		w, bias := in.weight("matrix", ty, cols, rows), in.weight("bias", dtype.F32, rows)
		for _, n := range []int{1, 5, 14} {
			s.run(t, testCase{
				name: ty.String(), width: cols, rows: n, bound: matrixBound(ty, cols),
				build: func(g *graph.Builder, x graph.Value) graph.Value { return g.Linear(x, w, bias) },
			})
		}
	}
	cols = max(ty.Elems(), 32)
	heads := in.weight("heads", ty, cols, 20, 3)
	s.run(t, testCase{
		width: 3 * cols, bound: matrixBound(ty, cols),
		build: func(g *graph.Builder, x graph.Value) graph.Value { return g.HeadLinear(x, heads) },
	})
}

// experts checks routing and expert matrices. Router logits are exact in
// float32, so the choice cannot differ.
func (s *suite) experts(t T) {
	in := newInput(4)
	for _, ty := range []dtype.Type{dtype.F32, dtype.Q8_0, dtype.Q4_K, dtype.MXFP4} {
		cols := max(ty.Elems(), 32)
		up, down := in.weight("up", ty, cols, 32, 8), in.weight("down", dtype.F32, 32, 24, 8)
		ub, db := in.weight("ub", dtype.F32, 32, 8), in.weight("db", dtype.F32, 24, 8)
		bias, scale := in.weight("bias", dtype.F32, 8), in.weight("scale", dtype.F32, 8)
		for _, r := range []graph.Routing{
			{Experts: 8, Used: 3, Gating: graph.Softmax, Normalise: true},
			{Experts: 8, Used: 2, Gating: graph.SigmoidGate, Bias: bias, Normalise: true, Scale: 2.5},
			{Experts: 8, Used: 2, Gating: graph.SoftmaxSelected},
			{Experts: 8, Used: 3, Gating: graph.SigmoidGate, Bias: bias, Groups: 4, UsedGroups: 2},
			{Experts: 8, Used: 8, Gating: graph.Softmax},
		} {
			bound := matrixBound(ty, cols)
			wide := func(top float64) float64 { return bound(top) * 40 } // the down matrix sums 32 columns with this error
			s.run(t, testCase{width: cols, bound: wide, build: func(g *graph.Builder, x graph.Value) graph.Value {
				route := g.Route(g.Slice(x, 0, 5, 8), r)
				y := g.Act(g.ExpertLinear(x, route, up, ub), graph.Tanh)
				y = g.ExpertScale(g.ExpertLinear(y, route, down, db), route, scale)
				return g.ExpertSum(y, route)
			}})
		}
	}
}

// unchosen checks that experts that no row chooses are not read. Their weights
// are NaN. One matrix has a scale for each expert.
func (s *suite) unchosen(t T) {
	in := newInput(6)
	bias := in.weight("bias", dtype.F32, 8)
	copy(bias.Data[3*4:], encode(dtype.F32, []float32{-1e3, -1e3}))
	for _, ty := range []dtype.Type{dtype.F32, dtype.Q8_0} {
		up, down := in.weight("up", ty, 32, 48, 8), in.weight("down", dtype.F32, 48, 24, 8)
		for _, w := range []*graph.Weight{up, down} {
			one := len(w.Data) / 8
			for i := 3 * one; i < 5*one; i++ {
				w.Data[i] = 0xff // NaN as float16, bfloat16 or float32
			}
		}
		scaled := *up
		scaled.Scale = in.weight("scale", dtype.F32, 8)
		r := graph.Routing{Experts: 8, Used: 3, Gating: graph.Softmax, Normalise: true}
		bound := matrixBound(ty, 32)
		for _, n := range []int{1, 50} {
			s.run(t, testCase{width: 32, rows: n, bound: func(top float64) float64 { return bound(top) * 48 }, build: func(g *graph.Builder, x graph.Value) graph.Value {
				route := g.Route(g.Affine(g.Slice(x, 0, 5, 8), nil, bias), r)
				y := g.Glu(g.ExpertLinear(x, route, up, nil), g.ExpertLinear(x, route, &scaled, nil), graph.SiLU, 0)
				return g.ExpertSum(g.ExpertLinear(g.Act(y, graph.Tanh), route, down, nil), route)
			}})
		}
	}
}

// recurrent checks the ops that carry state from batch to batch.
func (s *suite) recurrent(t T) {
	in := newInput(5)
	for _, k := range []int{1, 3, 4} {
		w, b := in.weight("filter", dtype.F32, k, 40), in.weight("bias", dtype.F32, 40)
		s.run(t, testCase{width: 40, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value {
			return g.ShortConv(x, 0, w, b, graph.SiLU)
		}})
	}
	wide := in.weight("filter", dtype.F32, 4, 600)
	s.run(t, testCase{width: 600, bound: ulps(64), build: func(g *graph.Builder, x graph.Value) graph.Value {
		return g.ShortConv(x, 0, wide, nil, graph.Identity)
	}})
	for i := range 4 {
		d := graph.DeltaNet{KeyHeads: 2, ValueHeads: 4, KeyDim: 8, ValueDim: 16, Scale: 0.4, Grouped: i&1 != 0, Plain: i&2 != 0}
		// The state grows with every row. It is a sum of products of three
		// values over 14 rows.
		s.run(t, testCase{width: 16 + 16 + 64 + 4 + 4, bound: ulps(4096), build: func(g *graph.Builder, x graph.Value) graph.Value {
			k := g.Norm(g.Slice(x, 0, 16, 16), graph.L2, nil, nil, 1e-6, 8)
			decay := g.Scale(g.Act(g.Slice(x, 0, 96, 4), graph.Softplus), -1)
			beta := g.Act(g.Slice(x, 0, 100, 4), graph.Sigmoid)
			return g.DeltaNet(g.Slice(x, 0, 0, 16), k, g.Slice(x, 0, 32, 64), decay, beta, 0, d)
		}})
	}
	one := graph.DeltaNet{KeyHeads: 1, ValueHeads: 1, KeyDim: 16, ValueDim: 80, Scale: 0.3}
	s.run(t, testCase{width: 16 + 16 + 80 + 1 + 1, bound: ulps(4096), build: func(g *graph.Builder, x graph.Value) graph.Value {
		k := g.Norm(g.Slice(x, 0, 16, 16), graph.L2, nil, nil, 1e-6, 16)
		decay := g.Scale(g.Act(g.Slice(x, 0, 112, 1), graph.Softplus), -1)
		return g.DeltaNet(g.Slice(x, 0, 0, 16), k, g.Slice(x, 0, 32, 80), decay, g.Act(g.Slice(x, 0, 113, 1), graph.Sigmoid), 0, one)
	}})
}
