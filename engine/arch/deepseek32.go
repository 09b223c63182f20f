package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("deepseek32", model.Arch{Open: openDeepSeek32, Ahead: true})
	model.Register("glm-dsa", model.Arch{Open: openGLMDSA, Ahead: true})
}

// openDeepSeek32 opens DeepSeek V3.2: DeepSeek V3 whose layers attend to positions
// that a small indexer chooses. Source: arXiv 2512.02556.
func openDeepSeek32(f *model.File) (model.Model, error) { return openSparse(f, false, 1e-6) }

// openGLMDSA opens GLM 5: DeepSeek V3.2's attention, in which several layers may
// share an indexer's choice.
func openGLMDSA(f *model.File) (model.Model, error) { return openSparse(f, true, 0) }

// openSparse opens models with latent attention over chosen positions and a mixture
// of experts. adjacent selects how RoPE pairs the indexer's columns.
func openSparse(f *model.File, adjacent bool, eps float32) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	s := readLatent(f, c)
	if !s.absorbed {
		f.Fail("attention.key_length_mla", "missing")
	}
	if eps == 0 {
		eps = m.norm.eps
	}
	x := newIndexers(f, c, s, adjacent, eps)
	for i := range c.Layers {
		a := bindLatent(f, c, s, i)
		x.bind(f, c, i, a)
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix: a, ffn: bindLead(f, c, i, graph.SigmoidGate),
		})
	}
	x.layers(c)
	return m, nil
}

// indexers are the indexers of a model. Their keys are cached as further layers
// after the model's own.
type indexers struct {
	heads, dim, top int
	full            []bool
	rope            *rotary
	eps             float32
	next            int // layer number of the next indexer
	last            *indexer
}

func newIndexers(f *model.File, c *model.Config, s latentSizes, adjacent bool, eps float32) *indexers {
	x := &indexers{
		heads: f.Int("attention.indexer.head_count"), dim: f.Int("attention.indexer.key_length"), top: f.Int("attention.indexer.top_k"),
		eps: eps, next: c.Layers,
	}
	if x.heads > maxHeads || x.dim > maxHeadDim || x.dim < s.rotated || x.top > maxChosen {
		f.Fail("attention.indexer", "%d heads (at most %d) of %d columns (%d to %d) choose %d positions (at most %d)", x.heads, maxHeads, x.dim, s.rotated, maxHeadDim, x.top, maxChosen)
		x.heads, x.dim, x.top = 1, max(s.rotated, 1), 1
	}
	r := *s.rope
	r.First, r.HeadDim, r.Adjacent = 0, x.dim, adjacent
	x.rope = &r
	var ok bool
	if x.full, ok = f.Bools("attention.indexer.types", c.Layers); !ok {
		x.full = make([]bool, c.Layers)
		for i := range x.full {
			x.full[i] = true
		}
	}
	return x
}

// maxChosen bounds the number of positions that a hostile file can make a row
// choose. Known models choose 2,048.
const maxChosen = 1 << 16

// layers adds a layer for each indexer's keys.
func (x *indexers) layers(c *model.Config) { c.Layers = x.next }

// indexer chooses the positions that a layer attends to.
type indexer struct {
	*indexers
	layer       int
	q, k, score *graph.Weight
	norm        norm
	chosen      graph.Value // choice in the pass that is being recorded
}

// bind binds the indexer of a layer, or returns that of an earlier layer.
func (x *indexers) bind(f *model.File, c *model.Config, layer int, a *latent) {
	if !x.full[layer] {
		if x.last == nil {
			f.Fail("attention.indexer.types", "layer %d shares a choice, but no layer before it makes one", layer)
		}
		a.index = x.last
		return
	}
	in := c.Embd
	if a.qb != nil {
		in = a.qb.Cols()
	}
	i := &indexer{indexers: x, layer: x.next}
	i.q = f.Matrix(blk(layer, "indexer.attn_q_b.weight"), in, x.heads*x.dim)
	i.k = f.Matrix(blk(layer, "indexer.attn_k.weight"), c.Embd, x.dim)
	i.score = f.Matrix(blk(layer, "indexer.proj.weight"), c.Embd, x.heads)
	i.norm = norm{
		kind: graph.Layer, eps: x.eps,
		w: f.Weight(blk(layer, "indexer.k_norm.weight"), x.dim), b: f.Weight(blk(layer, "indexer.k_norm.bias"), x.dim),
	}
	x.next++
	x.last, a.index, a.owns = i, i, true
}

// choose returns the positions that the rows x attend to. q is the input of their
// queries.
func (i *indexer) choose(g *graph.Builder, x, q graph.Value, in model.Inputs) graph.Value {
	rope := i.rope.at(in)
	q = g.Rope(g.Linear(q, i.q, nil), rope)
	k := g.Rope(i.norm.apply(g, g.Linear(x, i.k, nil)), rope)
	w := g.Scale(g.Linear(x, i.score, nil), 1/(rootOf(i.heads)*rootOf(i.dim)))
	at := graph.Attention{Layer: i.layer, Heads: i.heads, KVHeads: 1, DimK: i.dim, Scale: 1, RopeBase: i.rope.base}
	i.chosen = g.Index(q, k, w, at, i.top)
	return i.chosen
}
