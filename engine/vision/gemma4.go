package vision

import (
	"fmt"
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { register("gemma4v", bindGemma4) }

// bindGemma4 binds Gemma 4's tower. It has a dynamic size, and four norms per
// block. A position is the sum of a row's and a column's embedding. Scores
// between normalised queries and keys are not scaled.
func bindGemma4(t *Tower, f *model.File) {
	t.norm, t.act, t.scale, t.double = graph.RMS, graph.GELU, 1, true
	t.merged(f, "vision.projector.scale_factor", 3)
	t.bindPatches(f, false)
	places := f.Rows("v.position_embd.weight")
	table := decoded(f, f.Weight("v.position_embd.weight", t.width, max(places, 1), 2))
	t.place = func(dst []float32, at cell) {
		col, row := min(at.col, places-1), places+min(at.row, places-1)
		add(dst, table[col*t.width:(col+1)*t.width])
		add(dst, table[row*t.width:(row+1)*t.width])
	}
	t.bindBlocks(f, false)
	h := t.headDim()
	if h%4 != 0 {
		f.Fail("clip.vision.attention.head_count", "heads of %d columns; the size must be a multiple of 4", h)
		return
	}
	for i := range t.blocks {
		b := &t.blocks[i]
		name := func(s string) string { return fmt.Sprintf("v.blk.%d.%s", i, s) }
		b.mixPost, b.ffnPost = t.bindNorm(f, name("attn_post_norm"), t.width), t.bindNorm(f, name("ffn_post_norm"), t.width)
		b.qNorm, b.kNorm = t.bindNorm(f, name("attn_q_norm"), h), t.bindNorm(f, name("attn_k_norm"), h)
		b.vNorm = norm{kind: graph.RMS, eps: t.eps}
		b.outScale = f.Optional(name("out_scale.weight"), 1)
	}
	t.rope = t.halves()
	t.Text = max(f.Rows("mm.input_projection.weight"), 1)
	t.Width = t.Text
	t.Whole = t.Text != gemma4E2B && t.Text != gemma4E4B
	t.vit.mean = true
	shift, scale := t.bindStandard(f)
	m := bindMatrix(f, "mm.input_projection", t.width, t.Text)
	last := norm{kind: graph.RMS, eps: t.eps}
	t.project = func(g *graph.Builder, x graph.Value) graph.Value {
		x = g.Scale(x, float32(math.Sqrt(float64(t.width))))
		if scale != nil {
			x = g.Affine(x, scale, shift)
		}
		return m.apply(g, last.apply(g, x, 0))
	}
	t.fit = t.dynamic(70, 1120)
	t.texts = around("<|image>", "<image|>")
}

// Widths of the text models whose attention stays causal inside a picture.
const (
	gemma4E2B = 1536
	gemma4E4B = 2560
)

// halves rotates the first half of a head by the column and the second half by the
// row.
func (v *vit) halves() func(*graph.Builder, graph.Value) graph.Value {
	h := v.headDim()
	freqs := make([]float32, h/4)
	byColumn, byRows := make([]uint8, h/4), make([]uint8, h/4)
	for j := range freqs {
		freqs[j] = power(100, float64(2*j)/float64(h/2))
		byColumn[j], byRows[j] = byCol, byRow
	}
	a := graph.Rope{HeadDim: h, Freqs: freqs, Scale: 1, Axes: byColumn}
	b := graph.Rope{HeadDim: h, First: h / 2, Freqs: freqs, Scale: 1, Axes: byRows}
	return func(g *graph.Builder, x graph.Value) graph.Value { return g.Rope(g.Rope(x, a), b) }
}

// bindStandard binds the standardisation (x - bias)·scale as x·scale + shift.
// It returns nil if the file does not have these tensors.
func (t *Tower) bindStandard(f *model.File) (shift, scale *graph.Weight) {
	bias, factor := f.Values("v.std_bias", t.width), f.Values("v.std_scale", t.width)
	if bias == nil && factor == nil {
		return nil, nil
	}
	if bias == nil || factor == nil {
		f.Fail("v.std_bias", "v.std_bias and v.std_scale must both be present")
		return nil, nil
	}
	minus := make([]float32, t.width)
	for i := range minus {
		minus[i] = -bias[i] * factor[i]
	}
	return encoded("v.std_bias", minus, t.width), encoded("v.std_scale", factor, t.width)
}
