package vision

import (
	"encoding/binary"
	"fmt"
	"math"

	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/llm"
	"godwit/engine/model"
	"godwit/engine/quant"
)

// vit is a vision transformer. Its rows are patches of pixels. It has blocks
// with a residual stream, and a projection of merged rows. The file of each
// family sets the fields that its towers need.
type vit struct {
	width, hidden, heads, layers int
	size, patch, merge           int // merge is the number of patches along the side of a token
	eps                          float32
	act                          graph.Func
	norm                         graph.NormKind

	patches   []*graph.Weight // matrices applied to a patch, whose results are added
	bias      []float32       // bias of patches; nil without one
	class     []float32       // row before the patches; nil without one
	positions []float32       // position table, [places, width]; nil without one
	place     func(dst []float32, at cell)
	double    bool // whether the tower takes 2x - 1 instead of the pixels x

	pre, post norm
	blocks    []vitBlock
	scale     float32 // scale of the scores
	rope      func(g *graph.Builder, x graph.Value) graph.Value
	window    int // side of a window in tokens; 0 if there are no windows
	mean      bool
	project   func(g *graph.Builder, x graph.Value) graph.Value
}

// cell is the grid position of a patch.
type cell struct{ row, col, gridW, gridH int }

// norm is a normalisation. The zero value does nothing.
type norm struct {
	kind graph.NormKind
	w, b *graph.Weight
	eps  float32
}

func (n norm) apply(g *graph.Builder, x graph.Value, group int) graph.Value {
	if n.w == nil && n.eps == 0 {
		return x
	}
	return g.Norm(x, n.kind, n.w, n.b, n.eps, group)
}

// matrix is a projection with its bias and the clamping bounds of its input and
// output.
type matrix struct {
	w, b    *graph.Weight
	in, out *[2]float32 // clamping bounds; nil without any
}

func (m *matrix) apply(g *graph.Builder, x graph.Value) graph.Value {
	if m.in != nil {
		x = g.Clamp(x, m.in[0], m.in[1])
	}
	x = g.Linear(x, m.w, m.b)
	if m.out != nil {
		x = g.Clamp(x, m.out[0], m.out[1])
	}
	return x
}

// vitBlock is one block. Parts that a family does not have are nil or zero.
type vitBlock struct {
	ln1, ln2, mixPost, ffnPost norm
	q, k, v, out               matrix
	qkv                        *matrix
	qNorm, kNorm, vNorm        norm
	up, down                   matrix
	gate                       *matrix
	ls1, ls2, outScale         *graph.Weight
	full                       bool // whether the block attends beyond its window
	deep                       *mlp // deepstack projection, whose result is appended to the row; nil without one
}

// mlp is two matrices with GELU between them, on merged rows.
type mlp struct {
	norm norm
	a, b matrix
}

func (m *mlp) apply(g *graph.Builder, x graph.Value) graph.Value {
	x = m.norm.apply(g, x, 0)
	return m.b.apply(g, g.Act(m.a.apply(g, x), graph.GELU))
}

// Limits of the hyper-parameters. Known towers reach at most a tenth of them.
const (
	maxImage = 1 << 13
	maxPatch = 1 << 8
	maxHeads = 1 << 10
	maxGrid  = 1 << 16 // maximum number of patches of a tower with a fixed size
)

// read reads the hyper-parameters that every tower has.
func (v *vit) read(f *model.File) {
	v.size = bounded(f, "vision.image_size", maxImage)
	v.patch = bounded(f, "vision.patch_size", maxPatch)
	v.width = bounded(f, "vision.embedding_length", 1<<16)
	v.hidden = bounded(f, "vision.feed_forward_length", 1<<20)
	v.layers = bounded(f, "vision.block_count", 1<<10)
	v.heads = bounded(f, "vision.attention.head_count", maxHeads)
	v.eps = f.Epsilon("vision.attention.layer_norm_epsilon")
	if v.width%v.heads != 0 {
		f.Fail("clip.vision.attention.head_count", "%d heads do not divide %d columns", v.heads, v.width)
		v.heads = 1
	}
	v.merge = 1
	v.norm = graph.Layer
	v.act = graph.GELUQuick
	switch {
	case f.BoolOr("use_gelu", false):
		v.act = graph.GELU
	case f.BoolOr("use_silu", false):
		v.act = graph.SiLU
	}
	v.scale = float32(1 / math.Sqrt(float64(v.headDim())))
}

