package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("rwkv6", model.Arch{Open: openRWKV6})
	model.Register("rwkv6qwen2", model.Arch{Open: openRWKV6Qwen2})
}

// timeMix6 is RWKV 6's recurrence. The mix of a row with the previous one depends
// on both rows, and so does the decay of each column. Without a bonus for the
// current row, it is gated linear attention. Source: arXiv 2404.05892.
type timeMix6 struct {
	layer, heads, perKV          int
	mixX, fused                  *graph.Weight
	mixes                        [5]*graph.Weight // mixes of decay, key, value, receptance and gate, if they are not fused
	w1, w2                       *graph.Weight
	decay, decay1, decay2        *graph.Weight
	bonus                        *graph.Weight
	key, value, receptance, gate *graph.Weight
	bkey, bvalue, breceptance    *graph.Weight
	norm                         norm
	out                          *graph.Weight
}

func bindTimeMix6(f *model.File, c *model.Config, layer, kv int) *timeMix6 {
	name := func(s string) string { return blk(layer, "time_mix_"+s) }
	dim, heads := wkvHeads(f, c)
	if kv == 0 {
		kv = heads
	}
	if heads%kv != 0 {
		f.Fail("attention.head_count_kv", "%d KV heads do not divide %d heads", kv, heads)
		kv = heads
	}
	extra, low := f.Int("time_mix_extra_dim"), f.Int("time_decay_extra_dim")
	m := &timeMix6{
		layer: layer, heads: heads, perKV: heads / kv,
		mixX:  f.Weight(name("lerp_x.weight"), c.Embd),
		fused: f.Optional(name("lerp_fused.weight"), c.Embd, 1, 1, 5),
		w1:    f.Matrix(name("w1.weight"), c.Embd, 5*extra), w2: f.Weight(name("w2.weight"), extra, c.Embd, 5),
		decay:  f.Weight(name("decay.weight"), c.Embd),
		decay1: f.Matrix(name("decay_w1.weight"), c.Embd, low), decay2: f.Matrix(name("decay_w2.weight"), low, c.Embd),
		bonus:      f.Optional(name("first.weight"), dim, heads),
		key:        f.Matrix(name("key.weight"), c.Embd, kv*dim),
		value:      f.Matrix(name("value.weight"), c.Embd, kv*dim),
		receptance: f.Matrix(name("receptance.weight"), c.Embd, c.Embd),
		gate:       f.Matrix(name("gate.weight"), c.Embd, c.Embd),
		bkey:       f.Optional(name("key.bias"), kv*dim), bvalue: f.Optional(name("value.bias"), kv*dim),
		breceptance: f.Optional(name("receptance.bias"), c.Embd),
		out:         f.Matrix(name("output.weight"), c.Embd, c.Embd),
	}
	for i, s := range []string{"w", "k", "v", "r", "g"} {
		if m.fused == nil {
			m.mixes[i] = f.Weight(name("lerp_"+s+".weight"), c.Embd)
		}
	}
	return m
}

// bindNorm binds the norm of each head's result.
func (m *timeMix6) bindNorm(f *model.File, c *model.Config) {
	name := blk(m.layer, "time_mix_ln")
	m.norm = norm{kind: graph.Layer, eps: rwkvEps, group: c.Embd / m.heads, w: f.Weight(name+".weight", c.Embd), b: f.Weight(name+".bias", c.Embd)}
}

// mixed computes the five mixes of a row with the previous one.
func (m *timeMix6) mixed(g *graph.Builder, x graph.Value) (out [5]graph.Value) {
	by := previous(g, x, m.layer)
	width := g.Width(x)
	low := g.Act(g.Linear(lerp(g, x, by, m.mixX), m.w1, nil), graph.Tanh)
	all := g.HeadLinear(low, m.w2)
	if m.fused != nil {
		all = g.Affine(all, nil, m.fused)
	}
	for i := range out {
		y := g.Slice(all, 0, i*width, width)
		if m.fused == nil {
			y = g.Affine(y, nil, m.mixes[i])
		}
		out[i] = g.Add(x, g.Mul(by, y))
	}
	return out
}

