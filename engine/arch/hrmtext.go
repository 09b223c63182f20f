package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("hrm_text", model.Arch{Open: openHRMText}) }

// hrm is two stacks of blocks. The low stack runs several times for each run of the
// high stack, and every run caches its own keys and values.
type hrm struct {
	decoder
	each, high, low int // blocks per stack, runs of the high stack, runs of the low stack before each of them
	start           *graph.Weight
}

// openHRMText opens HRM-Text: a low and a high stack that run in cycles, each on
// the sum of both results. Its norms have no weights, and a gate scales attention's
// result.
func openHRMText(f *model.File) (model.Model, error) {
	bare := norm{kind: graph.RMS, eps: max(f.Epsilon("attention.layer_norm_rms_epsilon"), 1e-12)}
	m := &hrm{each: f.Int("hrm.layers_per_stack"), high: f.Int("hrm.h_cycles"), low: f.Int("hrm.l_cycles")}
	m.decoder = *newDecoder(f)
	c := &m.cfg
	if f.BoolOr("hrm.prefix_lm", false) {
		f.Fail("hrm.prefix_lm", "a prompt whose tokens see each other is not supported")
	}
	if max(m.each, m.high, m.low) > c.Layers || m.each*m.high*(m.low+1) != c.Layers {
		f.Fail("hrm", "%d runs of %d before each of %d runs, of %d blocks, are not the %d of block_count", m.low, m.each, m.high, m.each, c.Layers)
		return m, nil
	}
	m.norm = bare
	m.scale = f.Factor("embedding_scale", 0)
	m.start = f.Weight("hrm.z_l_init", c.Embd)
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, false)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	p := plain{
		norms: func(_ *model.File, _ *model.Config, _ int, b *block) bool {
			b.mixNorm, b.ffnNorm = bare, bare
			return true
		},
		attention: func(f *model.File, c *model.Config, a *attention) { a.bindGate(f, c, true, graph.Sigmoid) },
	}
	var stacks []block
	for i := range 2 * m.each {
		stacks = append(stacks, p.block(f, c, h[i], i, hidden[i], rope))
	}
	for i := range c.Layers {
		b := stacks[i%m.each]
		if i/m.each%(m.low+1) == m.low {
			b = stacks[m.each+i%m.each]
		}
		a := *b.mix.(*attention)
		a.Layer, b.mix = i, &a
		m.blocks = append(m.blocks, b)
	}
	return m, nil
}

// Forward records the pass.
func (m *hrm) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	high := g.Embed(m.embd, m.scale, graph.ByToken)
	low := graph.None
	for i := 0; i < len(m.blocks); i += m.each {
		var x graph.Value
		if low == graph.None {
			x = g.Affine(high, nil, m.start)
		} else {
			x = g.Add(high, low)
		}
		for k := range m.each {
			g.Layer()
			x = m.blocks[i+k].forward(g, x, in, 0, i+k == len(m.blocks)-1 && !pooled(&m.cfg, in))
		}
		if i/m.each%(m.low+1) == m.low {
			high = x
		} else {
			low = x
		}
		if i+m.each < len(m.blocks) { // the last run ends in the output norm
			if high == x {
				high = m.norm.apply(g, x)
			} else {
				low = m.norm.apply(g, x)
			}
		}
	}
	return m.head(g, in, high)
}