func bounded(f *model.File, key string, most int) int {
	n := f.Int(key)
	if n > most {
		f.Fail("clip."+key, "%d; at most %d is supported", n, most)
		return 1
	}
	return n
}

func (v *vit) headDim() int { return v.width / v.heads }

// merged reads the number of patches along the side of a token.
func (v *vit) merged(f *model.File, key string, def int) {
	if v.merge = f.IntOr(key, def); v.merge < 1 || v.merge > 64 {
		f.Fail("clip."+key, "%d patches a side of a token; 1 to 64 are supported", v.merge)
		v.merge = 1
	}
}

// oneSize checks a tower with a fixed picture size, and returns the number of
// patches along a side.
func (v *vit) oneSize(f *model.File) (grid int) {
	grid = v.size / v.patch
	if v.size%(v.patch*v.merge) != 0 || grid*grid > maxGrid {
		f.Fail("clip.vision.image_size", "%d pixels a side do not split into tokens of %d patches a side, each of %d pixels, or make too many", v.size, v.merge, v.patch)
		return v.merge
	}
	return grid
}

// bindPatches binds the patch convolution as a matrix on the pixels of a patch.
// This works because patches do not overlap.
func (v *vit) bindPatches(f *model.File, second bool) {
	names := []string{"v.patch_embd.weight"}
	if second {
		names = append(names, "v.patch_embd.weight.1")
	}
	for _, name := range names {
		w := f.Weight(name, v.patch, v.patch, 3, v.width)
		w.Shape = []int{3 * v.patch * v.patch, v.width}
		v.patches = append(v.patches, w)
	}
	v.bias = f.Values("v.patch_embd.bias", v.width)
}

// bindPositions binds learned positions, one per patch.
func (v *vit) bindPositions(f *model.File, places int) {
	v.positions = decoded(f, f.Weight("v.position_embd.weight", v.width, places))
	first := 0
	if v.class != nil {
		first = 1
	}
	v.place = func(dst []float32, at cell) {
		row := first + at.row*at.gridW + at.col
		add(dst, v.positions[row*v.width:(row+1)*v.width])
	}
}

// bindBlocks binds the blocks. If swapped is set, files of the family may exchange
// the names of ffn_up and ffn_down.
func (v *vit) bindBlocks(f *model.File, swapped bool) {
	for i := range v.layers {
		name := func(s string) string { return fmt.Sprintf("v.blk.%d.%s", i, s) }
		d := v.width
		b := vitBlock{ln1: v.bindNorm(f, name("ln1"), d), ln2: v.bindNorm(f, name("ln2"), d)}
		if f.HasTensor(name("attn_qkv.weight")) {
			b.qkv = new(bindMatrix(f, name("attn_qkv"), d, 3*d))
		} else {
			b.q, b.k, b.v = bindMatrix(f, name("attn_q"), d, d), bindMatrix(f, name("attn_k"), d, d), bindMatrix(f, name("attn_v"), d, d)
		}
		b.out = bindMatrix(f, name("attn_out"), d, d)
		up, down := name("ffn_up"), name("ffn_down")
		if swapped && f.RowLength(down+".weight") == d {
			up, down = down, up
		}
		b.up, b.down = bindMatrix(f, up, d, v.hidden), bindMatrix(f, down, v.hidden, d)
		if f.HasTensor(name("ffn_gate.weight")) {
			b.gate = new(bindMatrix(f, name("ffn_gate"), d, v.hidden))
		}
		v.blocks = append(v.blocks, b)
		if f.Err() != nil {
			return
		}
	}
}

// bindNorm binds the tower's kind of norm. The bias is optional.
func (v *vit) bindNorm(f *model.File, name string, n int) norm {
	out := norm{kind: v.norm, w: f.Weight(name+".weight", n), eps: v.eps}
	if v.norm == graph.Layer {
		out.b = f.Optional(name+".bias", n)
	}
	return out
}

