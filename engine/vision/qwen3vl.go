package vision

import (
	"fmt"
	"math"

	"godwit/engine/model"
)

func init() { register("qwen3vl_merger", bindQwen3VL) }

// bindQwen3VL binds Qwen3-VL's tower. It is Qwen2-VL's tower with learned positions
// for a fixed grid, which are interpolated to the picture's grid, and with
// deepstack: later blocks of the text model add the results of some tower blocks.
// Source: arXiv 2511.21631.
func bindQwen3VL(t *Tower, f *model.File) {
	t.bindQwen(f)
	t.post = t.bindNorm(f, "v.post_ln", t.width)
	w := f.Weight("v.position_embd.weight", t.width, 0)
	side := int(math.Sqrt(float64(w.Rows())))
	if side*side != w.Rows() {
		f.Fail("v.position_embd.weight", "%d rows are not a square", w.Rows())
		return
	}
	table := decoded(f, w)
	t.place = func(dst []float32, at cell) { interpolate(dst, table, side, at) }
	n := t.merge * t.merge * t.width
	for i := range t.blocks {
		name := fmt.Sprintf("v.deepstack.%d.", i)
		if !f.HasTensor(name + "norm.weight") {
			continue
		}
		m := t.bindMLP(f, name+"fc1", name+"fc2", n, t.Text)
		m.norm = t.bindNorm(f, name+"norm", n)
		t.blocks[i].deep = &m
		t.Width += t.Text
	}
}

// interpolate adds the position embedding of a patch. It reads a square table that
// is stretched over the picture.
func interpolate(dst, table []float32, side int, at cell) {
	axis := func(i, n int) (lo, hi int, share float32) {
		if n == 1 {
			return 0, 0, 0
		}
		x := float32(i) * float32(side-1) / float32(n-1)
		lo = int(x)
		return lo, min(lo+1, side-1), x - float32(lo)
	}
	y0, y1, fy := axis(at.row, at.gridH)
	x0, x1, fx := axis(at.col, at.gridW)
	n := len(dst)
	row := func(y, x int) []float32 { return table[(y*side+x)*n:][:n] }
	a, b, c, d := row(y0, x0), row(y0, x1), row(y1, x0), row(y1, x1)
	for i := range dst {
		dst[i] += a[i]*(1-fy)*(1-fx) + b[i]*(1-fy)*fx + c[i]*fy*(1-fx) + d[i]*fy*fx
	}
}
