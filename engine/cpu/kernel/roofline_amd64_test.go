package kernel

import "testing"

func BenchmarkRoofline(b *testing.B) {
	buf := huge(b, 256<<20)
	for i := 0; i < len(buf); i += 4096 {
		buf[i] = 1
	}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			readAVX512(&buf[0], len(buf))
		}
	})
	b.Run("dot", func(b *testing.B) {
		for b.Loop() {
			dotPeakAVX512(100000)
		}
		b.ReportMetric(100000*24*128*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gop/s")
	})
	b.Run("dotmem", func(b *testing.B) {
		for b.Loop() {
			dotPeakMemAVX512(100000, &buf[0])
		}
		b.ReportMetric(100000*24*128*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gop/s")
	})
}
