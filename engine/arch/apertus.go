package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("apertus", model.Arch{Open: openApertus}) }

// openApertus opens Apertus: norms on query and key heads, and a feed-forward block
// without a gate whose activation has learned constants. Source: arXiv 2509.14233.
func openApertus(f *model.File) (model.Model, error) {
	return plain{
		halves: true, ownOutput: true, attention: headNorms,
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			constant := func(key string) float32 {
				v, ok := f.SharedFloats("xielu."+key, c.Layers)
				if !ok {
					f.Fail("xielu."+key, "missing")
					return 0
				}
				return v[layer]
			}
			softplus := func(x float32) float32 { return float32(math.Log1p(math.Exp(float64(x)))) }
			m := &xielu{ffn: bindPlainFFN(f, c, layer, hidden, graph.Identity), beta: constant("beta")}
			m.behind, m.before = softplus(constant("alpha_p")), m.beta+softplus(constant("alpha_n"))
			constant("eps")
			return m
		},
	}.open(f)
}

// xielu is a feed-forward block with the activation behind·x² + beta·x for positive
// x and before·(eˣ - 1 - x) + beta·x for other x. Source: arXiv 2411.13010.
type xielu struct {
	*ffn
	behind, before, beta float32
}

func (m *xielu) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	x = g.Linear(x, m.up, m.bup)
	low := g.Scale(g.Act(g.Scale(x, -1), graph.ReLU), -1) // min(x, 0)
	y := g.Add(shifted(g, g.Act(low, graph.Exp), -1), g.Scale(low, -1))
	y = g.Add(g.Scale(y, m.before), g.Scale(g.Act(x, graph.ReLU2), m.behind))
	return g.Linear(g.Add(y, g.Scale(x, m.beta)), m.down, m.bdown)
}
