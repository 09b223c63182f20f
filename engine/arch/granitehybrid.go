package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("granitehybrid", model.Arch{Open: openGraniteHybrid}) }

// openGraniteHybrid opens Granite 4: Granite whose layers are Mamba 2 except for a
// few attention layers, mostly without RoPE.
func openGraniteHybrid(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, true)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		b := block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			ffn:     bindLlamaFeed(f, c, i, hidden[i]),
		}
		if h[i].kv == 0 {
			b.mix = bindMamba2(f, c, i, true)
		} else {
			b.mix = bindAttention(f, c, h[i], i, rope)
		}
		m.blocks = append(m.blocks, b)
	}
	m.bindGranite(f)
	return m, nil
}

// mamba2 is a state space layer: a delta net that writes without subtracting what
// its state already holds. Source: arXiv 2405.21060.
type mamba2 struct {
	layer           int
	op              graph.DeltaNet
	in, conv, bconv *graph.Weight
	dt, a, skip     *graph.Weight
	norm            norm
	out             *graph.Weight
}

// maxInner bounds the vectors that a hostile file can request per layer. Known
// models have up to 16,384.
const maxInner = 1 << 17

// bindMamba2 binds a layer. If normed is set, its result has a norm.
func bindMamba2(f *model.File, c *model.Config, layer int, normed bool) *mamba2 {
	inner, state, heads, groups := f.Int("ssm.inner_size"), f.Int("ssm.state_size"), f.Int("ssm.time_step_rank"), f.Int("ssm.group_count")
	if inner%heads != 0 || heads%groups != 0 || heads > maxHeads || state > maxHeadDim || inner > maxInner {
		f.Fail("ssm", "%d heads in %d groups do not divide an inner size of %d, or are too many", heads, groups, inner)
		inner, state, heads, groups = 1, 1, 1, 1
	}
	if c.Embedding {
		f.Fail("attention.causal", "false, and layer %d is recurrent", layer)
	}
	conv := inner + 2*groups*state
	s := &mamba2{
		layer: layer,
		op: graph.DeltaNet{
			KeyHeads: groups, ValueHeads: heads, KeyDim: state, ValueDim: inner / heads,
			Scale: 1, Grouped: true, Plain: true,
		},
		in:    f.Matrix(blk(layer, "ssm_in.weight"), c.Embd, inner+conv+heads),
		conv:  f.Weight(blk(layer, "ssm_conv1d.weight"), f.Int("ssm.conv_kernel"), conv),
		bconv: f.Optional(blk(layer, "ssm_conv1d.bias"), conv),
		dt:    f.Weight(blk(layer, "ssm_dt.bias"), heads),
		a:     f.Weight(blk(layer, "ssm_a"), 1, heads),
		skip:  f.Spread(blk(layer, "ssm_d"), heads, inner/heads),
		out:   f.Matrix(blk(layer, "ssm_out.weight"), inner, c.Embd),
	}
	if normed {
		s.norm = norm{
			kind: graph.RMS, w: f.Weight(blk(layer, "ssm_norm.weight"), inner/groups, groups),
			eps: f.Epsilon("attention.layer_norm_rms_epsilon"), group: inner / groups,
		}
	}
	return s
}

func (s *mamba2) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	inner, side := s.op.ValueHeads*s.op.ValueDim, s.op.KeyHeads*s.op.KeyDim
	all := g.Linear(x, s.in, nil)
	z, dt := g.Slice(all, 0, 0, inner), g.Slice(all, 0, 2*inner+2*side, s.op.ValueHeads)
	y := g.ShortConv(g.Slice(all, 0, inner, inner+2*side), s.layer, s.conv, s.bconv, graph.SiLU)
	v, k, q := g.Slice(y, 0, 0, inner), g.Slice(y, 0, inner, side), g.Slice(y, 0, inner+side, side)
	dt = g.Act(g.Affine(dt, nil, s.dt), graph.Softplus)
	y = g.DeltaNet(q, k, v, g.Affine(dt, s.a, nil), dt, s.layer, s.op)
	y = g.Glu(z, g.Add(y, g.Affine(v, s.skip, nil)), graph.SiLU, 0)
	return g.Linear(s.norm.apply(g, y), s.out, nil)
}
