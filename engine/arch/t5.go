package arch

import (
	"encoding/binary"
	"math"

	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("t5", model.Arch{Open: openT5})
	model.Register("t5encoder", model.Arch{Open: openT5Encoder, Encoder: true})
}

// t5Stack is the encoder or the decoder of T5.
type t5Stack struct {
	blocks []block
	cross  []t5Cross // one per block; empty in an encoder
	norm   norm
}

// t5Cross is attention to the encoder's rows. Its keys and values are the results
// of the encoder's pass.
type t5Cross struct {
	norm       norm
	q, k, v, o *graph.Weight
}

// t5Feed binds a feed-forward block, with a GELU gate if it has a gate, else with a
// ReLU.
func t5Feed(f *model.File, c *model.Config, prefix string, n int) *ffn {
	m := &ffn{up: f.Matrix(prefix+"ffn_up.weight", c.Embd, n), down: f.Matrix(prefix+"ffn_down.weight", n, c.Embd), f: graph.ReLU}
	if f.HasTensor(prefix + "ffn_gate.weight") {
		m.gate, m.f = f.Matrix(prefix+"ffn_gate.weight", c.Embd, n), graph.GELU
	}
	return m
}

// bindT5 binds a stack of n blocks. All blocks use the first block's relative
// position biases.
func bindT5(f *model.File, c *model.Config, side string, n int, both bool) t5Stack {
	s := t5Stack{norm: rms(f, side+".output_norm", c.Embd)}
	h, hidden := readHeads(f, c, nil), f.Int("feed_forward_length")
	var distances *graph.Weight
	for i := range n {
		prefix := side + "." + blk(i, "")
		if i >= len(h) {
			break
		}
		width := h[i].q * h[i].dimK
		values := h[i].q * h[i].dimV
		if h[i].kv != h[i].q {
			f.Fail("attention.head_count_kv", "%d KV heads do not match %d heads", h[i].kv, h[i].q)
		}
		a := &attention{Attention: graph.Attention{
			Layer: i, Heads: h[i].q, KVHeads: h[i].q, DimK: h[i].dimK, DimV: h[i].dimV, Scale: 1, Bidirectional: both,
		}}
		if name := prefix + "attn_rel_b.weight"; i == 0 || f.HasTensor(name) {
			if w := f.Weight(name, h[i].q, f.Int("attention.relative_buckets_count")); i == 0 {
				distances = w
			} else {
				a.Bias.Relative = w
			}
		}
		if a.Bias.Relative == nil {
			a.Bias.Relative = distances
		}
		a.q, a.k = f.Matrix(prefix+"attn_q.weight", c.Embd, width), f.Matrix(prefix+"attn_k.weight", c.Embd, width)
		a.v, a.o = f.Matrix(prefix+"attn_v.weight", c.Embd, values), f.Matrix(prefix+"attn_o.weight", values, c.Embd)
		s.blocks = append(s.blocks, block{
			mixNorm: rms(f, prefix+"attn_norm", c.Embd), mix: a,
			ffnNorm: rms(f, prefix+"ffn_norm", c.Embd), ffn: t5Feed(f, c, prefix, hidden),
		})
		if both {
			continue
		}
		s.cross = append(s.cross, t5Cross{
			norm: rms(f, prefix+"cross_attn_norm", c.Embd),
			q:    f.Matrix(prefix+"cross_attn_q.weight", c.Embd, width), k: f.Matrix(prefix+"cross_attn_k.weight", c.Embd, width),
			v: f.Matrix(prefix+"cross_attn_v.weight", c.Embd, values), o: f.Matrix(prefix+"cross_attn_o.weight", values, c.Embd),
		})
	}
	return s
}

// t5Encoder is an embedding model made of T5's encoder only.
type t5Encoder struct {
	decoder
	encoder t5Stack
}

// openT5Encoder opens T5's encoder, which becomes an embedding model with learned
// relative position biases. Source: arXiv 1910.10683.
func openT5Encoder(f *model.File) (model.Model, error) {
	m := &t5Encoder{decoder: decoder{cfg: f.Config()}}
	m.cfg.Embedding = true
	m.embd = f.Weight("token_embd.weight", m.cfg.Embd, m.cfg.Vocab)
	m.encoder = bindT5(f, &m.cfg, "enc", m.cfg.Layers, true)
	m.norm = m.encoder.norm
	return m, nil
}

