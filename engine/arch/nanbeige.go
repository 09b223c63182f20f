package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("nanbeige", model.Arch{Open: openNanbeige}) }

// nanbeige runs its blocks several times. Each pass through a block caches its own
// keys and values.
type nanbeige struct {
	decoder
	each     int // number of blocks in a pass
	skipNorm bool
}

// maxLoops bounds the number of passes that a hostile file can request.
const maxLoops = 64

// openNanbeige opens Nanbeige's looped models: Llama's blocks, run num_loops times,
// with the output norm between passes unless the file says otherwise.
func openNanbeige(f *model.File) (model.Model, error) {
	m := &nanbeige{decoder: *plain{}.bind(f), skipNorm: f.BoolOr("skip_loop_final_norm", false)}
	m.each = m.cfg.Layers
	loops := max(f.IntOr("num_loops", 1), 1)
	if loops > maxLoops {
		f.Fail("num_loops", "%d loops; at most %d are supported", loops, maxLoops)
		loops = 1
	}
	for i := m.each; i < loops*m.each; i++ {
		b := m.blocks[i%m.each]
		a := *b.mix.(*attention)
		a.Layer, b.mix = i, &a
		m.blocks = append(m.blocks, b)
	}
	m.cfg.Layers = len(m.blocks)
	return m, nil
}

// Forward records the pass.
func (m *nanbeige) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, 1, graph.ByToken)
	for i := range m.blocks {
		if i > 0 && i%m.each == 0 && !m.skipNorm {
			x = m.norm.apply(g, x)
		}
		g.Layer()
		x = m.blocks[i].forward(g, x, in, 0, i == len(m.blocks)-1 && !pooled(&m.cfg, in))
	}
	return m.head(g, in, x)
}