func bindMatrix(f *model.File, name string, in, out int) matrix {
	m := matrix{w: f.Matrix(name+".weight", in, out), b: f.Optional(name+".bias", out)}
	m.in, m.out = bindBounds(f, name+".input"), bindBounds(f, name+".output")
	return m
}

// bindBounds reads the clamping bounds that some files store for a matrix.
func bindBounds(f *model.File, name string) *[2]float32 {
	low, high := f.Values(name+"_min", 1), f.Values(name+"_max", 1)
	if low == nil && high == nil {
		return nil
	}
	out := [2]float32{float32(math.Inf(-1)), float32(math.Inf(1))}
	if low != nil {
		out[0] = low[0]
	}
	if high != nil {
		out[1] = high[0]
	}
	return &out
}

// bindMLP binds two matrices. The file determines the width between them.
func (v *vit) bindMLP(f *model.File, a, b string, in, out int) mlp {
	mid := f.Rows(a + ".weight")
	if mid < 1 {
		mid = out
	}
	return mlp{a: bindMatrix(f, a, in, mid), b: bindMatrix(f, b, mid, out)}
}

// plan records the forward pass of the tower.
func (v *vit) plan() (*graph.Plan, error) {
	g := graph.NewBuilder()
	pixels := 3 * v.patch * v.patch
	in := g.Input(pixels + v.width)
	x := g.Slice(in, 0, pixels, v.width)
	for _, w := range v.patches {
		x = g.Add(g.Linear(g.Slice(in, 0, 0, pixels), w, nil), x)
	}
	x = v.pre.apply(g, x, 0)
	deep := graph.None
	for i := range v.blocks {
		g.Layer()
		b := &v.blocks[i]
		x = v.block(g, x, b)
		if b.deep == nil {
			continue
		}
		y := b.deep.apply(g, g.Merge(x, v.merge*v.merge, false))
		if deep == graph.None {
			deep = y
		} else {
			deep = g.Concat(deep, y, g.Width(deep), g.Width(y))
		}
	}
	x = v.post.apply(g, x, 0)
	x = v.project(g, g.Merge(x, v.merge*v.merge, v.mean))
	if deep != graph.None {
		x = g.Concat(x, deep, g.Width(x), g.Width(deep))
	}
	return g.Finish(x)
}

func (v *vit) block(g *graph.Builder, x graph.Value, b *vitBlock) graph.Value {
	h := b.ln1.apply(g, x, 0)
	var q, k, val graph.Value
	if b.qkv != nil {
		y := b.qkv.apply(g, h)
		q, k, val = g.Slice(y, 0, 0, v.width), g.Slice(y, 0, v.width, v.width), g.Slice(y, 0, 2*v.width, v.width)
	} else {
		q, k, val = b.q.apply(g, h), b.k.apply(g, h), b.v.apply(g, h)
	}
	dim := v.headDim()
	q, k, val = b.qNorm.apply(g, q, dim), b.kNorm.apply(g, k, dim), b.vNorm.apply(g, val, dim)
	if v.rope != nil {
		q, k = v.rope(g, q), v.rope(g, k)
	}
	a := graph.SelfAttend{Heads: v.heads, Dim: dim, Scale: v.scale, Windowed: v.window > 0 && !b.full}
	y := b.out.apply(g, g.SelfAttend(q, k, val, a))
	y = b.mixPost.apply(g, y, 0)
	if b.ls1 != nil {
		y = g.Affine(y, b.ls1, nil)
	}
	x = g.Add(x, y)
	h = b.ln2.apply(g, x, 0)
	if b.gate != nil {
		y = g.Glu(b.gate.apply(g, h), b.up.apply(g, h), v.act, 0)
	} else {
		y = g.Act(b.up.apply(g, h), v.act)
	}
	y = b.ffnPost.apply(g, b.down.apply(g, y), 0)
	if b.ls2 != nil {
		y = g.Affine(y, b.ls2, nil)
	}
	x = g.Add(x, y)
	if b.outScale != nil {
		x = g.Affine(x, b.outScale, nil)
	}
	return x
}

