package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("rwkv7", model.Arch{Open: openRWKV7, Unread: firstValues})
	model.Register("arwkv7", model.Arch{Open: openARWKV7, Unread: firstValues})
}

// timeMix7 is RWKV 7's recurrence: the delta rule with a separate removal direction
// and a decay for each column. Values of later layers are mixed with those of the
// first layer. Source: arXiv 2503.14456.
type timeMix7 struct {
	layer, heads           int
	mix                    *graph.Weight // mix of receptance, decay, key, value, rate and gate, one after another
	w0, w1, w2             *graph.Weight // decay
	a0, a1, a2             *graph.Weight // rate
	v0, v1, v2             *graph.Weight // weight of the first layer's values; nil in the first layer
	g1, g2                 *graph.Weight // gate; nil for none
	kk, ka, rk             *graph.Weight
	key, value, receptance *graph.Weight
	norm                   norm
	out                    *graph.Weight
}

func bindTimeMix7(f *model.File, c *model.Config, layer int) *timeMix7 {
	name := func(s string) string { return blk(layer, "time_mix_"+s+".weight") }
	_, heads := wkvHeads(f, c)
	m := &timeMix7{layer: layer, heads: heads}
	low := func(at string, n int) (first, second *graph.Weight) {
		return f.Matrix(name(at+"1"), c.Embd, n), f.Matrix(name(at+"2"), n, c.Embd)
	}
	vector := func(s string) *graph.Weight { return f.Weight(name(s), c.Embd) }
	parts := 5
	if n := f.IntOr("attention.gate_lora_rank", 0); n > 0 {
		parts = 6
		m.g1, m.g2 = low("g", n)
	}
	m.mix = f.Weight(name("lerp_fused"), c.Embd, 1, 1, parts)
	m.w0, m.a0 = vector("w0"), vector("a0")
	m.w1, m.w2 = low("w", f.Int("attention.decay_lora_rank"))
	m.a1, m.a2 = low("a", f.Int("attention.iclr_lora_rank"))
	if layer > 0 {
		m.v0 = vector("v0")
		m.v1, m.v2 = low("v", f.Int("attention.value_residual_mix_lora_rank"))
	}
	m.kk, m.ka = vector("k_k"), vector("k_a")
	if m.rk = f.Optional(name("r_k"), c.Embd); m.rk == nil {
		m.rk = vector("r_k")
	}
	m.key, m.value, m.receptance = f.Matrix(name("key"), c.Embd, c.Embd), f.Matrix(name("value"), c.Embd, c.Embd), f.Matrix(name("receptance"), c.Embd, c.Embd)
	if ln := blk(layer, "time_mix_ln"); f.HasTensor(ln + ".weight") {
		m.norm = norm{kind: graph.Layer, eps: rwkvEps, group: c.Embd / heads, w: f.Weight(ln+".weight", c.Embd), b: f.Weight(ln+".bias", c.Embd)}
	}
	m.out = f.Matrix(name("output"), c.Embd, c.Embd)
	return m
}

// mixed returns mix i of a row with the previous one.
func (m *timeMix7) mixed(g *graph.Builder, x, by graph.Value) func(i int) graph.Value {
	n := g.Width(x)
	all := g.Affine(g.Repeat(by, n, m.mix.Elems()/n, true), m.mix, nil)
	return func(i int) graph.Value { return g.Add(x, g.Slice(all, 0, i*n, n)) }
}