// run records the blocks of an encoder.
func (s *t5Stack) run(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value {
	for i := range s.blocks {
		g.Layer()
		x = s.blocks[i].forward(g, x, in, 0, false)
	}
	return x
}

// Forward records the pass.
func (m *t5Encoder) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	return m.head(g, in, m.encoder.run(g, g.Embed(m.embd, 1, graph.ByToken), in))
}

// t5 is an encoder and a decoder that reads the encoder's result.
type t5 struct {
	decoder
	encoder, decode t5Stack
}

// openT5 opens T5, Flan-T5 and similar models: an encoder, and a decoder that
// attends to its own text and to the encoder's. Source: arXiv 1910.10683.
func openT5(f *model.File) (model.Model, error) {
	m := &t5{decoder: *newDecoder(f)}
	c := &m.cfg
	c.Embedding, c.Encoder = false, true
	layers := f.IntOr("decoder_block_count", c.Layers)
	if layers < 1 || layers > c.Layers {
		f.Fail("decoder_block_count", "%d blocks; the encoder has %d", layers, c.Layers)
		layers = 1
	}
	m.encoder = bindT5(f, c, "enc", c.Layers, true)
	m.decode = bindT5(f, c, "dec", layers, false)
	m.norm = m.decode.norm
	return m, nil
}

// Encode records the encoder's pass. Its rows contain the keys and values for every
// decoder block, one block after another.
func (m *t5) Encode(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Gather(m.encoder.norm.apply(g, m.encoder.run(g, g.Embed(m.embd, 1, graph.ByToken), in)))
	out := graph.None
	for i := range m.decode.cross {
		for _, w := range []*graph.Weight{m.decode.cross[i].k, m.decode.cross[i].v} {
			y := g.Linear(x, w, nil)
			if out != graph.None {
				y = g.Concat(out, y, g.Width(out), g.Width(y))
			}
			out = y
		}
	}
	return out
}

// Forward records the decoder's pass.
func (m *t5) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, 1, graph.ByToken)
	first := 0
	for i := range m.decode.blocks {
		g.Layer()
		b, c := &m.decode.blocks[i], &m.decode.cross[i]
		x = g.Add(x, b.mix.forward(g, b.mixNorm.apply(g, x), in))
		if i == len(m.decode.blocks)-1 && !pooled(&m.cfg, in) {
			x = g.Gather(x)
		}
		a := b.mix.(*attention)
		x = g.Add(x, c.forward(g, c.norm.apply(g, x), a.Heads, in.Encoded, first))
		first += c.k.Rows() + c.v.Rows()
		x = g.Add(x, b.ffn.forward(g, b.ffnNorm.apply(g, x), in))
	}
	return m.head(g, in, x)
}

// forward attends to the encoder's rows. The block's keys begin at column first,
// and its values follow them.
func (c *t5Cross) forward(g *graph.Builder, x graph.Value, heads int, e *model.Encoded, first int) graph.Value {
	if e == nil {
		e = &model.Encoded{Count: 1} // a plan that needs only the sizes
	}
	keys, values := c.k.Rows()/heads, c.v.Rows()/heads
	width := 0
	if e.Rows != nil {
		width = len(e.Rows) / e.Count
	}
	at := func(row, column int) float32 {
		if width == 0 {
			return 0
		}
		return e.Rows[row*width+first+column]
	}
	k := encoded("cross keys", []int{keys, e.Count, heads}, func(i, row, h int) float32 { return at(row, h*keys+i) })
	v := encoded("cross values", []int{e.Count, values, heads}, func(row, i, h int) float32 { return at(row, c.k.Rows()+h*values+i) })
	scores := g.HeadLinear(g.Linear(x, c.q, nil), k)
	return g.Linear(g.HeadLinear(g.Softmax(scores, e.Count), v), c.o, nil)
}

// encoded returns a tensor with three dimensions whose values a function computes.
func encoded(name string, shape []int, at func(i, j, k int) float32) *graph.Weight {
	w := &graph.Weight{Name: name, Type: dtype.F32, Shape: shape}
	for k := range shape[2] {
		for j := range shape[1] {
			for i := range shape[0] {
				w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(at(i, j, k)))
			}
		}
	}
	return w
}
