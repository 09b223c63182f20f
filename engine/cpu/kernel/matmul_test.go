package kernel

import (
	"math"
	"testing"

	"godwit/engine/dtype"
)

// A row's result does not depend on other rows in the batch, on how panels are split, or on the
// tier.
func TestMatMulBits(t *testing.T) {
	const rows, batch = 5*16 + 3, 31
	for _, typ := range quantized {
		for _, cols := range []int{256, 768} {
			r := rnd(2)
			w := pack(t, typ, rows, cols, randomRows(r, typ, rows, cols))
			a := NewActs(batch, cols)
			for i := range batch {
				a.Quantize(i, gauss(r, cols))
			}
			want := make([]float32, batch*rows)
			matMulGeneric(want, rows, w, a, 0, batch, 0, w.Panels())
			eachTier(t, func(t *testing.T) {
				for n := 1; n <= batch; n++ {
					if testing.Short() && n > 9 && n%3 > 0 {
						continue // the remaining n cover every remainder by the sizes of tiles
					}
					got := make([]float32, batch*rows)
					for _, p := range [][2]int{{0, 2}, {2, 3}, {3, w.Panels()}} {
						MatMul(got, rows, w, a, batch-n, batch, p[0], p[1])
					}
					sameBits(t, typ, got[(batch-n)*rows:], want[(batch-n)*rows:])
					for _, p := range [][2]int{{1, 3}, {3, w.Panels()}} { // also with rows no longer than their panels
						lo, hi := p[0]*PanelRows, min(p[1]*PanelRows, rows)
						ld := (p[1] - p[0]) * PanelRows
						got := make([]float32, lo+n*ld)
						MatMul(got, ld, w, a, 0, n, p[0], p[1])
						for i := range n {
							sameBits(t, typ, got[i*ld+lo:i*ld+hi], want[i*rows+lo:i*rows+hi])
						}
					}
				}
				for i := range batch {
					got := make([]float32, rows)
					MatVec(got, w, a, i, 0, 3)
					MatVec(got, w, a, i, 3, w.Panels())
					sameBits(t, typ, got, want[i*rows:(i+1)*rows])
					all := make([]float32, (i+1)*rows)
					MatMulAhead(all, rows, w, a, i, i+1, 0, 3, w.Panels()+7)
					sameBits(t, typ, all[i*rows:][:3*PanelRows], want[i*rows:][:3*PanelRows])
				}
			})
		}
	}
}

// Any bytes are valid weights. Scales that are infinite, NaN, subnormal or zero
// give the same bits in every tier, and change no other row.
func TestMatMulAnyBytes(t *testing.T) {
	const rows, cols, batch = 33, 512, 9
	for _, typ := range quantized {
		r := rnd(12)
		src := make([]byte, rows*typ.RowBytes(cols))
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		copy(src, make([]byte, 2*typ.RowBytes(cols)))
		w := pack(t, typ, rows, cols, src)
		a := NewActs(batch, cols)
		for i := range batch {
			x := gauss(r, cols)
			if i == 4 {
				x[77] = float32(math.Inf(1))
			}
			a.Quantize(i, x)
		}
		want := make([]float32, batch*rows)
		matMulGeneric(want, rows, w, a, 0, batch, 0, w.Panels())
		eachTier(t, func(t *testing.T) {
			got := make([]float32, batch*rows)
			MatMul(got, rows, w, a, 0, batch, 0, w.Panels())
			sameBits(t, typ, got, want)
		})
		if want[0] != 0 || want[4*rows] == want[4*rows] {
			t.Errorf("%v: zero weights give %g, infinite activations %g", typ, want[0], want[4*rows])
		}
	}
}

// The same for float weights, also with an odd number of columns.
func TestMatMulF32Bits(t *testing.T) {
	const rows, batch, ldx = 5*16 + 3, 19, 104
	for _, typ := range []dtype.Type{dtype.F32, dtype.F16, dtype.BF16} {
		for _, cols := range []int{1, 2, 37, 96} {
			r := rnd(5)
			w := pack(t, typ, rows, cols, randomRows(r, typ, rows, cols))
			x := gauss(r, batch*ldx)
			want := make([]float32, batch*rows)
			matMulF32Generic(want, rows, w, x, ldx, 0, batch, 0, w.Panels())
			eachTier(t, func(t *testing.T) {
				for n := 1; n <= batch; n++ {
					got := make([]float32, batch*rows)
					for _, p := range [][2]int{{0, 2}, {2, 3}, {3, w.Panels()}} {
						MatMulF32(got, rows, w, x, ldx, batch-n, batch, p[0], p[1])
					}
					sameBits(t, typ, got[(batch-n)*rows:], want[(batch-n)*rows:])
				}
				for i := range batch {
					got := make([]float32, rows)
					MatVecF32(got, w, x[i*ldx:][:cols], 0, w.Panels())
					sameBits(t, typ, got, want[i*rows:(i+1)*rows])
				}
			})
		}
	}
}

func sameBits(t *testing.T, what any, got, want []float32) {
	t.Helper()
	for i, g := range got {
		if math.Float32bits(g) != math.Float32bits(want[i]) && (g == g || want[i] == want[i]) {
			t.Fatalf("%v: value %d of %d is %g (%08x), want %g (%08x)", what, i, len(got),
				g, math.Float32bits(g), want[i], math.Float32bits(want[i]))
		}
	}
}

