package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("hy_v4", model.Arch{Open: openHYV4, Ahead: true}) }

// hyV4 has several residual streams. Each half of a block reads a weighted sum of
// them and adds its result to each stream with another weight.
type hyV4 struct {
	decoder
	streams        int
	eps, magnitude float32
	attn, feed     []hyper
	last           hyper
}

// hyper computes the stream weights of a half from the streams' norm. fn is the
// matrix.
type hyper struct{ fn, base, scale *graph.Weight }

// maxStreams bounds the number of streams in a hostile file. Known models have 4.
const maxStreams = 64

// openHYV4 opens Hunyuan 4: parallel residual streams, gated latent attention with
// sinks, which in some models attends to chosen positions, and bounded experts.
// Source: arXiv 2409.19606.
func openHYV4(f *model.File) (model.Model, error) {
	m := &hyV4{decoder: *newDecoder(f), streams: f.Int("hyper_connection.count")}
	m.ownOutput(f)
	c := &m.cfg
	m.eps, m.magnitude = f.Float("hyper_connection.epsilon"), f.Float("hyper_connection.magnitude")
	if m.streams > maxStreams {
		f.Fail("hyper_connection.count", "%d streams; at most %d are supported", m.streams, maxStreams)
		m.streams = 1
	}
	m.norm = rms(f, "output_norm", c.Embd)
	s := readLatent(f, c)
	if !s.absorbed {
		f.Fail("attention.key_length_mla", "missing")
	}
	var x *indexers
	if f.IntOr("attention.indexer.top_k", 0) > 0 {
		x = newIndexers(f, c, s, true, m.norm.eps)
		x.rope.First = x.dim - s.rotated
	}
	layers := c.Layers
	for i := range layers {
		a := bindLatent(f, c, s, i)
		a.sinks = f.Weight(blk(i, "attn_sinks.weight"), s.heads)
		a.gate = f.Matrix(blk(i, "attn_gate.weight"), c.Embd, s.heads*s.value)
		if x != nil {
			x.bind(f, c, i, a)
		}
		h := bindLead(f, c, i, graph.SigmoidGate)
		if e, ok := h.(*experts); ok {
			e.bound, e.early = layerBound(f, c, "swiglu_clamp_exp", i, 0), true
		}
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), mix: a, ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd), ffn: h,
		})
		m.attn = append(m.attn, bindHyper(f, blk(i, "hc_attn"), m.streams*c.Embd, 2*m.streams, 2))
		m.feed = append(m.feed, bindHyper(f, blk(i, "hc_ffn"), m.streams*c.Embd, 2*m.streams, 2))
	}
	m.last = bindHyper(f, "output_hc", m.streams*c.Embd, m.streams, 1)
	if x != nil {
		x.layers(c)
	}
	return m, nil
}

// bindHyper binds the n weights of a half. They form groups of size n/parts, and
// each group has one scale.
func bindHyper(f *model.File, name string, width, n, parts int) hyper {
	h := hyper{fn: f.Matrix(name+"_fn.weight", width, n), base: f.Weight(name+"_base.weight", n)}
	v := f.Values(name+"_scale.weight", parts)
	if v == nil {
		f.Weight(name+"_scale.weight", parts) // reports the tensor as missing
		v = make([]float32, parts)
	}
	var each []float32
	for i := range n {
		each = append(each, v[i/(n/parts)])
	}
	h.scale = vector(name+"_scale", each)
	return h
}

// weights computes the stream weights of a half: sigmoid(scale·fn·norm(x) + base).
func (m *hyV4) weights(g *graph.Builder, x graph.Value, h hyper) graph.Value {
	y := g.Linear(g.Norm(x, graph.RMS, nil, nil, m.norm.eps, 0), h.fn, nil)
	return g.Act(g.Affine(y, h.scale, h.base), graph.Sigmoid)
}

// sum returns the weighted sum of the streams.
func (m *hyV4) sum(g *graph.Builder, x, w graph.Value) graph.Value {
	x = g.Mul(x, shifted(g, w, m.eps))
	y := g.Slice(x, 0, 0, m.cfg.Embd)
	for i := 1; i < m.streams; i++ {
		y = g.Add(y, g.Slice(x, 0, i*m.cfg.Embd, m.cfg.Embd))
	}
	return y
}

// half computes one half of a block on the streams.
func (m *hyV4) half(g *graph.Builder, x graph.Value, h hyper, run func(y graph.Value) graph.Value) graph.Value {
	w := m.weights(g, x, h)
	y := run(m.sum(g, x, g.Slice(w, 0, 0, m.streams)))
	after := shifted(g, g.Scale(g.Slice(w, 0, m.streams, m.streams), m.magnitude), m.eps)
	return g.Add(x, g.Mul(g.Repeat(y, g.Width(y), m.streams, true), after))
}

// Forward records the pass.
func (m *hyV4) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, 1, graph.ByToken)
	x = g.Repeat(x, m.cfg.Embd, m.streams, true)
	for i := range m.blocks {
		g.Layer()
		b := &m.blocks[i]
		x = m.half(g, x, m.attn[i], func(y graph.Value) graph.Value { return b.mix.forward(g, b.mixNorm.apply(g, y), in) })
		x = m.half(g, x, m.feed[i], func(y graph.Value) graph.Value { return b.ffn.forward(g, b.ffnNorm.apply(g, y), in) })
	}
	if !pooled(&m.cfg, in) {
		x = g.Gather(x)
	}
	return m.head(g, in, m.sum(g, x, m.weights(g, x, m.last)))
}
