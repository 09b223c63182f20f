package backendtest

import (
	"godwit/engine/dtype"
	"godwit/engine/graph"
)

// rare checks ops that few architectures have.
func (s *suite) rare(t T) {
	in := newInput(9)
	s.run(t, testCase{width: 48, bound: ulps(16), build: func(g *graph.Builder, x graph.Value) graph.Value {
		return g.Act(x, graph.Exp)
	}})
	s.run(t, testCase{width: 48, bound: ulps(16), build: func(g *graph.Builder, x graph.Value) graph.Value {
		return g.Temperature(x, graph.Temperature{Every: 5, Scale: 0.3, Offset: 1})
	}})
	router := in.weight("router", dtype.F32, 32, 12)
	small := in.weight("small", dtype.F32, 32, 40, 4)
	shared := graph.Routing{Experts: 12, Used: 3, Gating: graph.Softmax, Normalise: true, Share: 3}
	s.run(t, testCase{width: 32, bound: ulps(2048), build: func(g *graph.Builder, x graph.Value) graph.Value {
		route := g.Route(g.Linear(x, router, nil), shared)
		return g.ExpertSum(g.ExpertLinear(x, route, small, nil), route)
	}})
	s.scans(t, in)
}

// scans checks the recurrences whose decay differs between columns.
func (s *suite) scans(t T, in *input) {
	for _, width := range []int{40, 300} {
		rates := in.weight("rates", dtype.F32, 6, width)
		s.run(t, testCase{width: 2*width + 12, bound: ulps(4096), build: func(g *graph.Builder, x graph.Value) graph.Value {
			dt := g.Act(g.Slice(x, 0, width, width), graph.Sigmoid)
			return g.Scan(g.Slice(x, 0, 0, width), dt, g.Slice(x, 0, 2*width, 6), g.Slice(x, 0, 2*width+6, 6), 0, rates)
		}})
	}
	for i := range 6 {
		r := graph.Recur{Heads: 2, Scale: 0.4, Late: i&1 != 0, Before: i&2 != 0}
		s.run(t, testCase{width: 5*16 + 80, bound: ulps(4096), build: func(g *graph.Builder, x graph.Value) graph.Value {
			part := func(i int) graph.Value { return g.Slice(x, 0, 16*i, 16) }
			unit := func(v graph.Value) graph.Value { return g.Norm(v, graph.L2, nil, nil, 1e-6, 8) }
			decay := g.Scale(g.Act(part(2), graph.Softplus), -1)
			from, to := g.Scale(unit(part(3)), -0.5), unit(part(4))
			if i >= 4 {
				from, to = graph.None, graph.None
			}
			return g.Recur(part(0), unit(part(1)), g.Slice(x, 0, 80, 80), decay, from, to, 0, r)
		}})
	}
}