func (m *timeMix6) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	dim := g.Width(x) / m.heads
	mix := m.mixed(g, x)
	r := g.Linear(mix[3], m.receptance, m.breceptance)
	k, v := g.Linear(mix[1], m.key, m.bkey), g.Linear(mix[2], m.value, m.bvalue)
	k, v = g.Repeat(k, dim, m.perKV, false), g.Repeat(v, dim, m.perKV, false)
	w := g.Linear(g.Act(g.Linear(mix[0], m.decay1, nil), graph.Tanh), m.decay2, m.decay)
	w = g.Scale(g.Act(w, graph.Exp), -1) // the logarithm of the decay
	op := graph.Recur{Heads: m.heads, Scale: 1, Before: true}
	act := graph.SiLU
	if m.bonus == nil {
		op.Before, op.Scale, act = false, 1/rootOf(dim), graph.Sigmoid
		k = g.Mul(k, shifted(g, g.Scale(g.Act(w, graph.Exp), -1), 1))
	}
	y := g.Recur(r, k, v, w, graph.None, graph.None, m.layer, op)
	if m.bonus != nil {
		y = g.Add(y, g.Mul(v, headSums(g, g.Affine(g.Mul(r, k), m.bonus, nil), m.heads)))
	}
	y = g.Mul(m.norm.apply(g, y), g.Act(g.Linear(mix[4], m.gate, nil), act))
	return g.Linear(y, m.out, nil)
}

// rwkv6 halves the residual stream after every few blocks.
type rwkv6 struct {
	decoder
	every int // 0 for never
}

// openRWKV6 opens RWKV 6, which has no attention but a state with a decay for each
// column. Source: arXiv 2404.05892.
func openRWKV6(f *model.File) (model.Model, error) {
	m := &rwkv6{decoder: *newDecoder(f), every: f.IntOr("rescale_every_n_layers", 0)}
	m.ownOutput(f)
	c := &m.cfg
	m.embdNorm, m.norm = biased(f, "token_embd_norm", c.Embd), biased(f, "output_norm", c.Embd)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		name := func(s string) string { return blk(i, "channel_mix_"+s+".weight") }
		mix := bindTimeMix6(f, c, i, 0)
		mix.bindNorm(f, c)
		if mix.bonus == nil {
			f.Weight(blk(i, "time_mix_first.weight"), c.Embd/mix.heads, mix.heads) // reports the tensor as missing
		}
		m.blocks = append(m.blocks, block{
			mixNorm: biased(f, blk(i, "attn_norm"), c.Embd), mix: mix,
			ffnNorm: biased(f, blk(i, "attn_norm_2"), c.Embd),
			ffn: &channelMix{
				layer: i, mixK: f.Weight(name("lerp_k"), c.Embd), mixR: f.Weight(name("lerp_r"), c.Embd),
				key: f.Matrix(name("key"), c.Embd, hidden[i]), value: f.Matrix(name("value"), hidden[i], c.Embd),
				receptance: f.Matrix(name("receptance"), c.Embd, c.Embd),
			},
		})
	}
	return m, nil
}

// Forward records the pass.
func (m *rwkv6) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := m.embdNorm.apply(g, g.Embed(m.embd, 1, graph.ByToken))
	for i := range m.blocks {
		g.Layer()
		x = m.blocks[i].forward(g, x, in, 0, false)
		if m.every > 0 && (i+1)%m.every == 0 {
			x = g.Scale(x, 0.5)
		}
	}
	return m.trimmed(g, in, x)
}

// openRWKV6Qwen2 opens QRWKV 6: Qwen 2 whose attention is RWKV 6's recurrence. Source:
// arXiv 2505.03005.
func openRWKV6Qwen2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.ownOutput(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	hidden, kv := f.PerLayer("feed_forward_length", c.Layers, -1), f.PerLayer("attention.head_count_kv", c.Layers, 0)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), mix: bindTimeMix6(f, c, i, kv[i]),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd), ffn: bindFFN(f, c, i, hidden[i], graph.SiLU),
		})
	}
	return m, nil
}
