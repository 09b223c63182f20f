package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"godwit/engine/backend"
	"godwit/engine/kv"
)

// BenchmarkAttention runs one layer with a synthetic cache, for one token or
// 512 tokens at a given depth. It reports nanoseconds per cell that is read, or
// per pair of cell and query head.
func BenchmarkAttention(b *testing.B) {
	for _, shape := range []struct{ heads, kvHeads, dim int }{{9, 3, 64}, {4, 1, 256}, {32, 8, 128}} {
		for _, rows := range []int{1, 512} {
			for _, depth := range []int{0, 1024, 8192, 32768} {
				if rows > 1 && depth > 8192 {
					continue
				}
				for _, types := range [][2]string{{"f16", "f16"}, {"q8_0", "turbo3"}, {"turbo3", "turbo3"}, {"gw3", "gw3"}} {
					name := fmt.Sprintf("%dx%dx%d/rows%d/depth%d/%s+%s", shape.heads, shape.kvHeads, shape.dim, rows, depth, types[0], types[1])
					b.Run(name, func(b *testing.B) {
						benchAttention(b, attnRig{
							k: types[0], v: types[1], heads: shape.heads, kvHeads: shape.kvHeads, dim: shape.dim, dimV: shape.dim,
							cells: depth + 1024, rows: rows, options: backend.Options{Threads: 2}, sparseV: 1e-6,
						}, depth)
					})
				}
			}
		}
	}
}

func benchAttention(b *testing.B, c attnRig, depth int) {
	c.random(1)
	r := c.open(b)
	rng := rand.New(rand.NewPCG(1, 1))
	rows := make([][]float32, 37)
	for i := range rows {
		rows[i] = make([]float32, c.kvHeads*c.dim)
		for j := range rows[i] {
			rows[i][j] = float32(rng.NormFloat64())
		}
	}
	if depth > 0 {
		r.fill(b, 0, depth, func(cell int, s kv.Side) []float32 { return rows[(cell*5+int(s))%len(rows)] })
	}
	batch := r.batch(b, piece{0, someTokens(rng, c.rows)})
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		r.run(b, batch)
		best = min(best, time.Since(start))
	}
	cells := float64(c.kvHeads) * (float64(depth) + 1)
	if c.rows > 1 {
		cells = float64(c.heads*c.rows) * (float64(depth) + float64(c.rows+1)/2)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/cells, "ns/cell")
	b.ReportMetric(float64(best.Nanoseconds())/cells, "best-ns/cell")
	b.ReportMetric(float64(best.Microseconds()), "best-us")
}
