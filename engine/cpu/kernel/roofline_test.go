package kernel

import (
	"reflect"
	"runtime"
	"slices"
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
		// Vector variants mix the words into eight positions and return one of them. A change of
		// any byte that is mixed into this position must show.
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

// Prefetching changes nothing, wherever the range begins and ends.
func TestAsk(t *testing.T) {
	x := gauss(rnd(3), 256)
	a, want := NewActs(3, 256), NewActs(3, 256)
	for i := range a.Rows() {
		a.Quantize(i, x)
		want.Quantize(i, x)
	}
	y := slices.Clone(x)
	eachTier(t, func(t *testing.T) {
		for from := 0; from <= 256; from += 32 {
			for n := 0; from+n <= 256; n += 32 {
				a.PrefetchForWrite(2, from, n)
				PrefetchRow(y[from/32 : from/32+n])
			}
		}
		if !slices.Equal(x, y) || !reflect.DeepEqual(a, want) {
			t.Error("changed")
		}
	})
}

// The limits of the machine for one thread: read bandwidth of memory, and peak of products.
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
