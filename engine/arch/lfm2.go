package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("lfm2", model.Arch{Chat: "ChatML", Open: openLFM2})
	model.Register("lfm2moe", model.Arch{Open: openLFM2, Required: []string{"*exp_probs_b*", "*_norm*"}})
}

// openLFM2 opens LFM2, dense or with experts. Most layers have a short convolution
// between two gates instead of attention. The file gives these layers no KV heads.
// Source: arXiv 2511.23404.
func openLFM2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "token_embd_norm", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	window := f.IntOr("attention.sliding_window", 0)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	dense := c.Layers
	if c.Arch == "lfm2moe" {
		dense = f.IntOr("leading_dense_block_count", 0)
	}
	for i := range c.Layers {
		b := block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
		}
		if h[i].kv == 0 {
			b.mix = bindShortConv(f, c, i)
		} else {
			a := bindAttention(f, c, h[i], i, rope)
			a.headNorms(f)
			a.Window = window
			b.mix = a
		}
		if i < dense {
			b.ffn = bindFFN(f, c, i, hidden[i], graph.SiLU)
		} else {
			if !f.Has("expert_gating_func") {
				f.Fail("expert_gating_func", "missing")
			}
			r := readRouting(f, c, i, graph.SigmoidGate, true)
			e := bindExperts(f, c, i, expertSize(f, c, i, r), r, graph.SiLU)
			e.routing.Bias = f.Weight(blk(i, "exp_probs_b.bias"), r.Experts)
			b.ffn = e
		}
		m.blocks = append(m.blocks, b)
	}
	return m, nil
}

// shortConv is a convolution along the sequence between two gates.
type shortConv struct {
	layer         int
	in, conv, out *graph.Weight
}

func bindShortConv(f *model.File, c *model.Config, layer int) *shortConv {
	k := f.Int("shortconv.l_cache")
	if c.Embedding {
		f.Fail("attention.causal", "false, and layer %d is a convolution", layer)
	}
	return &shortConv{
		layer: layer,
		in:    f.Matrix(blk(layer, "shortconv.in_proj.weight"), c.Embd, 3*c.Embd),
		conv:  f.Weight(blk(layer, "shortconv.conv.weight"), k, c.Embd),
		out:   f.Matrix(blk(layer, "shortconv.out_proj.weight"), c.Embd, c.Embd),
	}
}

func (s *shortConv) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	y := g.Linear(x, s.in, nil)
	n := g.Width(x)
	before, after, x := g.Slice(y, 0, 0, n), g.Slice(y, 0, n, n), g.Slice(y, 0, 2*n, n)
	y = g.ShortConv(g.Mul(before, x), s.layer, s.conv, nil, graph.Identity)
	return g.Linear(g.Mul(after, y), s.out, nil)
}
