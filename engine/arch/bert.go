package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("bert", model.Arch{Open: openBERT, Unread: classifier, Encoder: true, Ranks: true})
	model.Register("nomic-bert", model.Arch{Open: openBERT, Unread: classifier, Encoder: true, Ranks: true})
	model.Register("nomic-bert-moe", model.Arch{Open: openBERT, Unread: classifier, Encoder: true, Ranks: true})
	model.Register("jina-bert-v3", model.Arch{Open: openBERT, Unread: classifier, Encoder: true, Ranks: true})
}

// classifier is the head of a classifier or reranker. It reads the pooled row. If
// the pooling type is not rank, the model's result is the pooled row itself.
var classifier = []string{"cls.*"}

// bert is BERT and its successors for embeddings. Every row attends to the whole
// text, layer norms follow each half of a block, and the result is one row per
// text. BERT adds position embeddings, the others use RoPE. nomic-bert has a gate,
// and nomic-bert-moe a mixture of experts in every second block. Sources: arXiv
// 1810.04805, 2402.01613, 2502.07972, 2409.10173.
type bert struct {
	decoder
	types  *graph.Weight
	cls    classifierHead
	before bool // the norms precede each half
}

// classifierHead computes a reranker's score from the pooled row.
type classifierHead struct {
	dense, denseBias, out, outBias *graph.Weight // one of dense and out may be nil
	f                              graph.Func    // activation after dense
	norm                           norm
}

// bindClassifier binds the head of a model whose pooling type is rank.
func bindClassifier(f *model.File, c *model.Config) classifierHead {
	h := classifierHead{f: graph.Tanh}
	if f.HasTensor("cls.weight") {
		n := max(f.Rows("cls.weight"), 1)
		h.dense = f.Matrix("cls.weight", c.Embd, n)
		h.denseBias = f.Optional("cls.bias", n)
	}
	if h.dense == nil || h.dense.Rows() != 1 || f.HasTensor("cls.output.weight") {
		h.out, h.outBias = f.Matrix("cls.output.weight", c.Embd, 1), f.Optional("cls.output.bias", 1)
	}
	return h
}

func (h *classifierHead) apply(g *graph.Builder, x graph.Value) graph.Value {
	if h.dense != nil {
		x = h.norm.apply(g, g.Act(g.Linear(x, h.dense, h.denseBias), h.f))
	}
	if h.out == nil {
		return x
	}
	return g.Linear(x, h.out, h.outBias)
}

// openBERT opens BERT, Nomic Embed 1.5 and 2, and Jina Embeddings 3, which embed
// one text at a time.
func openBERT(f *model.File) (model.Model, error) {
	m := newBERT(f)
	c := &m.cfg
	h := readHeads(f, c, nil)
	var rope *rotary
	if c.Arch == "bert" {
		m.positions = f.Weight("position_embd.weight", c.Embd, c.Context)
	} else {
		rope = bindRope(f, h[0].dimK, false)
	}
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		m.blocks = append(m.blocks, block{
			mix:     bindAttention(f, c, h[i], i, rope),
			mixPost: biased(f, blk(i, "attn_output_norm"), c.Embd),
			ffn:     bindBERTFeed(f, c, i, hidden[i]),
			ffnPost: biased(f, blk(i, "layer_output_norm"), c.Embd),
		})
	}
	return m, nil
}

// newBERT binds everything except the blocks.
func newBERT(f *model.File) *bert {
	m := &bert{decoder: decoder{cfg: f.Config()}}
	c := &m.cfg
	m.embd = f.Weight("token_embd.weight", c.Embd, c.Vocab)
	m.types = f.Optional("token_types.weight", c.Embd, 0)
	m.embdNorm = biased(f, "token_embd_norm", c.Embd)
	if c.Rank {
		m.cls = bindClassifier(f, c)
	}
	return m
}

func bindBERTFeed(f *model.File, c *model.Config, layer, n int) half {
	every := f.IntOr("moe_every_n_layers", 0)
	switch {
	case c.Arch == "nomic-bert":
		return bindFFN(f, c, layer, n, graph.SiLU)
	case every > 0 && layer%every == 1:
		e := newExperts(f, c, layer, n, readRouting(f, c, layer, graph.Softmax, false), graph.GELU)
		e.bindUp(f, c, layer, n)
		return e
	}
	return bindPlainFFN(f, c, layer, n, graph.GELU)
}

// Forward records the pass. The norms follow the residual sums, unless the model
// has them before each half. A second norm after attention also adds the block's
// input.
func (m *bert) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, 1, graph.ByToken)
	if m.types != nil {
		x = g.Add(x, g.Embed(m.types, 1, graph.ByZero))
	}
	if m.positions != nil {
		x = g.Add(x, g.Embed(m.positions, 1, graph.ByPosition))
	}
	x = m.embdNorm.apply(g, x)
	for i := range m.blocks {
		g.Layer()
		b := &m.blocks[i]
		if m.before {
			x = b.forward(g, x, in, 0, false)
			continue
		}
		y := b.mixPost.apply(g, g.Add(x, b.mix.forward(g, x, in)))
		if b.sideNorm.given() {
			y = b.sideNorm.apply(g, g.Add(x, y))
		}
		x = b.ffnPost.apply(g, g.Add(y, b.ffn.forward(g, y, in)))
	}
	if x = m.norm.apply(g, x); in.Hidden {
		return g.Gather(x)
	}
	x = g.Pool(x, m.cfg.Pooling)
	if m.cfg.Rank {
		x = m.cls.apply(g, x)
	}
	return x
}