func benchmarkMatVec(b *testing.B, typ dtype.Type, rows, cols int) {
	n, _ := PackedSize(typ, rows, cols)
	w := &Packed{Type: typ, Rows: rows, Cols: cols, Data: huge(b, n)}
	Pack(w.Data, typ, rows, cols, randomRows(rnd(1), typ, rows, cols), 0, w.Panels())
	a := NewActs(1, cols)
	a.Quantize(0, gauss(rnd(2), cols))
	y := make([]float32, rows)
	b.SetBytes(int64(n))
	for b.Loop() {
		MatVec(y, w, a, 0, 0, w.Panels())
	}
}

// The weights come from memory: 256 MB, which is larger than any cache.
func BenchmarkMatVecMemory(b *testing.B) {
	eachTierBench(b, func(b *testing.B) {
		for _, typ := range quantized {
			b.Run(typ.String(), func(b *testing.B) {
				const cols = 2048
				benchmarkMatVec(b, typ, (128<<20)/typ.RowBytes(cols), cols)
			})
		}
	})
}

// The weights are in the second-level cache, so this measures the arithmetic
// alone.
func BenchmarkMatVecCache(b *testing.B) {
	eachTierBench(b, func(b *testing.B) {
		for _, typ := range quantized {
			b.Run(typ.String(), func(b *testing.B) {
				const cols = 2048
				benchmarkMatVec(b, typ, (256<<10)/typ.RowBytes(cols)/16*16, cols)
			})
		}
	})
}

// Runs of three panels with 576 columns, as one of several threads claims them.
// It compares every other run with consecutive runs that prefetch ahead.
func BenchmarkMatVecRuns(b *testing.B) {
	const rows, cols, run = 16 * 2046, 576, 3
	n, _ := PackedSize(dtype.Q4_1, rows, cols)
	w := &Packed{Type: dtype.Q4_1, Rows: rows, Cols: cols, Data: huge(b, n)}
	Pack(w.Data, w.Type, rows, cols, randomRows(rnd(1), w.Type, rows, cols), 0, w.Panels())
	a := NewActs(1, cols)
	a.Quantize(0, gauss(rnd(2), cols))
	y := make([]float32, rows)
	b.Run("alternate", func(b *testing.B) {
		b.SetBytes(int64(n / 2))
		for b.Loop() {
			for p := 0; p < w.Panels(); p += 2 * run {
				MatVec(y, w, a, 0, p, p+run)
			}
		}
	})
	b.Run("ahead", func(b *testing.B) {
		b.SetBytes(int64(n))
		for b.Loop() {
			for p := 0; p < w.Panels(); p += run {
				MatMulAhead(y, rows, w, a, 0, 1, p, p+run, p+4*run)
			}
		}
	})
}

// A batch of rows, with weights from memory in runs of eight panels.
func BenchmarkMatMulMemory(b *testing.B) {
	const cols, run = 2048, 8
	for _, typ := range quantized {
		rows := (128 << 20) / typ.RowBytes(cols) / (16 * run) * 16 * run
		n, _ := PackedSize(typ, rows, cols)
		w := &Packed{Type: typ, Rows: rows, Cols: cols, Data: huge(b, n)}
		Pack(w.Data, typ, rows, cols, randomRows(rnd(1), typ, rows, cols), 0, w.Panels())
		for _, batch := range []int{2, 4, 8} {
			b.Run(typ.String()+"/"+itoa(batch), func(b *testing.B) {
				a := NewActs(batch, cols)
				for i := range batch {
					a.Quantize(i, gauss(rnd(2), cols))
				}
				y := make([]float32, batch*rows)
				b.SetBytes(int64(n))
				for b.Loop() {
					for p := 0; p < w.Panels(); p += run {
						MatMul(y, rows, w, a, 0, batch, p, p+run)
					}
				}
			})
		}
	}
}

func BenchmarkMatMul(b *testing.B) {
	eachTierBench(b, func(b *testing.B) {
		for _, s := range [...]struct{ rows, cols int }{{1536, 576}, {640, 2048}} {
			for _, typ := range quantized {
				if s.cols%typ.Elems() != 0 {
					continue
				}
				b.Run(typ.String()+"/"+itoa(s.rows)+"x"+itoa(s.cols), func(b *testing.B) {
					const batch = 512
					w := &Packed{Type: typ, Rows: s.rows, Cols: s.cols}
					n, _ := PackedSize(typ, s.rows, s.cols)
					w.Data = make([]byte, n)
					Pack(w.Data, typ, s.rows, s.cols, randomRows(rnd(1), typ, s.rows, s.cols), 0, w.Panels())
					a := NewActs(batch, s.cols)
					for i := range batch {
						a.Quantize(i, gauss(rnd(2), s.cols))
					}
					y := make([]float32, batch*s.rows)
					for b.Loop() {
						MatMul(y, s.rows, w, a, 0, batch, 0, w.Panels())
					}
					ops := 2 * float64(batch) * float64(s.rows) * float64(s.cols)
					b.ReportMetric(ops*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gop/s")
				})
			}
		}
	})
}
