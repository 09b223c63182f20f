package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/kv"
)

// Copied cells hold the rows of their sources and no other cell changes:
// whole pages, parts of pages, and both together.
func TestCopyCells(t *testing.T) {
	const cells = 6 * kv.PageCells
	for _, typ := range []string{"f16", "q8_0", "turbo3"} {
		c := attnRig{
			k: typ, v: typ, heads: 2, kvHeads: 2, dim: 128, dimV: 128,
			cells: cells, rows: 1, options: backend.Options{Threads: 1},
		}
		c.random(1)
		r := c.open(t)
		rng := rand.New(rand.NewPCG(2, 2))
		r.fill(t, 0, cells, func(int, kv.Side) []float32 {
			x := make([]float32, 256)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			return x
		})
		read := func() (rows [][]byte) {
			for cell := range int32(cells) {
				for _, s := range []kv.Side{kv.K, kv.V} {
					row := make([]byte, r.prog.RowBytes(0, s, kv.Packed))
					if err := r.prog.ReadRow(row, 0, s, kv.Packed, cell); err != nil {
						t.Fatal(err)
					}
					rows = append(rows, row)
				}
			}
			return rows
		}
		for _, m := range []struct{ dst, src, n int }{{64, 0, 64}, {192, 64, 70}, {0, 192, 128}, {65, 192, 64}, {256, 3, 64}, {320, 0, 5}} {
			want := read()
			copy(want[2*m.dst:2*(m.dst+m.n)], want[2*m.src:2*(m.src+m.n)])
			if err := r.prog.CopyCells(0, kv.Packed, int32(m.dst), int32(m.src), m.n); err != nil {
				t.Fatal(err)
			}
			for i, row := range read() {
				if !bytes.Equal(row, want[i]) {
					t.Fatalf("%s: %d cells from %d to %d: cell %d differs", typ, m.n, m.src, m.dst, i/2)
				}
			}
		}
	}
}
