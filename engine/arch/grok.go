package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("grok", model.Arch{Open: openGrok}) }

// openGrok opens Grok 1 and 2: bounded scores and logits, norms before and after
// each half, and a mixture of experts, which Grok 2 averages with a dense block.
func openGrok(f *model.File) (model.Model, error) {
	m := plain{
		halves: true,
		attention: func(f *model.File, _ *model.Config, a *attention) {
			a.Scale = f.Factor("attention.output_scale", 0.08838834764831845)
			a.Softcap = f.Factor("attn_logit_softcapping", 30)
		},
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			b.mixNorm = rms(f, blk(layer, "attn_norm"), c.Embd)
			b.mixPost = rms(f, blk(layer, "attn_output_norm"), c.Embd)
			b.ffnNorm = rms(f, blk(layer, "ffn_norm"), c.Embd)
			post := "layer_output_norm"
			if !f.HasTensor(blk(layer, post+".weight")) {
				post = "post_ffw_norm"
			}
			b.ffnPost = rms(f, blk(layer, post), c.Embd)
			return true
		},
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			n := f.IntOr("expert_feed_forward_length", hidden)
			e := bindExperts(f, c, layer, n, readRouting(f, c, layer, graph.Softmax, true), graph.GELU)
			if !f.HasTensor(blk(layer, "ffn_up.weight")) {
				return e
			}
			return averaged{e, bindFFN(f, c, layer, hidden, graph.GELU)}
		},
	}.bind(f)
	m.scale = f.Factor("embedding_scale", 78.38367176906169)
	m.logits = f.Factor("logit_scale", 0.5773502691896257)
	m.softcap = f.Factor("final_logit_softcapping", 0)
	return m, nil
}

// averaged adds the results of two halves and divides by √2.
type averaged [2]half

func (a averaged) forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value {
	return g.Scale(g.Add(a[0].forward(g, x, in), a[1].forward(g, x, in)), math.Sqrt2/2)
}
