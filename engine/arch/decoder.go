package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

// decoder is the frame of most architectures: an embedding, blocks around a
// residual stream, a norm and an output matrix.
type decoder struct {
	cfg       model.Config
	embd      *graph.Weight
	positions *graph.Weight // learned positions, added to the embedding; nil for none
	embdNorm  norm          // norm after the embedding
	scale     float32       // scale of the embedding; 0: 1
	blocks    []block
	norm      norm
	output    *graph.Weight
	bias      *graph.Weight // bias of the output
	logits    float32       // multiplies them; 0: 1
	softcap   float32       // bounds them; 0: none
	residuals float32       // multiplies what a block adds; 0: 1
	deep      int           // first blocks whose result takes a part of a picture's rows
}

// half is one half of a block.
type half interface {
	forward(g *graph.Builder, x graph.Value, in model.Inputs) graph.Value
}

// block mixes along the sequence, then processes each position. The norms before
// and after either half may be missing. A parallel block gives both halves the
// block's input, behind ffnNorm or else mixNorm, and adds both results. Either half
// may be missing.
type block struct {
	mixNorm, mixPost norm
	mix              half
	ffnNorm, ffnPost norm
	ffn              half
	parallel         bool
	sideNorm         norm
	side             half // reads the block's input and is added to its result; nil for none
}

// newDecoder reads what every decoder has and binds the embedding, which is
// the output matrix too where the file has no other, and the output's bias, which
// few files have.
func newDecoder(f *model.File) *decoder {
	m := &decoder{cfg: f.Config()}
	m.embd, m.output = f.TokenEmbd(&m.cfg)
	m.bias = f.Optional("output.bias", m.cfg.Vocab)
	return m
}

// ownOutput binds the output matrix of an architecture that does not share it
// with the embedding.
func (m *decoder) ownOutput(f *model.File) {
	m.output = f.Matrix("output.weight", m.cfg.Embd, m.cfg.Vocab)
}

// Config is what the engine needs to know.
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

// head ends a pass: logits of the wanted rows, whose others the last block
// has dropped, or one pooled row a sequence.
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

// pooled says whether a pass ends in one row a sequence.
func pooled(c *model.Config, in model.Inputs) bool { return in.Pool || c.Embedding }

// forward computes a block. With trim, for the last block, only the output rows
// continue after the half that looks back along the sequence.
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
