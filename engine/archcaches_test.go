package engine_test

import (
	"math"
	"slices"
	"testing"

	"godwit/engine"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// TestArchCaches loads a model of every architecture with packed caches. Its logits
// are not NaN, are nearly the same for a prompt in one piece and token by token, and
// are close to the logits with an f32 cache.
func TestArchCaches(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range golden.Archs(t) {
		if seen[m.Arch] || slices.Contains(unregistered, m.Arch) || m.Mode == "mtp" || m.Mode == "embed" {
			continue
		}
		seen[m.Arch] = true
		t.Run(m.Name, func(t *testing.T) {
			path, run := m.Save(t), m.Runs[0]
			rows := func(k, v string, step bool) []float32 {
				want := layout.Want{}
				var err error
				if want.K, err = kv.Parse(k); err == nil {
					want.V, err = kv.Parse(v)
				}
				if err != nil {
					t.Fatal(err)
				}
				e := openPath(t, path, engine.Options{Threads: 1, Parallel: 1, Context: run.Context, Want: want, EncoderTokens: run.Encoder})
				return logits(t, e, run.Tokens, run.Positions, step)
			}
			base := rows("f32", "f32", false)
			for _, pair := range [][2]string{{"gw3", "gw3"}, {"q8_0", "turbo3"}} {
				whole := rows(pair[0], pair[1], false)
				own, drift := meanKL(base, whole, m.Row), 0.0
				if run.Prefill < len(run.Tokens) {
					drift = meanKL(whole, rows(pair[0], pair[1], true), m.Row)
				}
				if math.IsNaN(own) || own > 3 || !(drift <= max(own/2, 0.05)) {
					t.Errorf("%s/%s: %g nats from f32, %g between one piece and steps", pair[0], pair[1], own, drift)
				}
				t.Logf("%s/%s: %g nats from f32, %g between one piece and steps", pair[0], pair[1], own, drift)
			}
		})
	}
}
