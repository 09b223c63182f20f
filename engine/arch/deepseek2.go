package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("deepseek2", model.Arch{
		Chat: "DeepSeek",
		Open: openDeepSeek2, Ahead: true,
		// Some files hold the decompression of keys and values twice, as one matrix
		// and as two matrices for absorbed attention. Only one form is read.
		Unread: []string{"blk.*.attn_kv_b.weight", "blk.*.attn_k_b.weight", "blk.*.attn_v_b.weight"},
	})
}

// openDeepSeek2 opens DeepSeek V2, V3 and R1 and models with the same structure
// (Kimi K2, GLM-4.7 Flash): multi-head latent attention and a mixture of experts
// chosen within groups. Sources: arXiv 2405.04434, 2412.19437.
func openDeepSeek2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	s := readLatent(f, c)
	gating := graph.Softmax
	if (c.Layers == 47 || c.Layers == 48) && c.Vocab == 154880 {
		gating = graph.SigmoidGate // GLM-4.7 Flash, whose files do not name the gating function
	}
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix:     bindLatent(f, c, s, i),
			ffn:     bindLead(f, c, i, gating),
		})
	}
	return m, nil
}

// latentSizes are the sizes of latent attention: per head the columns of keys
// without RoPE, of keys with RoPE and of values. rank is the number of compressed
// columns that all heads share.
type latentSizes struct {
	heads, plain, rotated, value, rank int
	scale                              float32
	rope                               *rotary
	temper                             graph.Temperature
	absorbed                           bool // keys and values stay compressed in the cache
}

func readLatent(f *model.File, c *model.Config) latentSizes {
	h := readHeads(f, c, nil)
	s := latentSizes{heads: h[0].q, rank: f.Int("attention.kv_lora_rank"), value: h[0].dimV}
	keys := h[0].dimK
	if f.IntOr("attention.key_length_mla", 0) > 0 {
		s.absorbed = true
		keys, s.value = f.Int("attention.key_length_mla"), f.Int("attention.value_length_mla")
	}
	r := f.Rope(keys)
	s.rotated, s.plain = r.Dims, keys-r.Dims
	if s.plain < 1 || s.rank+s.rotated > maxHeadDim || s.value > maxHeadDim {
		f.Fail("attention.key_length", "heads have %d columns with %d rotated, which a cache of rank %d does not allow", keys, r.Dims, s.rank)
		s.plain, s.rank, s.value = 1, 1, 1
	}
	// Files store a tenth of the checkpoint's mscale_all_dim. The YaRN magnitude that
	// it gives, squared, scales the scores. Sine and cosine are then not scaled.
	grow := r
	grow.MagnitudeAll *= 10
	grow.Magnitude = 1
	if grow.MagnitudeAll != 0 {
		grow.Magnitude = grow.MagnitudeAll
	}
	s.rope = newRope(f, grow, s.plain+s.rotated, true)
	stretch := float64(s.rope.Scale)
	if r.Ext != 0 && r.Factor > 1 {
		stretch *= 1 + 0.1*float64(grow.MagnitudeAll)*math.Log(float64(r.Factor))
	}
	s.scale = float32(stretch * stretch / math.Sqrt(float64(keys)))
	s.temper = graph.Temperature{Scale: f.Factor("attention.temperature_scale", 0), Every: f.IntOr("attention.temperature_length", 0)}
	if s.temper.Scale != 0 && s.temper.Every == 0 {
		f.Fail("attention.temperature_length", "missing, and attention.temperature_scale is %g", s.temper.Scale)
	}
	return s
}

// latent is multi-head latent attention. In the absorbed form, the keys'
// decompression is folded into the query and the values' into the output, so that
// the cache holds only the compressed row and the RoPE columns, once for all heads.
// Otherwise the cache holds the keys and values of every head.
type latent struct {
	latentSizes
	layer        int
	q, qa, qb    *graph.Weight
	qNorm        norm
	compress     *graph.Weight
	kvNorm       norm
	keys, values *graph.Weight // for the absorbed form, one matrix per head
	expand, o    *graph.Weight // for the other form, keys and values of all heads
	gate         *graph.Weight // gate of the result, one value per head or per column; nil for none
	index        *indexer      // chooses the positions that rows attend to; nil for all
	owns         bool          // this layer makes the choice, instead of reusing an earlier layer's
	sinks        *graph.Weight // one extra logit per head, or nil
	window       int           // number of positions that a row attends to; 0 for all
	turnedNorm   norm          // norm of the shared key columns before RoPE
	still        bool          // no RoPE
}

