package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

// experts is a mixture of feed-forward blocks: a router chooses some for each
// row, and what they give is added by weight; a shared block, gated or not,
// works on every row. Source: arXiv 2101.03961.
type experts struct {
	router, brouter   *graph.Weight
	routing           graph.Routing
	gate, up, down    *graph.Weight // [cols, rows, experts]; merged: up holds both
	bgate, bup, bdown *graph.Weight // [rows, experts]
	f                 graph.Func
	limit             float32
	bound             float32                                                  // bound of f(gate), and of up on both sides; 0 for none
	early             bool                                                     // bounds gate itself instead of f(gate)
	custom            func(g *graph.Builder, gate, up graph.Value) graph.Value // instead of f(gate)·up; nil for that
	before            bool                                                     // the weights multiply what the experts are given, not what they give
	merged            bool
	shared            *ffn
	sharedGate        *graph.Weight // [embd, 1] or nil
}

// readRouting reads how a layer's experts are chosen, apart from the bias.
func readRouting(f *model.File, c *model.Config, layer int, def graph.Gating, normalise bool) graph.Routing {
	r := graph.Routing{
		Experts: f.Int("expert_count"), Gating: def, Normalise: normalise,
		Used:  f.PerLayer("expert_used_count", c.Layers, -1)[layer],
		Scale: f.Factor("expert_weights_scale", 1),
	}
	if r.Used < 1 || r.Used > r.Experts || r.Experts > maxExperts {
		f.Fail("expert_used_count", "%d of %d experts", r.Used, r.Experts)
		r.Experts, r.Used = 1, 1
	}
	switch n := f.IntOr("expert_gating_func", 0); n {
	case 0:
	case 1:
		r.Gating = graph.Softmax
	case 2:
		r.Gating = graph.SigmoidGate
	case 3:
		r.Gating = graph.SoftmaxSelected
	default:
		f.Fail("expert_gating_func", "%d; known: 1 softmax, 2 sigmoid, 3 softmax of the chosen", n)
	}
	if n := f.IntOr("expert_group_count", 0); n > 1 {
		r.Groups, r.UsedGroups = n, f.Int("expert_group_used_count")
		if r.Experts%n != 0 || r.UsedGroups > n || r.UsedGroups*(r.Experts/n) < r.Used {
			f.Fail("expert_group_count", "%d of %d groups of %d experts, %d used", r.UsedGroups, n, r.Experts, r.Used)
			r.Groups = 0
		}
	}
	return r
}

// maxExperts bounds the tables of a hostile file.
const maxExperts = 4096

// expertSize is the hidden size of a layer's experts.
func expertSize(f *model.File, c *model.Config, layer int, r graph.Routing) int {
	if f.Has("expert_feed_forward_length") {
		return f.PerLayer("expert_feed_forward_length", c.Layers, -1)[layer]
	}
	return f.PerLayer("feed_forward_length", c.Layers, -1)[layer] / r.Used
}

// newExperts binds a layer's router and the matrices that end its experts.
func newExperts(f *model.File, c *model.Config, layer, n int, r graph.Routing, fn graph.Func) *experts {
	return &experts{
		router:  f.Weight(blk(layer, "ffn_gate_inp.weight"), c.Embd, r.Experts),
		brouter: f.Optional(blk(layer, "ffn_gate_inp.bias"), r.Experts),
		routing: r,
		down:    f.Matrix(blk(layer, "ffn_down_exps.weight"), n, c.Embd, r.Experts),
		bdown:   f.Optional(blk(layer, "ffn_down_exps.bias"), c.Embd, r.Experts),
		f:       fn,
	}
}

// bindUp binds the matrices that begin the experts.
func (e *experts) bindUp(f *model.File, c *model.Config, layer, n int) {
	e.up = f.Matrix(blk(layer, "ffn_up_exps.weight"), c.Embd, n, e.routing.Experts)
	e.bup = f.Optional(blk(layer, "ffn_up_exps.bias"), n, e.routing.Experts)
}

