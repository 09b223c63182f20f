package kernel

import "testing"

// Reported bytes are those read and written. Rows have 2048 values and are in
// the first-level cache.
func BenchmarkElement(b *testing.B) {
	const n = 2048
	r := rnd(9)
	x, y, z := gauss(r, n), gauss(r, n), make([]float32, n)
	half := make([]uint16, n)
	a := NewActs(1, n)
	eachTierBench(b, func(b *testing.B) {
		for _, c := range []struct {
			name  string
			bytes int // bytes per value
			f     func()
		}{
			{"quantize", 4, func() { a.Quantize(0, x) }},
			{"rms-norm", 12, func() { RMSNorm(z, x, y, 1e-6) }},
			{"layer-norm", 12, func() { LayerNorm(z, x, y, y, 1e-6) }},
			{"silu-mul", 12, func() { SiLUMul(z, x, y) }},
			{"gelu-mul", 12, func() { GELUMul(z, x, y) }},
			{"gelu-erf", 8, func() { GELUErf(z, x) }},
			{"softplus", 8, func() { Softplus(z, x) }},
			{"softcap", 8, func() { Softcap(z, x, 30) }},
			{"softmax", 8, func() { Softmax(z, x) }},
			{"rope-halves", 8, func() { Rope(z, x[:n/2], y[:n/2], false) }},
			{"rope-pairs", 8, func() { Rope(z, x[:n/2], y[:n/2], true) }},
			{"add", 12, func() { Add(z, x, y) }},
			{"dot", 8, func() { Dot(x, y) }},
			{"axpy", 12, func() { Axpy(z, x, 0) }},
			{"to-f16", 6, func() { ToF16(half, x) }},
			{"from-f16", 6, func() { FromF16(z, half) }},
			{"arg-max", 4, func() { ArgMax(x) }},
		} {
			b.Run(c.name, func(b *testing.B) {
				b.SetBytes(int64(c.bytes) * n)
				for b.Loop() {
					c.f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
			})
		}
	})
}
