package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("gemma3n", model.Arch{
		Chat: "Gemma", Open: openGemma3n,
		// Layers that read an earlier layer's cache do not need these.
		Unread: []string{"blk.*.attn_k.weight", "blk.*.attn_v.weight", "blk.*.attn_k_norm.weight"},
	})
}

// Constants of Gemma 3n, which its files do not contain.
const (
	streams3n = 4         // parallel residual streams, of which the first passes through the blocks
	own3n     = 256       // width of a per-layer embedding
	laurel3n  = 64        // rank of the low-rank branch parallel to attention
	cached3n  = 20        // number of layers with keys and values of their own
	sparse3n  = 10        // number of layers whose gate keeps about a twentieth of its values
	sparsity  = 1.6448536 // threshold of such a gate in standard deviations above the mean: the 95th percentile
)

// gemma3n has four residual streams. Each block predicts all of them from each
// other, computes the first, and corrects the others by the difference. Sources:
// arXiv 2301.13310 (AltUp), 2411.07501 (LAuReL).
type gemma3n struct {
	decoder
	ownEmbd, project *graph.Weight
	ownNorm          norm
	spread, merge    *graph.Weight
	layers           []gemma3nLayer
}

type gemma3nLayer struct {
	router, predict, correct, scale *graph.Weight
	routerNorm                      norm
	left, right                     *graph.Weight
	laurelNorm                      norm
	gate, back                      *graph.Weight // matrices of the per-layer embedding
	ownPost                         norm
}

// openGemma3n opens Gemma 3n: four residual streams, a per-layer embedding, gates
// that keep few values in the first layers, and last layers that read the cache of
// earlier ones.
func openGemma3n(f *model.File) (model.Model, error) {
	m := &gemma3n{decoder: *newDecoder(f)}
	c := &m.cfg
	m.scale, m.norm = rootOf(c.Embd), rms(f, "output_norm", c.Embd)
	m.softcap = f.Factor("final_logit_softcapping", 30)
	m.ownEmbd = f.Weight("per_layer_token_embd.weight", own3n*c.Layers, c.Vocab)
	m.project = f.Matrix("per_layer_model_proj.weight", c.Embd, own3n*c.Layers)
	m.ownNorm = rms(f, "per_layer_proj_norm", own3n)
	m.ownNorm.group = own3n
	m.spread = f.Weight("altup_proj.weight", c.Embd, c.Embd, streams3n-1)
	m.merge = f.Weight("altup_unembd_proj.weight", c.Embd, c.Embd, streams3n-1)
	windowed, _ := windowPattern(f, c, 5, 0)
	window := f.Int("attention.sliding_window")
	h := readHeads(f, c, windowed)
	far := bindRope(f, h[0].dimK, false)
	near := newRope(f, f.Rope(h[0].dimK).Plain(f.FloatOr("rope.freq_base_swa", 10000)), h[0].dimK, false)
	hidden := f.PerLayer("feed_forward_length", c.Layers, -1)
	for i := range c.Layers {
		a := newAttention(f, c, h[i], i, far)
		a.Scale = 1
		if a.shared = i >= cached3n; a.shared {
			a.Share = cached3n - 1
		}
		if windowed[i] {
			a.rope, a.RopeBase, a.Window = near, near.base, window
			if a.shared {
				a.Share = cached3n - 2
			}
		}
		if a.shared && windowed[i] != windowed[a.Share] {
			f.Fail("attention.sliding_window_pattern", "layer %d reads the cache of layer %d, which is of another kind", i, a.Share)
		}
		a.bind(f, c)
		a.headNorms(f)
		a.vNorm = norm{kind: graph.RMS, eps: a.qNorm.eps, group: a.DimV}
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), mixPost: rms(f, blk(i, "post_attention_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd), ffnPost: rms(f, blk(i, "post_ffw_norm"), c.Embd),
			mix: a, ffn: bindFFN(f, c, i, hidden[i], graph.GELU),
		})
		m.layers = append(m.layers, bindGemma3nLayer(f, c, i))
	}
	return m, nil
}

func bindGemma3nLayer(f *model.File, c *model.Config, i int) gemma3nLayer {
	name := func(s string) string { return blk(i, s+".weight") }
	return gemma3nLayer{
		router: f.Matrix(name("altup_router"), c.Embd, streams3n), routerNorm: rms(f, blk(i, "altup_router_norm"), c.Embd),
		predict: f.Matrix(name("altup_predict_coef"), streams3n, streams3n*streams3n),
		correct: f.Matrix(name("altup_correct_coef"), streams3n, streams3n), scale: f.Weight(name("altup_correct_scale"), c.Embd),
		left: f.Matrix(name("laurel_l"), c.Embd, laurel3n), right: f.Matrix(name("laurel_r"), laurel3n, c.Embd),
		laurelNorm: rms(f, blk(i, "laurel_post_norm"), c.Embd),
		gate:       f.Matrix(name("inp_gate"), c.Embd, own3n), back: f.Matrix(name("proj"), own3n, c.Embd),
		ownPost: rms(f, blk(i, "post_norm"), c.Embd),
	}
}