// rotate2D returns a rotation that rotates pair i of a head by the coordinate
// axis[i].
func (v *vit) rotate2D(freqs []float32, axes []uint8, adjacent bool) func(*graph.Builder, graph.Value) graph.Value {
	op := graph.Rope{HeadDim: v.headDim(), Freqs: freqs, Scale: 1, Adjacent: adjacent, Axes: axes}
	return func(g *graph.Builder, x graph.Value) graph.Value { return g.Rope(x, op) }
}

// The axes of a patch's coordinates.
const (
	byRow = 1
	byCol = 2
)

// power returns base^(-exponent).
func power(base, exponent float64) float32 { return float32(math.Pow(base, -exponent)) }

// rows adds the patches of a tile to the batch. They are ordered by token and,
// if there are windows, first by window.
func (v *vit) rows(tile *Tile, b *llm.Batch) {
	m := v.merge
	side := v.patch * m
	gw, gh := tile.Width/side, tile.Height/side
	first := make([]int32, gw*gh)
	token := func(r, c int) {
		first[r*gw+c] = int32(len(b.Tokens))
		for i := range m * m {
			v.row(tile, b, cell{r*m + i/m, c*m + i%m, gw * m, gh * m})
		}
	}
	if v.class != nil {
		v.classRow(b)
	}
	w, h := gw, gh
	if v.window > 0 {
		w, h = v.window, v.window
	}
	for r0 := 0; r0 < gh; r0 += h {
		for c0 := 0; c0 < gw; c0 += w {
			for r := r0; r < min(r0+h, gh); r++ {
				for c := c0; c < min(c0+w, gw); c++ {
					token(r, c)
				}
			}
			b.Windows = append(b.Windows, int32(len(b.Tokens)))
		}
	}
	b.Outputs = append(b.Outputs, first...)
}

// row appends the input of one patch: its pixels, and the values that are added
// to its embedding.
func (v *vit) row(tile *Tile, b *llm.Batch, at cell) {
	p := v.patch
	plane := tile.Width * tile.Height
	for c := range 3 {
		for y := range p {
			i := c*plane + (at.row*p+y)*tile.Width + at.col*p
			b.Input = append(b.Input, tile.Pixels[i:i+p]...)
		}
	}
	if v.double {
		for i := len(b.Input) - 3*p*p; i < len(b.Input); i++ {
			b.Input[i] = 2*b.Input[i] - 1
		}
	}
	n := len(b.Input)
	b.Input = append(b.Input, make([]float32, v.width)...)
	if v.bias != nil {
		copy(b.Input[n:], v.bias)
	}
	if v.place != nil {
		v.place(b.Input[n:], at)
	}
	v.next(b, llm.Coord{0, int32(at.row), int32(at.col)})
}

func (v *vit) classRow(b *llm.Batch) {
	b.Input = append(b.Input, make([]float32, 3*v.patch*v.patch)...)
	n := len(b.Input)
	b.Input = append(b.Input, v.class...)
	if v.positions != nil {
		add(b.Input[n:], v.positions[:v.width])
	}
	v.next(b, llm.Coord{})
}

func (v *vit) next(b *llm.Batch, at llm.Coord) {
	b.Tokens = append(b.Tokens, 0)
	b.Pos = append(b.Pos, int32(len(b.Pos)))
	b.Coords = append(b.Coords, at)
}

// add adds x to dst.
func add(dst, x []float32) {
	for i, v := range x {
		dst[i] += v
	}
}

// decoded returns the values of a weight, or nil for a nil weight.
func decoded(f *model.File, w *graph.Weight) []float32 {
	if w == nil || f.Err() != nil {
		return nil
	}
	out := make([]float32, w.Elems())
	if err := quant.Decode(w.Type, out, w.Data); err != nil {
		f.Fail(w.Name, "%v", err)
	}
	return out
}

// encoded returns a weight with float32 values that is not in the file.
func encoded(name string, x []float32, shape ...int) *graph.Weight {
	data := make([]byte, 0, 4*len(x))
	for _, v := range x {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return &graph.Weight{Name: name, Type: dtype.F32, Shape: shape, Data: data}
}
