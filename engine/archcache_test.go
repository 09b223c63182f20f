package engine_test

import (
	"math"
	"slices"
	"testing"

	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/llm"
)

// TestEveryCacheType runs every architecture of the golden data with every cache
// type on both sides. It compares a prompt that is read in one piece with the same
// prompt read token by token. The mean divergence between the two is at most a tenth
// of the type's divergence from f32, or 0.02 nats if that is more, because codes at a
// boundary may flip. This limit was set before packed caches existed. CI runs one type
// of each form, and GODWIT_TEST=all runs all types.
func TestEveryCacheType(t *testing.T) {
	types, tokens := []string{"q8_0", "q4_0-rot", "turbo3", "tbqp3", "gw3"}, 100
	if testAll() {
		types, tokens = nil, 200
		for _, ty := range kv.Types() {
			types = append(types, ty.Name)
		}
	}
	seen := map[string]bool{}
	for _, m := range smallModels(t) {
		i := slices.IndexFunc(m.Runs, func(r tinyRun) bool { return r.Prompt == "p700" })
		if i < 0 || seen[m.Arch] && !testAll() {
			continue
		}
		seen[m.Arch] = true
		run := m.Runs[i]
		ids := run.Tokens[:min(tokens, len(run.Tokens))]
		t.Run(m.Name, func(t *testing.T) {
			base := tailRows(t, &m, ids, "f32", false)
			for _, name := range types {
				whole, steps := tailRows(t, &m, ids, name, false), tailRows(t, &m, ids, name, true)
				own, drift := meanKL(base, whole, m.Vocab), meanKL(whole, steps, m.Vocab)
				if math.IsNaN(own) || !(drift <= max(own/10, 0.02)) {
					t.Errorf("%s: %g nats between one piece and steps, %g from f32", name, drift, own)
				}
			}
		})
	}
	if len(seen) < 15 {
		t.Errorf("%d architectures", len(seen))
	}
}

// tailRows returns the logits of the last rows of a prompt, which attend to
// packed pages.
func tailRows(t *testing.T, m *tinyModel, ids []llm.Token, name string, step bool) []float32 {
	t.Helper()
	var pos []int
	for i := len(ids) - 4; i < len(ids); i++ {
		pos = append(pos, i)
	}
	return logits(t, open(t, m.small(t), 256, name, name, engine.Options{Threads: 1, Parallel: 1}), ids, pos, step)
}