// forward returns the result and the layer's values. first holds the values of the
// first layer.
func (m *timeMix7) forward(g *graph.Builder, x, first graph.Value) (y, values graph.Value) {
	dim := g.Width(x) / m.heads
	part := m.mixed(g, x, previous(g, x, m.layer))
	r := g.Linear(part(0), m.receptance, nil)
	w := g.Linear(g.Act(g.Linear(part(1), m.w1, nil), graph.Tanh), m.w2, m.w0)
	w = g.Scale(g.Act(w, graph.Sigmoid), -0.606531) // log of the decay, from -e^(-1/2) to 0
	k, v := g.Linear(part(2), m.key, nil), g.Linear(part(3), m.value, nil)
	values = v
	if first != graph.None {
		share := g.Act(g.Linear(g.Linear(part(3), m.v1, nil), m.v2, m.v0), graph.Sigmoid)
		v = g.Add(v, g.Mul(g.Add(first, g.Scale(v, -1)), share))
	}
	a := g.Act(g.Linear(g.Linear(part(4), m.a1, nil), m.a2, m.a0), graph.Sigmoid)
	kk := g.Norm(g.Affine(k, m.kk, nil), graph.L2, nil, nil, 1e-12, dim)
	k = g.Add(k, g.Mul(g.Affine(k, m.ka, nil), shifted(g, a, -1)))
	y = g.Recur(r, k, v, w, g.Scale(kk, -1), g.Mul(kk, a), m.layer, graph.Recur{Heads: m.heads, Scale: 1})
	y = m.norm.apply(g, y)
	y = g.Add(y, g.Mul(v, headSums(g, g.Affine(g.Mul(k, r), m.rk, nil), m.heads)))
	if m.g1 != nil {
		y = g.Mul(y, g.Linear(g.Act(g.Linear(part(5), m.g1, nil), graph.Sigmoid), m.g2, nil))
	}
	return g.Linear(y, m.out, nil), values
}

// rwkv7 passes the first layer's values to the other layers.
type rwkv7 struct {
	decoder
	mixes []*timeMix7
}

// firstValues are tensors that mix in the first layer's values. The first layer
// does not use them.
var firstValues = []string{"blk.0.time_mix_v0.weight", "blk.0.time_mix_v1.weight", "blk.0.time_mix_v2.weight"}

// openRWKV7 opens RWKV 7: a recurrence with the delta rule and squared ReLUs. Source: arXiv
// 2503.14456.
func openRWKV7(f *model.File) (model.Model, error) {
	m := &rwkv7{decoder: *newDecoder(f)}
	m.ownOutput(f)
	c := &m.cfg
	m.embdNorm, m.norm = biased(f, "token_embd_norm", c.Embd), biased(f, "output_norm", c.Embd)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		name := func(s string) string { return blk(i, "channel_mix_"+s+".weight") }
		mix := bindTimeMix7(f, c, i)
		if !mix.norm.given() {
			f.Weight(blk(i, "time_mix_ln.weight"), c.Embd) // reports the tensor as missing
		}
		m.mixes = append(m.mixes, mix)
		m.blocks = append(m.blocks, block{
			mixNorm: biased(f, blk(i, "attn_norm"), c.Embd), ffnNorm: biased(f, blk(i, "attn_norm_2"), c.Embd),
			ffn: &channelMix{
				layer: i, mixK: f.Weight(name("lerp_k"), c.Embd),
				key: f.Matrix(name("key"), c.Embd, hidden[i]), value: f.Matrix(name("value"), hidden[i], c.Embd),
			},
		})
	}
	return m, nil
}

// openARWKV7 opens ARWKV 7: Qwen 2 whose attention is RWKV 7's recurrence. Source: arXiv
// 2501.15570.
func openARWKV7(f *model.File) (model.Model, error) {
	m := &rwkv7{decoder: *newDecoder(f)}
	m.ownOutput(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.mixes = append(m.mixes, bindTimeMix7(f, c, i))
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			ffn: bindFFN(f, c, i, hidden[i], graph.SiLU),
		})
	}
	return m, nil
}

// Forward records the pass.
func (m *rwkv7) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := m.embdNorm.apply(g, g.Embed(m.embd, 1, graph.ByToken))
	first := graph.None
	for i := range m.blocks {
		g.Layer()
		b := &m.blocks[i]
		y, values := m.mixes[i].forward(g, b.mixNorm.apply(g, x), first)
		if first == graph.None {
			first = values
		}
		x = g.Add(x, y)
		x = g.Add(x, b.ffn.forward(g, b.ffnNorm.apply(g, x), in))
	}
	return m.trimmed(g, in, x)
}
