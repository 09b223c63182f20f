package attn

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
	"godwit/engine/kv"
)

// few is a segment of plain floats for pages with fewer cells than usual. Rows
// are stored unchanged and read by the float kernels.
type few struct{ *rows }

func newFew(g kv.Segment, begin places, cells int) few { return few{newRows(g, begin, cells)} }

func (p few) first(dim int) segment {
	if p.First >= dim {
		return nil
	}
	return p
}

// mulAdd adds coef·row of the cells in steps to n rows of acc, ld apart.
func (p few) mulAdd(acc []float32, ld int, coef []float32, n int, from []byte, steps uint64) {
	stored := p.Form.Stored
	for d := 0; d < p.values; d += 64 {
		mulAdd(&mulAddArgs{
			acc: acc[d:], ld: ld, n: n, lanes: min(64, p.values-d),
			x: from[d*p.Form.Bytes:], pitch: p.bytes, stored: stored, finite: stored != dtype.F16,
			coef: coef, steps: steps,
		})
	}
}

func (p few) scores(dst []float32, r *prepared, n int, visits []Visit, s *Scratch) {
	x := s.head[:abreast*p.values]
	for j := range visits {
		v := &visits[j]
		for c := 0; c < v.Cells; c += abreast {
			clear(x)
			rows := min(abreast, v.Cells-c)
			for i := range rows {
				p.mulAdd(x[i*p.values:], 0, one[:], 1, p.cell(v.Page, c+i), 1)
			}
			dots(dst[v.At+c:], r.rows, x, p.values, n, rows)
		}
	}
}

// dotsGeneric adds the dot products of n queries with rows of x. values is the
// number of floats in a row. The products of a query are contiguous, and those of
// the next query start Cells further on.
func dotsGeneric(dst, q, x []float32, values, n, rows int) {
	for i := range n {
		for c := range rows {
			dst[i*Cells+c] += kernel.Dot(q[i*values:(i+1)*values], x[c*values:(c+1)*values])
		}
	}
}

// one is a coefficient that leaves a row unchanged.
var one = [Cells]float32{1}

func (p few) accumulate(acc []float32, ld int, w []float32, n int, visits []Visit, _ *Scratch) {
	for j := range visits {
		v := &visits[j]
		for i := 0; i < n; i += panel {
			p.mulAdd(acc[i*ld+p.Lane:], ld, w[v.At+i*Cells:], min(panel, n-i), v.Page[p.at:], v.Used)
		}
	}
}
