package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("mamba", model.Arch{Open: openMamba})
	model.Register("jamba", model.Arch{Open: openJamba})
}

// mamba is a state space layer in which each column has its own decay. Source:
// arXiv 2312.00752.
type mamba struct {
	layer            int
	inner, rank, ns  int
	in, conv, bconv  *graph.Weight
	x, dt, bdt       *graph.Weight
	a, skip, out     *graph.Weight
	dtN, keyN, readN norm // norms of the step, of the written values and of the read values
}

// bindMamba binds a layer. The caller binds norms of the step and the keys.
func bindMamba(f *model.File, c *model.Config, layer int) *mamba {
	name := func(s string) string { return blk(layer, s) }
	s := &mamba{layer: layer, inner: f.Int("ssm.inner_size"), rank: f.Int("ssm.time_step_rank"), ns: f.Int("ssm.state_size")}
	if s.inner > maxInner || s.rank > maxInner || s.ns > maxHeadDim {
		f.Fail("ssm", "inner size %d, rank %d, %d states; at most %d, %d and %d are supported", s.inner, s.rank, s.ns, maxInner, maxInner, maxHeadDim)
		s.inner, s.rank, s.ns = 1, 1, 1
	}
	if c.Embedding {
		f.Fail("attention.causal", "false, and layer %d is recurrent", layer)
	}
	s.in = f.Matrix(name("ssm_in.weight"), c.Embd, 2*s.inner)
	s.conv = f.Weight(name("ssm_conv1d.weight"), f.Int("ssm.conv_kernel"), s.inner)
	s.bconv = f.Weight(name("ssm_conv1d.bias"), s.inner)
	s.x = f.Matrix(name("ssm_x.weight"), s.inner, s.rank+2*s.ns)
	s.dt, s.bdt = f.Matrix(name("ssm_dt.weight"), s.rank, s.inner), f.Weight(name("ssm_dt.bias"), s.inner)
	s.a, s.skip = f.Weight(name("ssm_a"), s.ns, s.inner), f.Weight(name("ssm_d"), s.inner)
	s.out = f.Matrix(name("ssm_out.weight"), s.inner, c.Embd)
	return s
}

func (s *mamba) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	all := g.Linear(x, s.in, nil)
	z := g.Slice(all, 0, s.inner, s.inner)
	x = g.ShortConv(g.Slice(all, 0, 0, s.inner), s.layer, s.conv, s.bconv, graph.SiLU)
	y := g.Linear(x, s.x, nil)
	dt := s.dtN.apply(g, g.Slice(y, 0, 0, s.rank))
	keys, queries := s.keyN.apply(g, g.Slice(y, 0, s.rank, s.ns)), s.readN.apply(g, g.Slice(y, 0, s.rank+s.ns, s.ns))
	dt = g.Act(g.Linear(dt, s.dt, s.bdt), graph.Softplus)
	y = g.Add(g.Scan(x, dt, keys, queries, s.layer, s.a), g.Affine(x, s.skip, nil))
	return g.Linear(g.Glu(z, y, graph.SiLU, 0), s.out, nil)
}

// openMamba opens Mamba 1 and Falcon Mamba, which consist of state space layers
// only. Falcon Mamba normalises the step and the keys. Sources: arXiv 2312.00752,
// 2410.05355.
func openMamba(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	bare := norm{}
	if f.BoolOr("ssm.dt_b_c_rms", false) {
		bare = norm{kind: graph.RMS, eps: max(m.norm.eps, 1e-12)}
	}
	for i := range c.Layers {
		s := bindMamba(f, c, i)
		s.dtN, s.keyN, s.readN = bare, bare, bare
		m.blocks = append(m.blocks, block{mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), mix: s})
	}
	return m, nil
}

// openJamba opens Jamba: Mamba layers, a few attention layers without RoPE, and
// experts in the blocks that have a router. Source: arXiv 2403.19887.
func openJamba(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		b := block{mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd)}
		if h[i].kv == 0 {
			s := bindMamba(f, c, i)
			s.dtN = rms(f, blk(i, "ssm_dt_norm"), s.rank)
			s.keyN, s.readN = rms(f, blk(i, "ssm_b_norm"), s.ns), rms(f, blk(i, "ssm_c_norm"), s.ns)
			b.mix = s
		} else {
			b.mix = bindAttention(f, c, h[i], i, nil)
		}
		if f.HasTensor(blk(i, "ffn_gate_inp.weight")) {
			b.ffn = bindExperts(f, c, i, hidden[i], readRouting(f, c, i, graph.Softmax, false), graph.SiLU)
		} else {
			b.ffn = bindFFN(f, c, i, hidden[i], graph.SiLU)
		}
		m.blocks = append(m.blocks, b)
	}
	return m, nil
}
