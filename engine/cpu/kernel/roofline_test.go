package kernel

import (
	"runtime"
	"testing"
)

func TestStream(t *testing.T) {
	p := make([]byte, 4096+100)
	for i := range p {
		p[i] = byte(rnd(uint64(i)).Uint32())
	}
	want := streamGeneric(p[:4096])
	eachTier(t, func(t *testing.T) {
		got := Stream(p)
		// Vector variants mix the same words into eight places and return one; reading
		// is what counts, so a change of any byte that lands there must show.
		p[0] ^= 1
		if Stream(p) == got {
			t.Error("the first byte was not read")
		}
		p[0] ^= 1
		if Active() == Generic && got != want {
			t.Errorf("%x, want %x", got, want)
		}
		if Stream(p[:255]) != 0 || Products(0) != 0 || Products(10) <= 0 {
			t.Error("edge cases")
		}
	})
}

// The machine's limits, for one thread: read bandwidth of memory and peak of products.
func BenchmarkRoofline(b *testing.B) {
	buf := huge(b, 256<<20)
	for i := 0; i < len(buf); i += 4096 {
		buf[i] = 1
	}
	eachTierBench(b, func(b *testing.B) {
		b.Run("read", func(b *testing.B) {
			b.SetBytes(int64(len(buf)))
			var mix uint64
			for b.Loop() {
				mix ^= Stream(buf)
			}
			runtime.KeepAlive(mix)
		})
		b.Run("products", func(b *testing.B) {
			var ops int64
			for b.Loop() {
				ops += Products(100000)
			}
			b.ReportMetric(float64(ops)/b.Elapsed().Seconds()/1e9, "Gop/s")
		})
	})
}
