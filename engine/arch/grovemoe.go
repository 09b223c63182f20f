package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("grovemoe", model.Arch{Open: openGroveMoE}) }

// openGroveMoE opens GroveMoE: Qwen 3's mixture of experts, in which each group of
// experts shares a small expert that processes the experts' results. Source: arXiv
// 2508.07785.
func openGroveMoE(f *model.File) (model.Model, error) {
	return plain{
		halves: true, attention: headNorms,
		feed: func(f *model.File, c *model.Config, layer, _ int) half {
			r := readRouting(f, c, layer, graph.Softmax, true)
			r.Gating, r.Scale = graph.Softmax, 1
			m := &grove{experts: bindExperts(f, c, layer, expertSize(f, c, layer, r), r, graph.SiLU), scale: f.Factor("expert_group_scale", 1)}
			size := f.Int("experts_per_group")
			if r.Experts%size != 0 {
				f.Fail("experts_per_group", "groups of %d do not divide %d experts", size, r.Experts)
				size = 1
			}
			n, each := r.Experts/size, f.Int("expert_chunk_feed_forward_length")
			few := r
			few.Used, few.Share = min(r.Used, n), size
			m.small = &experts{
				routing: few, f: graph.SiLU,
				gate: f.Matrix(blk(layer, "ffn_gate_chexps.weight"), c.Embd, each, n),
				up:   f.Matrix(blk(layer, "ffn_up_chexps.weight"), c.Embd, each, n),
				down: f.Matrix(blk(layer, "ffn_down_chexps.weight"), each, c.Embd, n),
			}
			return m
		},
	}.open(f)
}

// grove is a mixture of experts with the small experts that its groups share.
type grove struct {
	*experts
	small *experts
	scale float32
}

func (m *grove) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	logits := g.Linear(x, m.router, m.brouter)
	y := m.mix(g, x, logits)
	return g.Add(y, g.Scale(m.small.mix(g, y, logits), m.scale))
}
