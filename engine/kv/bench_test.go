package kv

import (
	"math/rand/v2"
	"testing"
)

// Measures the throughput of the reference codecs, which a backend without its own
// kernel for a form uses.
func BenchmarkCodec(b *testing.B) {
	for _, name := range []string{"f16", "q8_0", "q4_0", "q4_0-rot", "iq4_nl", "turbo2", "turbo3", "turbo4", "oa-turbo3", "tq3_0", "tbq3_1", "tbq4_1", "tbqp3_1", "amx3"} {
		typ, err := ParseForm(name)
		if err != nil {
			b.Fatal(err)
		}
		e := encoding{Type: typ.Form(128, K), dim: 128}
		x := gauss(rand.New(rand.NewPCG(1, 2)), 128, 1)
		row, _ := e.encode(x)
		perValue := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/128, "ns/value")
		}
		b.Run("encode/"+name, func(b *testing.B) {
			for b.Loop() {
				e.Encode(row, x, At{Pos: 9})
			}
			perValue(b)
		})
		b.Run("decode/"+name, func(b *testing.B) {
			for b.Loop() {
				e.DecodeRotated(x, row)
			}
			perValue(b)
		})
	}
}