// bindExperts binds a layer's router and gated experts of hidden size n; gate
// and up may be one tensor.
func bindExperts(f *model.File, c *model.Config, layer, n int, r graph.Routing, fn graph.Func) *experts {
	e := newExperts(f, c, layer, n, r, fn)
	if merged := blk(layer, "ffn_gate_up_exps.weight"); f.HasTensor(merged) {
		e.merged, e.up = true, f.Matrix(merged, c.Embd, 2*n, r.Experts)
		e.bup = f.Optional(blk(layer, "ffn_gate_up_exps.bias"), 2*n, r.Experts)
		return e
	}
	e.bindUp(f, c, layer, n)
	e.gate = f.Matrix(blk(layer, "ffn_gate_exps.weight"), c.Embd, n, r.Experts)
	e.bgate = f.Optional(blk(layer, "ffn_gate_exps.bias"), n, r.Experts)
	return e
}

// choiceBias binds the correction that is added for the choice only.
func (e *experts) choiceBias(f *model.File, layer int) {
	e.routing.Bias = f.Optional(blk(layer, "exp_probs_b.bias"), e.routing.Experts)
}

// bindShared binds the block of hidden size n that works on every row.
func (e *experts) bindShared(f *model.File, c *model.Config, layer, n int) {
	e.shared = &ffn{
		gate: f.Matrix(blk(layer, "ffn_gate_shexp.weight"), c.Embd, n),
		up:   f.Matrix(blk(layer, "ffn_up_shexp.weight"), c.Embd, n),
		down: f.Matrix(blk(layer, "ffn_down_shexp.weight"), n, c.Embd),
		f:    e.f,
	}
}

// forward routes each row and adds up what its experts give.
func (e *experts) forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value {
	y := e.mix(g, x, g.Linear(x, e.router, e.brouter))
	if e.shared == nil {
		return y
	}
	s := e.shared.forward(g, x, in)
	if e.sharedGate != nil {
		s = g.Mul(s, g.Act(g.Linear(x, e.sharedGate, nil), graph.Sigmoid))
	}
	return g.Add(y, s)
}

// mix applies the experts that the router's logits choose.
func (e *experts) mix(g *graph.Builder, x, logits graph.Value) graph.Value {
	route := g.Route(logits, e.routing)
	if e.before {
		n := e.routing.Used
		w := g.Slice(route, 0, n, n)
		x = g.Mul(g.Repeat(x, g.Width(x), n, false), w)
		route = g.Concat(g.Slice(route, 0, 0, n), g.Affine(g.Scale(w, 0), nil, constant("one", n, 1)), n, n)
	}
	var y graph.Value
	switch {
	case e.merged:
		up := g.ExpertLinear(x, route, e.up, e.bup)
		n := e.up.Rows() / 2
		y = e.glu(g, g.Slice(up, 2*n, 0, n), g.Slice(up, 2*n, n, n))
	case e.gate == nil:
		y = g.Act(g.ExpertLinear(x, route, e.up, e.bup), e.f)
	default:
		y = e.glu(g, g.ExpertLinear(x, route, e.gate, e.bgate), g.ExpertLinear(x, route, e.up, e.bup))
	}
	return g.ExpertSum(g.ExpertLinear(y, route, e.down, e.bdown), route)
}

// glu computes f(gate)·up, its factors bounded if the layer has a bound.
func (e *experts) glu(g *graph.Builder, gate, up graph.Value) graph.Value {
	if e.custom != nil {
		return e.custom(g, gate, up)
	}
	if e.bound == 0 {
		return g.Glu(gate, up, e.f, e.limit)
	}
	return bounded(g, gate, up, e.f, e.bound, e.early)
}

// bounded computes f(gate)·up with up within ±bound and f(gate), or early gate itself,
// at most bound.
func bounded(g *graph.Builder, gate, up graph.Value, f graph.Func, bound float32, early bool) graph.Value {
	if early {
		gate = g.Act(atMost(g, gate, bound), f)
	} else {
		gate = atMost(g, g.Act(gate, f), bound)
	}
	return g.Mul(gate, clamp(g, up, bound))
}

// layerBound reads the bound of a layer's factors: one number or one a layer, def
// without any.
func layerBound(f *model.File, c *model.Config, key string, layer int, def float32) float32 {
	v := f.Floats(key, c.Layers, def)[layer]
	if !(v > 1e-6) {
		return 0
	}
	return v
}
