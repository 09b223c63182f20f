package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("gemma4", model.Arch{
		Open:     openGemma4,
		Required: []string{"*_norm*", "rope_freqs*"},
		// tensors of layers that read an earlier layer's cache
		Unread: []string{"blk.*.attn_k.weight", "blk.*.attn_v.weight", "blk.*.attn_k_norm.weight"},
	})
}

// gemma4 has larger heads in global layers than in windowed ones, norms on query,
// key and value heads, and a factor at the end of each block. Some sizes add a
// per-layer embedding, let the last layers read the cache of earlier ones, or run a
// mixture of experts in parallel to the feed-forward block.
type gemma4 struct {
	decoder
	perLayer         int // width of a per-layer embedding; 0 for none
	ownEmbd, project *graph.Weight
	ownNorm          norm
	layers           []gemma4Layer
}

// gemma4Layer holds what a block has in addition to the decoder's.
type gemma4Layer struct {
	outScale    *graph.Weight
	gate, back  *graph.Weight // matrices of the per-layer embedding
	ownPost     norm
	experts     *experts // nil for none
	routerScale *graph.Weight
	densePost   norm
	expertNorm  norm
	expertPost  norm
}

// openGemma4 opens Gemma 4; see gemma4.
func openGemma4(f *model.File) (model.Model, error) {
	m := &gemma4{decoder: *newDecoder(f), perLayer: f.IntOr("embedding_length_per_layer_input", 0)}
	c := &m.cfg
	m.scale = rootOf(c.Embd)
	m.norm = rms(f, "output_norm", c.Embd)
	m.softcap = f.Factor("final_logit_softcapping", 0)
	windowed, ok := f.Bools("attention.sliding_window_pattern", c.Layers)
	if !ok {
		f.Fail("attention.sliding_window_pattern", "missing")
		windowed = make([]bool, c.Layers)
	}
	if m.perLayer > 0 {
		m.ownEmbd = f.Weight("per_layer_token_embd.weight", m.perLayer*c.Layers, c.Vocab)
		m.project = f.Matrix("per_layer_model_proj.weight", c.Embd, m.perLayer*c.Layers)
		m.ownNorm = rms(f, "per_layer_proj_norm", m.perLayer)
		m.ownNorm.group = m.perLayer
	}
	m.bindAttention(f, windowed)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		b := &m.blocks[i]
		b.mixNorm = rms(f, blk(i, "attn_norm"), c.Embd)
		b.mixPost = rms(f, blk(i, "post_attention_norm"), c.Embd)
		b.ffnNorm = rms(f, blk(i, "ffn_norm"), c.Embd)
		b.ffnPost = rms(f, blk(i, "post_ffw_norm"), c.Embd)
		b.ffn = bindFFN(f, c, i, hidden[i], graph.GELU)
		m.layers = append(m.layers, m.bindLayer(f, i))
	}
	return m, nil
}

// bindAttention binds the attention of all blocks. The last blocks read the cache
// of the last windowed or global layer before them.
func (m *gemma4) bindAttention(f *model.File, windowed []bool) {
	c := &m.cfg
	h := readHeads(f, c, windowed)
	window := f.Int("attention.sliding_window")
	ropes := make(map[bool]*rotary)
	own := c.Layers - f.IntOr("attention.shared_kv_layers", 0)
	source := map[bool]int{true: -1, false: -1}
	for i, near := range windowed {
		if ropes[near] == nil {
			ropes[near] = gemma4Rope(f, h[i].dimK, near)
		}
		a := newAttention(f, c, h[i], i, ropes[near])
		a.Scale = 1
		if near {
			a.Window, a.Tiles = window, true
		}
		if a.loose = i < own; a.loose {
			source[near] = i
		} else if a.shared, a.Share = true, source[near]; a.Share < 0 {
			f.Fail("attention.shared_kv_layers", "layer %d has no earlier layer of its kind", i)
			a.Share = 0
		}
		a.bind(f, c)
		a.headNorms(f)
		a.vNorm = norm{kind: graph.RMS, eps: a.qNorm.eps, group: a.DimV}
		m.blocks = append(m.blocks, block{mix: a})
	}
}