// length computes the length of each row.
func length(g *graph.Builder, x graph.Value) graph.Value {
	return headSums(g, g.Mul(x, g.Norm(x, graph.L2, nil, nil, 1e-20, 0)), 1)
}

// like scales each stream of x to the L2 norm of the same row of other. The
// streams are side by side in a row.
func (m *gemma3n) like(g *graph.Builder, x, other graph.Value) graph.Value {
	x = g.Norm(x, graph.L2, nil, nil, 1e-20, m.cfg.Embd)
	return g.Mul(x, length(g, other))
}

// Forward records the pass.
func (m *gemma3n) Forward(g *graph.Builder, in model.Inputs) graph.Value {
	n := m.cfg.Embd
	first := g.Embed(m.embd, m.scale, graph.ByToken)
	own := m.ownNorm.apply(g, g.Scale(g.Linear(first, m.project, nil), 1/rootOf(n)))
	own = g.Scale(g.Add(own, g.Embed(m.ownEmbd, rootOf(own3n), graph.ByToken)), 1/math.Sqrt2)
	rest := m.like(g, g.HeadLinear(g.Repeat(first, n, streams3n-1, true), m.spread), first)
	x := [streams3n]graph.Value{first}
	for i := 1; i < streams3n; i++ {
		x[i] = g.Slice(rest, 0, (i-1)*n, n)
	}
	for i := range m.blocks {
		g.Layer()
		x = m.block(g, x, i, g.Slice(own, 0, i*own3n, own3n), in)
	}
	if !pooled(&m.cfg, in) {
		for i := range x {
			x[i] = g.Gather(x[i])
		}
	}
	rest = x[1]
	for i := 2; i < streams3n; i++ {
		rest = g.Concat(rest, x[i], g.Width(rest), n)
	}
	rest = m.like(g, g.HeadLinear(rest, m.merge), x[0])
	sum := x[0]
	for i := range streams3n - 1 {
		sum = g.Add(sum, g.Slice(rest, 0, i*n, n))
	}
	return m.head(g, in, g.Scale(sum, 1.0/streams3n))
}

// block computes block i. own is the block's per-layer embedding.
func (m *gemma3n) block(g *graph.Builder, x [streams3n]graph.Value, i int, own graph.Value, in model.Inputs) (out [streams3n]graph.Value) {
	b, l := &m.blocks[i], &m.layers[i]
	minus := func(a, b graph.Value) graph.Value { return g.Add(a, g.Scale(b, -1)) }
	coefs := g.Linear(l.modalities(g, x[0], m.cfg.Embd), l.predict, nil)
	var guess [streams3n]graph.Value
	for j := range guess {
		guess[j] = x[j]
		for k := range x {
			guess[j] = g.Add(guess[j], g.Mul(x[k], g.Slice(coefs, 0, j*streams3n+k, 1)))
		}
	}
	y := b.mixNorm.apply(g, guess[0])
	laurel := g.Add(y, l.laurelNorm.apply(g, g.Linear(g.Linear(y, l.left, nil), l.right, nil)))
	y = g.Add(guess[0], b.mixPost.apply(g, b.mix.forward(g, y, in)))
	y = g.Scale(g.Add(y, laurel), 1/math.Sqrt2)
	y = g.Add(y, b.ffnPost.apply(g, sparseFeed(g, b.ffn.(*ffn), b.ffnNorm.apply(g, y), i < sparse3n)))

	news := minus(y, guess[0])
	coefs = shifted(g, g.Linear(l.modalities(g, y, m.cfg.Embd), l.correct, nil), 1)
	for j := range out {
		out[j] = g.Add(guess[j], g.Mul(news, g.Slice(coefs, 0, j, 1)))
	}
	z := g.Linear(g.Affine(out[0], l.scale, nil), l.gate, nil)
	z = l.ownPost.apply(g, g.Linear(g.Glu(z, own, graph.GELU, 0), l.back, nil))
	for j := 1; j < streams3n; j++ {
		out[j] = g.Add(out[j], z)
	}
	return out
}

// modalities computes the weight of each stream.
func (l *gemma3nLayer) modalities(g *graph.Builder, x graph.Value, n int) graph.Value {
	x = g.Scale(l.routerNorm.apply(g, x), 1/float32(n))
	return g.Act(g.Linear(x, l.router, nil), graph.Tanh)
}

// sparseFeed is a gated feed-forward block. If sparse is set, the gate keeps only
// the amount by which its values exceed the mean by more than sparsity deviations.
func sparseFeed(g *graph.Builder, m *ffn, x graph.Value, sparse bool) graph.Value {
	gate, up := g.Linear(x, m.gate, nil), g.Linear(x, m.up, nil)
	if n := g.Width(gate); sparse && n > 1 {
		mean := g.Scale(headSums(g, gate, 1), -1/float32(n))
		gate = g.Add(gate, g.Repeat(mean, 1, n, false))
		cut := g.Scale(length(g, gate), -sparsity/rootOf(n-1))
		gate = g.Act(g.Add(gate, g.Repeat(cut, 1, n, false)), graph.ReLU)
	}
	return g.Linear(g.Glu(gate, up, m.f, 0), m.down, nil)
}
