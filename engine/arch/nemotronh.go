package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("nemotron_h", model.Arch{Open: openNemotronH, Ahead: true})
	model.Register("nemotron_h_moe", model.Arch{Open: openNemotronH, Ahead: true})
}

// openNemotronH opens Nemotron-H, Nemotron Nano 2 and Nemotron 3 Nano. Every layer
// is either Mamba 2, attention without RoPE, a squared-ReLU feed-forward block, or
// a mixture of such blocks. Source: arXiv 2504.03624.
func openNemotronH(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	h := readHeads(f, c, nil)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		b := block{mixNorm: rms(f, blk(i, "attn_norm"), c.Embd)}
		switch {
		case h[i].kv > 0:
			b.mix = bindAttention(f, c, h[i], i, nil)
		case hidden[i] == 0:
			b.mix = bindMamba2(f, c, i, true)
		case f.HasTensor(blk(i, "ffn_gate_inp.weight")):
			b.mixNorm, b.ffnNorm = norm{}, b.mixNorm
			b.ffn = bindSquaredExperts(f, c, i)
		default:
			b.mixNorm, b.ffnNorm = norm{}, b.mixNorm
			b.ffn = bindPlainFFN(f, c, i, hidden[i], graph.ReLU2)
		}
		m.blocks = append(m.blocks, b)
	}
	return m, nil
}

// bindSquaredExperts binds experts of two matrices and a shared expert. The experts
// may work in a narrower space than the residual stream.
func bindSquaredExperts(f *model.File, c *model.Config, layer int) half {
	r := readRouting(f, c, layer, graph.SigmoidGate, f.BoolOr("expert_weights_norm", false))
	n := expertSize(f, c, layer, r)
	shared := bindNamedFFN(f, c, layer, "shexp", f.Int("expert_shared_feed_forward_length"), graph.ReLU2)
	e := &experts{router: f.Weight(blk(layer, "ffn_gate_inp.weight"), c.Embd, r.Experts), routing: r, f: graph.ReLU2}
	width := f.IntOr("moe_latent_size", c.Embd)
	e.up = f.Matrix(blk(layer, "ffn_up_exps.weight"), width, n, r.Experts)
	e.down = f.Matrix(blk(layer, "ffn_down_exps.weight"), n, width, r.Experts)
	e.choiceBias(f, layer)
	if !f.HasTensor(blk(layer, "ffn_latent_down.weight")) {
		e.shared = shared
		return e
	}
	return &latentExperts{
		experts: e, shared: shared,
		down: f.Matrix(blk(layer, "ffn_latent_down.weight"), c.Embd, width),
		up:   f.Matrix(blk(layer, "ffn_latent_up.weight"), width, c.Embd),
	}
}

// latentExperts are experts in a narrower space, with a shared expert.
type latentExperts struct {
	*experts
	down, up *graph.Weight
	shared   *ffn
}

func (e *latentExperts) forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value {
	y := e.mix(g, g.Linear(x, e.down, nil), g.Linear(x, e.router, e.brouter))
	return g.Add(g.Linear(y, e.up, nil), e.shared.forward(g, x, in))
}
