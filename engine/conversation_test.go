package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// leastMemory returns the smallest value of KV.Memory that works for a model, or 0 if
// the model has no layer with a packed type.
func leastMemory(t testing.TB, path string, o engine.Options) int64 {
	t.Helper()
	m, err := engine.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if o.NoCalibration {
		o.KV.Uncalibrated, o.KV.SelfCalibrate = true, true
	}
	o.KV.Memory = 1
	var small *layout.BudgetError
	if _, err = m.Prepare(o, 0); err != nil && !errors.As(err, &small) {
		t.Fatal(err)
	}
	if small == nil {
		return 0
	}
	o.KV.Memory = small.Least
	p, err := m.Prepare(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(p.Layout.Groups, func(g layout.Group) bool { return g.Exact.Budget != nil }) {
		return 0
	}
	return small.Least
}

// A conversation with a memory limit of its own gives the same bits with every packed
// type, whether it is read at once or in turns, in chunks of any size, and after any
// reuse. CI draws a model for each type.
func TestConversationMemory(t *testing.T) {
	seed := testSeed(t)
	draw := rand.New(rand.NewPCG(seed, 21))
	models := reuseModels(t)
	for i, typ := range kv.Types() {
		want := layout.Want{K: typ, V: typ}
		var path, name string
		least := int64(0)
		for tries := 0; least == 0 && tries < 20; tries++ {
			m := models[draw.IntN(len(models))]
			name, path = m.name, m.path(t)
			least = leastMemory(t, path, engine.Options{Context: 1024, Parallel: 1, Want: want, NoCalibration: true})
		}
		if least == 0 {
			continue // the type is a plain float
		}
		t.Run(name+"/"+typ.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, uint64(i)<<8|21))
			slots := 1 + rng.IntN(3)
			set := layout.Settings{Memory: int64((1 + rng.Float64()) * float64(least))}
			r := openReuse(t, path, want, set, slots, rng)
			vocab := r.warm.Config().Vocab
			r.conversations(t, rng, vocab, slots)
			text := make([]llm.Token, 1000)
			for i := range text {
				text[i] = llm.Token(rng.IntN(vocab))
			}
			for n := 100; n <= len(text); n += 100 {
				r.continued(t, fmt.Sprintf("turn up to %d", n), text[:n], 1+rng.IntN(20), 0)
			}
		})
	}
}

// While everything fits in a conversation's memory, its logits equal those of a cache
// that keeps everything exact. Later logits differ, so the memory limit has an effect.
func TestConversationFits(t *testing.T) {
	models := reuseModels(t)
	path := models[slices.IndexFunc(models, func(m reuseModel) bool { return m.name == "llama-hd64" })].path(t)
	for _, typ := range []*kv.Type{kv.GW3, kv.Turbo3, kv.Q8_0, kv.Q4_0} {
		o := engine.Options{Context: 1024, Parallel: 1, Want: layout.Want{K: typ, V: typ}, NoCalibration: true, Threads: 1}
		least := leastMemory(t, path, o)
		o.KV.Memory = least + least/4
		small := openPath(t, path, o)
		o.KV.Memory = 1 << 40
		all := openPath(t, path, o)
		w := small.KV().Groups[0].Exact
		text := make([]llm.Token, 1000)
		for i := range text {
			text[i] = llm.Token((i*i*7 + i) % small.Config().Vocab)
		}
		positions := make([]int, len(text))
		for i := range positions {
			positions[i] = i
		}
		a, b := logits(t, small, text, positions, false), logits(t, all, text, positions, false)
		vocab, same := small.Config().Vocab, 0
		for same < len(text) && bits(a[same*vocab:(same+1)*vocab], b[same*vocab:(same+1)*vocab]) {
			same++
		}
		whole := 0
		for w.FirstExact(whole) == 0 {
			whole++
		}
		if same != whole || whole == 0 || whole >= len(text) {
			t.Errorf("%s: the first %d rows equal those of an exact cache, want %d", typ.Name, same, whole)
		}
	}
}

// A GPU has no kernel for a window that depends on the position. It returns an
// error, and the CPU replaces it only on request.
func TestConversationOnGPU(t *testing.T) {
	models := reuseModels(t)
	path := models[slices.IndexFunc(models, func(m reuseModel) bool { return m.name == "llama-hd64" })].path(t)
	o := engine.Options{Context: 256, Parallel: 1, Want: layout.Want{K: kv.Turbo3, V: kv.Turbo3}, Threads: 1}
	o.KV.Memory = 2 * leastMemory(t, path, o)
	o.Driver = emulator()
	if e, err := engine.Open(t.Context(), path, o); !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), "--kv-memory") {
		if err == nil {
			err = e.Close()
		}
		t.Errorf("the emulator: %v", err)
	}
	o.Fallback = true
	if e := openPath(t, path, o); e.KV().Groups[0].Exact.Budget == nil {
		t.Error("the CPU has no memory for a conversation")
	}
	var plain layout.Settings
	o.KV, o.Fallback = plain, false
	openPath(t, path, o)
}
