package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

// Code shared by the RWKV models. In all of them, each row is mixed with the
// previous one, and a matrix per head replaces the cache.

// rwkvEps is the epsilon of the norm after the recurrence.
const rwkvEps = 64e-5

// previous computes the previous row minus the row, for each column.
func previous(g *graph.Builder, x graph.Value, layer int) graph.Value {
	w := constant("previous", 2*g.Width(x), 1)
	w.Shape = []int{2, g.Width(x)}
	for i := 0; i < len(w.Data); i += 8 {
		copy(w.Data[i+4:], []byte{0, 0, 0x80, 0xbf}) // -1
	}
	return g.ShortConv(x, layer, w, nil, graph.Identity)
}

// lerp computes x + by·w.
func lerp(g *graph.Builder, x, by graph.Value, w *graph.Weight) graph.Value {
	return g.Add(x, g.Affine(by, w, nil))
}

// headSums computes the sum over the columns of each head.
func headSums(g *graph.Builder, x graph.Value, heads int) graph.Value {
	dim := g.Width(x) / heads
	w := constant("ones", dim*heads, 1)
	w.Shape = []int{dim, 1, heads}
	return g.HeadLinear(x, w)
}

// channelMix is RWKV's feed-forward block, gated where it has a receptance.
type channelMix struct {
	layer                  int
	mixK, mixR             *graph.Weight
	key, value, receptance *graph.Weight
}

func (m *channelMix) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	by := previous(g, x, m.layer)
	y := g.Linear(g.Act(g.Linear(lerp(g, x, by, m.mixK), m.key, nil), graph.ReLU2), m.value, nil)
	if m.receptance == nil {
		return y
	}
	return g.Mul(g.Act(g.Linear(lerp(g, x, by, m.mixR), m.receptance, nil), graph.Sigmoid), y)
}

// wkvHeads reads the head size and the number of heads.
func wkvHeads(f *model.File, c *model.Config) (dim, heads int) {
	dim = f.Int("wkv.head_size")
	if dim > maxHeadDim || c.Embd%dim != 0 || c.Embd/dim > maxHeads {
		f.Fail("wkv.head_size", "%d does not divide %d columns into at most %d heads of at most %d", dim, c.Embd, maxHeads, maxHeadDim)
		dim = c.Embd
	}
	if c.Embedding {
		f.Fail("attention.causal", "false, and all layers are recurrent")
	}
	return dim, c.Embd / dim
}

// trimmed ends the pass of a model whose feed-forward blocks also read the previous
// row. Only the output rows reach the head.
func (m *decoder) trimmed(g *graph.Builder, in model.Inputs, x graph.Value) graph.Value {
	if !pooled(&m.cfg, in) {
		x = g.Gather(x)
	}
	return m.head(g, in, x)
}