// gemma4Rope returns the rotation of windowed layers, or of global ones, whose
// frequency factors hardly rotate most pairs.
func gemma4Rope(f *model.File, headDim int, near bool) *rotary {
	r := f.Rope(headDim)
	if near {
		r = r.Plain(f.FloatOr("rope.freq_base_swa", 10000))
		r.Dims = f.IntOr("rope.dimension_count_swa", r.Dims)
	} else if r.Factors = factors(f, "rope_freqs.weight", r.Dims/2); r.Factors == nil {
		f.Weight("rope_freqs.weight", r.Dims/2) // reports the tensor as missing
	}
	if r.Dims > headDim || r.Dims%2 != 0 || r.Dims == 0 {
		f.Fail("rope.dimension_count", "cannot rotate %d values of heads of %d", r.Dims, headDim)
		r.Dims = 2
	}
	return newRope(f, r, headDim, false)
}

func (m *gemma4) bindLayer(f *model.File, i int) gemma4Layer {
	c := &m.cfg
	l := gemma4Layer{outScale: f.Optional(blk(i, "layer_output_scale.weight"), 1)}
	if m.perLayer > 0 {
		l.gate = f.Matrix(blk(i, "inp_gate.weight"), c.Embd, m.perLayer)
		l.back = f.Matrix(blk(i, "proj.weight"), m.perLayer, c.Embd)
		l.ownPost = rms(f, blk(i, "post_norm"), c.Embd)
	}
	if f.IntOr("expert_count", 0) > 0 {
		r := readRouting(f, c, i, graph.Softmax, true)
		l.experts = bindExperts(f, c, i, expertSize(f, c, i, r), r, graph.GELU)
		l.routerScale = f.Weight(blk(i, "ffn_gate_inp.scale"), c.Embd)
		l.densePost = rms(f, blk(i, "post_ffw_norm_1"), c.Embd)
		l.expertNorm = rms(f, blk(i, "pre_ffw_norm_2"), c.Embd)
		l.expertPost = rms(f, blk(i, "post_ffw_norm_2"), c.Embd)
	}
	return l
}

// Forward records the pass.
func (m *gemma4) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, m.scale, graph.ByToken)
	if in.Pictures {
		x = g.Supplied(x, 0, false)
	}
	own := graph.None
	if m.perLayer > 0 {
		y := g.Scale(g.Linear(x, m.project, nil), 1/rootOf(m.cfg.Embd))
		own = g.Add(m.ownNorm.apply(g, y), g.Embed(m.ownEmbd, rootOf(m.perLayer), graph.ByToken))
		own = g.Scale(own, 1/math.Sqrt2)
	}
	for i := range m.blocks {
		g.Layer()
		b, l := &m.blocks[i], &m.layers[i]
		y := b.mix.forward(g, b.mixNorm.apply(g, x), in)
		mine := graph.None
		if own != graph.None {
			mine = g.Slice(own, 0, i*m.perLayer, m.perLayer)
		}
		if i == len(m.blocks)-1 && !pooled(&m.cfg, in) {
			x, y = g.Gather(x), g.Gather(y)
			if mine != graph.None {
				mine = g.Gather(mine)
			}
		}
		x = g.Add(x, b.mixPost.apply(g, y))
		x = g.Add(x, b.ffnPost.apply(g, m.feed(g, x, i, in)))
		x = l.finish(g, x, mine)
	}
	return m.head(g, in, x)
}

// feed computes the feed-forward half of block i, including experts.
func (m *gemma4) feed(g *graph.Builder, x graph.Value, i int, in model.Inputs) graph.Value {
	b, l := &m.blocks[i], &m.layers[i]
	y := b.ffn.forward(g, b.ffnNorm.apply(g, x), in)
	if l.experts == nil {
		return y
	}
	// The router reads the residual stream with a norm of its own.
	r := g.Norm(x, graph.RMS, l.routerScale, nil, b.ffnNorm.eps, 0)
	logits := g.Linear(g.Scale(r, 1/rootOf(m.cfg.Embd)), l.experts.router, l.experts.brouter)
	e := l.experts.mix(g, l.expertNorm.apply(g, x), logits)
	return g.Add(l.densePost.apply(g, y), l.expertPost.apply(g, e))
}

// finish adds the result of the per-layer embedding and scales the block's result.
func (l *gemma4Layer) finish(g *graph.Builder, x, own graph.Value) graph.Value {
	if own != graph.None {
		y := g.Linear(g.Glu(g.Linear(x, l.gate, nil), own, graph.GELU, 0), l.back, nil)
		x = g.Add(x, l.ownPost.apply(g, y))
	}
	if l.outScale != nil {
		x = g.Affine(x, l.outScale, nil)
	}
	return x
}
