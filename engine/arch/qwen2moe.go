package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("qwen2moe", model.Arch{Chat: "ChatML", Open: openQwen2MoE, Required: []string{"output.*"}})
}

// openQwen2MoE opens the mixtures of experts of Qwen 1.5 and 2: the weights of the
// chosen experts are not normalised, and the shared expert has a gate of its own.
func openQwen2MoE(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.ownOutput(f)
	c := &m.cfg
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	m.norm = rms(f, "output_norm", c.Embd)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix:     bindAttention(f, c, h[i], i, rope),
			ffn:     bindGatedShare(f, c, i, false),
		})
	}
	return m, nil
}

// bindGatedShare binds experts and a shared expert with a gate.
func bindGatedShare(f *model.File, c *model.Config, layer int, normalise bool) *experts {
	r := readRouting(f, c, layer, graph.Softmax, normalise)
	e := bindExperts(f, c, layer, expertSize(f, c, layer, r), r, graph.SiLU)
	n := f.IntOr("expert_shared_feed_forward_length", 0)
	if n == 0 {
		n = f.PerLayer("feed_forward_length", c.Layers, -1)[layer]
	}
	e.bindShared(f, c, layer, n)
	e.sharedGate = f.Weight(blk(layer, "ffn_gate_inp_shexp.weight"), c.Embd, 1)
	return e
}
