package engine

import (
	"math"
	"testing"

	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// InnerQ measures its tables at load and scales keys and queries inversely. With
// 8-bit keys, the distance from a float cache's logits is less than twice the distance
// without InnerQ. A second load gives the same tables.
func TestInnerQ(t *testing.T) {
	tokens := make([]llm.Token, 150)
	for i := range tokens {
		tokens[i] = llm.Token(37 * i % 200)
	}
	load := func(file, k string, q layout.InnerQ) *Engine {
		e, err := Open(t.Context(), golden.Small(t, file), Options{
			Context: 256, Parallel: 1, Threads: 1, Want: layout.Want{K: named(t, k), V: kv.F32}, KV: layout.Settings{InnerQ: q, SWABypass: layout.Off},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	tables := 0
	for _, file := range []string{"llama-hd64", "gemma3-hd256", "gemma4-e", "deepseek2-mla"} {
		rows := func(e *Engine) []float32 {
			list, err := e.Logits(t.Context(), tokens, []int{70, 90, 110, 120, 130, 140, 149}, false)
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		off := func(got, want []float32) (sum float64) {
			for i := range want {
				sum += float64(got[i]-want[i]) * float64(got[i]-want[i])
			}
			return math.Sqrt(sum)
		}
		exact := rows(load(file, "f32", layout.InnerQ{}))
		plain := rows(load(file, "q8_0-rot", layout.InnerQ{}))
		e := load(file, "q8_0-rot", layout.InnerQ{Groups: 256, Strength: 1})
		even := rows(e)
		p, err := e.Plan(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if p.Layers[0].K.Channels == "" { // the channels are already equal, or the keys are latent
			if off(even, plain) != 0 {
				t.Errorf("%s: no table, and other logits", file)
			}
			continue
		}
		tables++
		if a, b := off(plain, exact), off(even, exact); b == a || !(b < 2*a) {
			t.Errorf("%s: off by %g, without InnerQ by %g", file, b, a)
		}
		same(t, file+" again", rows(load(file, "q8_0-rot", layout.InnerQ{Groups: 256, Strength: 1})), even)
	}
	if tables == 0 {
		t.Error("no model has uneven channels")
	}
}
