package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("smallthinker", model.Arch{Open: openSmallThinker}) }

// smallThinker chooses a layer's experts from the block's input, before attention.
type smallThinker struct{ decoder }

// smallWindow is SmallThinker's window, regardless of the number in its files.
const smallWindow = 4096

// openSmallThinker opens SmallThinker: experts with a ReLU gate, which are chosen
// before attention. In models with a window, one layer in a pattern attends to
// everything, and every fourth layer has no RoPE. Source: arXiv 2507.20984.
func openSmallThinker(f *model.File) (model.Model, error) {
	m := &smallThinker{*plain{
		halves: true,
		windows: func(f *model.File, c *model.Config) ([]bool, int) {
			windowed, window := make([]bool, c.Layers), 0
			if f.IntOr("attention.sliding_window", 0) > 0 {
				window = smallWindow
				n := max(f.IntOr("attention.sliding_window_pattern", 4), 1)
				for i := range windowed {
					windowed[i] = i%n != 0
				}
			}
			return windowed, window
		},
		attention: func(f *model.File, c *model.Config, a *attention) {
			// In a model with a window, every fourth layer has no RoPE, unless the
			// model has exactly four layers.
			if f.IntOr("attention.sliding_window", 0) > 0 && c.Layers != 4 && a.Layer%4 == 0 {
				a.rope = nil
			}
		},
		near: basedNear(true),
		feed: func(f *model.File, c *model.Config, layer, _ int) half {
			r := readRouting(f, c, layer, graph.Softmax, true)
			return bindExperts(f, c, layer, expertSize(f, c, layer, r), r, graph.ReLU)
		},
	}.bind(f)}
	return m, nil
}

// Forward records the pass.
func (m *smallThinker) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, 1, graph.ByToken)
	for i := range m.blocks {
		g.Layer()
		b := &m.blocks[i]
		e := b.ffn.(*experts)
		logits := g.Linear(x, e.router, e.brouter)
		y := b.mix.forward(g, b.mixNorm.apply(g, x), in)
		if i == len(m.blocks)-1 && !pooled(&m.cfg, in) {
			x, y, logits = g.Gather(x), g.Gather(y), g.Gather(logits)
		}
		x = g.Add(x, y)
		x = g.Add(x, e.mix(g, b.ffnNorm.apply(g, x), logits))
	}
	return m.head(g, in, x)
}
