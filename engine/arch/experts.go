package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

// experts is a mixture of experts: a router chooses some feed-forward blocks for
// each row, and their results are added with weights. A shared expert, gated or
// not, processes every row. Source: arXiv 2101.03961.
type experts struct {
	router, brouter   *graph.Weight
	routing           graph.Routing
	gate, up, down    *graph.Weight // [cols, rows, experts]; in the merged form, up holds both gate and up
	bgate, bup, bdown *graph.Weight // [rows, experts]
	f                 graph.Func
	limit             float32
	bound             float32                                                  // upper bound of f(gate), and bound of up on both sides; 0 for none
	early             bool                                                     // bounds gate itself instead of f(gate)
	custom            func(g *graph.Builder, gate, up graph.Value) graph.Value // replaces f(gate)·up; nil for the usual form
	before            bool                                                     // the weights multiply the experts' inputs instead of their results
	merged            bool
	shared            *ffn
	sharedGate        *graph.Weight // [embd, 1] or nil
}

// readRouting reads how a layer chooses its experts, except the choice bias.
func readRouting(f *model.File, c *model.Config, layer int, def graph.Gating, normalise bool) graph.Routing {
	r := graph.Routing{
		Experts: f.Int("expert_count"), Gating: def, Normalise: normalise,
		Used:  f.PerLayer("expert_used_count", c.Layers, -1)[layer],
		Scale: f.Factor("expert_weights_scale", 1),
	}
	if r.Used < 1 || r.Used > r.Experts || r.Experts > maxExperts {
		f.Fail("expert_used_count", "cannot use %d of %d experts", r.Used, r.Experts)
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
			f.Fail("expert_group_count", "cannot choose %d of %d experts from %d of %d groups", r.Used, r.Experts, r.UsedGroups, n)
			r.Groups = 0
		}
	}
	return r
}

// maxExperts bounds the tables that a hostile file can request.
const maxExperts = 4096

// expertSize returns the hidden size of a layer's experts.
func expertSize(f *model.File, c *model.Config, layer int, r graph.Routing) int {
	if f.Has("expert_feed_forward_length") {
		return f.PerLayer("expert_feed_forward_length", c.Layers, -1)[layer]
	}
	return f.PerLayer("feed_forward_length", c.Layers, -1)[layer] / r.Used
}

// newExperts binds a layer's router and the experts' down matrices.
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

// bindUp binds the experts' gate and up matrices.
func (e *experts) bindUp(f *model.File, c *model.Config, layer, n int) {
	e.up = f.Matrix(blk(layer, "ffn_up_exps.weight"), c.Embd, n, e.routing.Experts)
	e.bup = f.Optional(blk(layer, "ffn_up_exps.bias"), n, e.routing.Experts)
}

// bindExperts binds a layer's router and gated experts of hidden size n. gate and
// up may be one tensor.
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

// choiceBias binds the bias that affects only the choice of experts, not their
// weights.
func (e *experts) choiceBias(f *model.File, layer int) {
	e.routing.Bias = f.Optional(blk(layer, "exp_probs_b.bias"), e.routing.Experts)
}

// bindShared binds a shared expert of hidden size n.
func (e *experts) bindShared(f *model.File, c *model.Config, layer, n int) {
	e.shared = &ffn{
		gate: f.Matrix(blk(layer, "ffn_gate_shexp.weight"), c.Embd, n),
		up:   f.Matrix(blk(layer, "ffn_up_shexp.weight"), c.Embd, n),
		down: f.Matrix(blk(layer, "ffn_down_shexp.weight"), n, c.Embd),
		f:    e.f,
	}
}

// forward routes each row and adds up the experts' results.
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

// glu computes f(gate)·up, with bounded factors if the layer has a bound.
func (e *experts) glu(g *graph.Builder, gate, up graph.Value) graph.Value {
	if e.custom != nil {
		return e.custom(g, gate, up)
	}
	if e.bound == 0 {
		return g.Glu(gate, up, e.f, e.limit)
	}
	return bounded(g, gate, up, e.f, e.bound, e.early)
}

// bounded computes f(gate)·up with up within ±bound and f(gate) at most bound. If
// early is set, gate itself is bounded instead of f(gate).
func bounded(g *graph.Builder, gate, up graph.Value, f graph.Func, bound float32, early bool) graph.Value {
	if early {
		gate = g.Act(atMost(g, gate, bound), f)
	} else {
		gate = atMost(g, g.Act(gate, f), bound)
	}
	return g.Mul(gate, clamp(g, up, bound))
}

// layerBound reads the bound of a layer's factors. The file may have one number,
// one per layer, or none, which gives def.
func layerBound(f *model.File, c *model.Config, key string, layer int, def float32) float32 {
	v := f.Floats(key, c.Layers, def)[layer]
	if !(v > 1e-6) {
		return 0
	}
	return v
}
