package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("hy_v3", model.Arch{Open: openHYV3, Ahead: true}) }

// openHYV3 opens Hunyuan 3: norms on query and key heads, dense blocks, and blocks
// with experts and a shared expert. A block has experts if it has a router.
func openHYV3(f *model.File) (model.Model, error) {
	return plain{halves: true, attention: headNorms, feed: bindRoutedFeed}.open(f)
}

// bindRoutedFeed binds experts and a shared expert if a layer has a router, else a
// gated block. The choice bias may lack its name suffix.
func bindRoutedFeed(f *model.File, c *model.Config, layer, hidden int) half {
	if !f.HasTensor(blk(layer, "ffn_gate_inp.weight")) {
		return bindFFN(f, c, layer, hidden, graph.SiLU)
	}
	r := readRouting(f, c, layer, graph.SigmoidGate, f.BoolOr("expert_weights_norm", false))
	n := expertSize(f, c, layer, r)
	e := bindExperts(f, c, layer, n, r, graph.SiLU)
	e.choiceBias(f, layer)
	if e.routing.Bias == nil {
		e.routing.Bias = f.Optional(blk(layer, "exp_probs_b"), r.Experts)
	}
	if f.HasTensor(blk(layer, "ffn_up_shexp.weight")) {
		e.bindShared(f, c, layer, f.IntOr("expert_shared_feed_forward_length", n*f.IntOr("expert_shared_count", 1)))
	}
	return e
}