func bindLatent(f *model.File, c *model.Config, s latentSizes, layer int) *latent {
	name := func(n string) string { return blk(layer, n) }
	a := &latent{latentSizes: s, layer: layer}
	width := s.heads * (s.plain + s.rotated)
	if f.HasTensor(name("attn_q.weight")) || !f.Has("attention.q_lora_rank") {
		a.q = f.Matrix(name("attn_q.weight"), c.Embd, width)
	} else {
		rank := f.Int("attention.q_lora_rank")
		a.qa = f.Matrix(name("attn_q_a.weight"), c.Embd, rank)
		a.qNorm = rms(f, name("attn_q_a_norm"), rank)
		a.qb = f.Matrix(name("attn_q_b.weight"), rank, width)
	}
	a.compress = f.Matrix(name("attn_kv_a_mqa.weight"), c.Embd, s.rank+s.rotated)
	a.kvNorm = rms(f, name("attn_kv_a_norm"), s.rank)
	if s.absorbed {
		a.keys = f.Weight(name("attn_k_b.weight"), s.plain, s.rank, s.heads)
		a.values = f.Weight(name("attn_v_b.weight"), s.rank, s.value, s.heads)
	} else {
		a.expand = f.Matrix(name("attn_kv_b.weight"), s.rank, s.heads*(s.plain+s.value))
	}
	a.o = f.Matrix(name("attn_output.weight"), s.heads*s.value, c.Embd)
	return a
}

func (a *latent) forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value {
	rotateQ := a.rope.at(in)
	single := rotateQ
	rotateQ.First, single.HeadDim = a.plain, a.rotated
	low := x
	var q graph.Value
	if a.q != nil {
		q = g.Linear(x, a.q, nil)
	} else {
		low = a.qNorm.apply(g, g.Linear(x, a.qa, nil))
		q = g.Linear(low, a.qb, nil)
	}
	chosen := graph.None
	switch {
	case a.index == nil:
	case a.owns:
		chosen = a.index.choose(g, x, low, in)
	default:
		chosen = a.index.chosen
	}
	kv := g.Linear(x, a.compress, nil)
	turned := a.turnedNorm.apply(g, g.Slice(kv, 0, a.rank, a.rotated))
	if !a.still {
		q, turned = g.Rope(q, rotateQ), g.Rope(turned, single)
	}
	q = g.Temperature(q, a.temper)
	kv = a.kvNorm.apply(g, g.Slice(kv, 0, 0, a.rank))
	at := graph.Attention{
		Layer: a.layer, Heads: a.heads, Scale: a.scale, RopeBase: a.rope.base,
		Window: a.window, SinkLogits: a.sinks,
	}
	dim := a.plain + a.rotated
	if a.absorbed {
		plain := g.HeadLinear(g.Slice(q, dim, 0, a.plain), a.keys)
		q = g.Concat(plain, g.Slice(q, dim, a.plain, a.rotated), a.rank, a.rotated)
		at.KVHeads, at.DimK, at.DimV, at.MLA = 1, a.rank+a.rotated, a.rank, true
		y := g.AttendTo(q, g.Concat(kv, turned, a.rank, a.rotated), graph.None, chosen, at)
		return a.finish(g, x, g.HeadLinear(y, a.values))
	}
	kv = g.Linear(kv, a.expand, nil)
	k := g.Concat(g.Slice(kv, a.plain+a.value, 0, a.plain), turned, a.plain, a.rotated)
	at.KVHeads, at.DimK, at.DimV = a.heads, dim, a.value
	return a.finish(g, x, g.Attend(q, k, g.Slice(kv, a.plain+a.value, a.plain, a.value), at))
}

// finish applies the gate, if the layer has one, and concatenates the heads'
// results.
func (a *latent) finish(g *graph.Builder, x, y graph.Value) graph.Value {
	if a.gate != nil {
		y = g.Mul(y, g.Act(g.Linear(x, a.gate, nil), graph.Sigmoid))
	}
	return g.Linear(y, a.o, nil)
}
