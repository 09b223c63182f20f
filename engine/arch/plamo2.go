package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("plamo2", model.Arch{Open: openPLaMo2}) }

// openPLaMo2 opens PLaMo 2: alternating Mamba layers with heads and attention
// layers, and norms before and after each half. Source: arXiv 2509.04897.
func openPLaMo2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		b := block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			mixPost: bareNorm(f, blk(i, "post_attention_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			ffnPost: bareNorm(f, blk(i, "post_ffw_norm"), c.Embd),
			ffn:     bindMergedFFN(f, c, i, hidden[i], graph.SiLU),
		}
		if h[i].kv == 0 {
			b.mix = bindPLaMoMamba(f, c, i)
		} else {
			a := bindAttention(f, c, h[i], i, rope)
			a.Scale = 1 / rootOf(a.DimV)
			a.qNorm = headRMS(f, blk(i, "attn_q_norm.weight"), a.DimK, a.Heads)
			a.kNorm = headRMS(f, blk(i, "attn_k_norm.weight"), a.DimK, a.KVHeads)
			b.mix = a
		}
		m.blocks = append(m.blocks, b)
	}
	return m, nil
}

// headRMS is a root-mean-square norm with separate weights for each head.
func headRMS(f *model.File, name string, dim, n int) norm {
	return norm{kind: graph.RMS, w: f.Weight(name, dim, n), eps: f.Epsilon("attention.layer_norm_rms_epsilon"), group: dim}
}

// plamoMamba is Mamba 2's scan with one set of keys, and with Mamba 1's
// projections.
type plamoMamba struct {
	mamba
	op   graph.DeltaNet
	step int // number of columns from which the step is computed
}

func bindPLaMoMamba(f *model.File, c *model.Config, layer int) *plamoMamba {
	name := func(s string) string { return blk(layer, s) }
	heads, inner, ns := f.Int("ssm.time_step_rank"), f.Int("ssm.inner_size"), f.Int("ssm.state_size")
	if inner%heads != 0 || heads > maxHeads || ns > maxHeadDim || inner > maxInner {
		f.Fail("ssm", "%d heads do not divide an inner size of %d, or %d states are too many", heads, inner, ns)
		heads, inner, ns = 1, 1, 1
	}
	if c.Embedding {
		f.Fail("attention.causal", "false, and layer %d is recurrent", layer)
	}
	s := &plamoMamba{step: max(64, c.Embd/16), mamba: mamba{layer: layer, inner: inner, ns: ns}}
	s.op = graph.DeltaNet{KeyHeads: 1, ValueHeads: heads, KeyDim: ns, ValueDim: inner / heads, Scale: 1, Grouped: true, Plain: true}
	s.in = f.Matrix(name("ssm_in.weight"), c.Embd, 2*inner)
	s.conv = f.Weight(name("ssm_conv1d.weight"), f.Int("ssm.conv_kernel"), inner)
	s.bconv = f.Optional(name("ssm_conv1d.bias"), inner)
	s.x = f.Matrix(name("ssm_x.weight"), inner, s.step+2*ns)
	s.dt, s.bdt = f.Matrix(name("ssm_dt.weight"), s.step, heads), f.Weight(name("ssm_dt.bias"), heads)
	s.a = f.Weight(name("ssm_a"), heads)
	s.skip = f.SpreadRow(name("ssm_d"), heads, inner/heads)
	s.out = f.Matrix(name("ssm_out.weight"), inner, c.Embd)
	s.dtN, s.keyN, s.readN = bareNorm(f, name("ssm_dt_norm"), s.step), bareNorm(f, name("ssm_b_norm"), ns), bareNorm(f, name("ssm_c_norm"), ns)
	return s
}

func (s *plamoMamba) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	dim := s.op.ValueDim
	all := g.Linear(x, s.in, nil)
	z := g.Slice(all, 2*dim, 0, dim)
	x = g.ShortConv(g.Slice(all, 2*dim, dim, dim), s.layer, s.conv, s.bconv, graph.SiLU)
	y := g.Linear(x, s.x, nil)
	keys, queries := s.keyN.apply(g, g.Slice(y, 0, 0, s.ns)), s.readN.apply(g, g.Slice(y, 0, s.ns, s.ns))
	dt := g.Linear(s.dtN.apply(g, g.Slice(y, 0, 2*s.ns, s.step)), s.dt, s.bdt)
	dt = g.Act(dt, graph.Softplus)
	y = g.DeltaNet(queries, keys, x, g.Affine(dt, s.a, nil), dt, s.layer, s.op)
	y = g.Glu(z, g.Add(y, g.Affine(x, s.skip, nil)), graph.SiLU, 0)
	return g.Linear(y, s.out, nil)
}
