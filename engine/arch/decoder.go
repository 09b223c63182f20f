package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

// decoder is the structure of most architectures: an embedding, blocks with a
// residual stream, a norm and an output matrix.
type decoder struct {
	cfg       model.Config
	embd      *graph.Weight
	positions *graph.Weight // learned positions, added to the embedding; nil for none
	embdNorm  norm          // norm after the embedding
	scale     float32       // factor of the embedding; 0 means 1
	blocks    []block
	norm      norm
	output    *graph.Weight
	bias      *graph.Weight // bias of the output
	logits    float32       // factor of the logits; 0 means 1
	softcap   float32       // bound of the logits; 0 for none
	residuals float32       // factor of what a block adds to the residual stream; 0 means 1
	deep      int           // number of first blocks after which a part of a picture's rows is added
}

// half is one half of a block.
type half interface {
	forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value
}

// block mixes along the sequence, then processes each position. The norms before
// and after each half may be missing, and so may either half. In a parallel block,
// both halves read the block's input after ffnNorm, or after mixNorm if there is no
// ffnNorm, and their results are added.
type block struct {
	mixNorm, mixPost norm
	mix              half
	ffnNorm, ffnPost norm
	ffn              half
	parallel         bool
	sideNorm         norm
	side             half // reads the block's input, and its result is added to that of ffn; nil for none
}

// newDecoder reads the hyper-parameters that every decoder has and binds the
// embedding, the output matrix and the output's optional bias. A file without an
// output matrix uses the embedding for it.
func newDecoder(f *model.File) *decoder {
	m := &decoder{cfg: f.Config()}
	m.embd, m.output = f.TokenEmbd(&m.cfg)
	m.bias = f.Optional("output.bias", m.cfg.Vocab)
	return m
}

// ownOutput binds the output matrix of an architecture that never shares it with
// the embedding.
func (m *decoder) ownOutput(f *model.File) {
	m.output = f.Matrix("output.weight", m.cfg.Embd, m.cfg.Vocab)
}

// Config returns the model's configuration for the engine.
func (m *decoder) Config() *model.Config { return &m.cfg }

// Forward records the pass.
func (m *decoder) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	x := g.Embed(m.embd, m.scale, graph.ByToken)
	if in.Pictures {
		x = g.Supplied(x, 0, false)
	}
	if m.positions != nil {
		x = g.Add(x, g.Embed(m.positions, 1, graph.ByPosition))
	}
	x = m.embdNorm.apply(g, x)
	for i := range m.blocks {
		g.Layer()
		deep := in.Pictures && i < m.deep
		trim := i == len(m.blocks)-1 && !pooled(&m.cfg, in)
		x = m.blocks[i].forward(g, x, in, m.residuals, trim && !deep)
		if !deep {
			continue
		}
		if x = g.Supplied(x, i+1, true); trim {
			x = g.Gather(x)
		}
	}
	return m.head(g, in, x)
}

// head ends a pass. It returns the logits of the output rows, which are the only
// rows that the last block kept, or one pooled row per sequence.
func (m *decoder) head(g *graph.Builder, in model.Inputs, x graph.Value) graph.Value {
	x = m.norm.apply(g, x)
	switch {
	case in.Hidden && pooled(&m.cfg, in):
		return g.Gather(x)
	case in.Hidden:
		return x
	case pooled(&m.cfg, in):
		return g.Pool(x, m.cfg.Pooling)
	}
	y := g.Linear(x, m.output, m.bias)
	if m.logits != 0 {
		y = g.Scale(y, m.logits)
	}
	return g.Softcap(y, m.softcap)
}

// pooled reports whether a pass ends in one row per sequence.
func pooled(c *model.Config, in model.Inputs) bool { return in.Pool || c.Embedding }

// forward computes a block. With trim, for the last block, only the output rows
// continue after the half that mixes along the sequence.
func (b *block) forward(g *graph.Builder, x graph.Value, in model.Inputs, scale float32, trim bool) (out graph.Value) {
	if scale == 0 {
		scale = 1
	}
	n, y := graph.None, graph.None
	if b.mix != nil {
		n = b.mixNorm.apply(g, x)
		y = b.mix.forward(g, n, in)
	}
	if b.parallel && b.ffnNorm.given() {
		n = b.ffnNorm.apply(g, x)
	}
	if b.side != nil {
		input := x
		if trim {
			input = g.Gather(x)
		}
		defer func() { out = g.Add(out, b.side.forward(g, b.sideNorm.apply(g, input), in)) }()
	}
	if trim {
		x = g.Gather(x)
		if y != graph.None {
			y = g.Gather(y)
		}
		if b.parallel {
			n = g.Gather(n)
		}
	}
	if y != graph.None {
		x = g.Add(x, g.Scale(b.mixPost.apply(g, y), scale))
	}
	if b.ffn == nil {
		return x
	}
	if !b.parallel {
		n = b.ffnNorm.apply(g, x)
	}
	y = b.ffnPost.apply(g, b.ffn.forward(g, n, in))
	return g.Add(x, g.Scale(y, scale))
}
