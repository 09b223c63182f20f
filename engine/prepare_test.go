package engine_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/kv/layout"
	"godwit/engine/testmodel"
)

// planned maps the names of the golden models and of an embedding model to their files.
func planned(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testmodel.Golden(t, "models", "tiny"), "*.gguf"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d golden models (%v)", len(files), err)
	}
	list := map[string]string{"embedding": bertLike("bert", 1).save(t, t.TempDir(), "bert")}
	for _, f := range files {
		list[strings.TrimSuffix(filepath.Base(f), ".gguf")] = f
	}
	return list
}

// The displayed plan equals the loaded plan, key by key, for every golden model and
// an embedding model.
func TestPlanLoaded(t *testing.T) {
	turbo, err := engine.ParseCacheTypes("turbo3", "q8_0")
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range planned(t) {
		for what, o := range map[string]engine.Options{
			"defaults":   {},
			"types":      {Context: 200, Parallel: 3, UBatch: 64, Want: turbo},
			"preset":     {Context: 300, Cells: 700, Preset: "small", NoCalibration: true},
			"shared out": {Context: 100, Parallel: 2, NoCalibration: true, KV: layout.Settings{AutoBits: 3}},
		} {
			o.Threads = 1
			shown, err := engine.PlanFile(path, name, o)
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
				continue
			}
			e, err := engine.Open(t.Context(), path, o)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			loaded, err := e.Plan(t.Context(), name)
			if err = errors.Join(err, e.Close()); err != nil {
				t.Fatal(err)
			}
			a, _ := json.Marshal(shown)
			b, _ := json.Marshal(loaded)
			if string(a) != string(b) {
				t.Errorf("%s, %s: shown\n%s\nloaded\n%s", name, what, a, b)
			}
		}
	}
}

// The error for a load that does not fit in free memory has the numbers, and the
// context that it proposes fits. A context that was left open is shortened.
func TestPrepareMemory(t *testing.T) {
	for name, path := range planned(t) {
		m, err := engine.OpenModel(path)
		if err != nil {
			t.Fatal(err)
		}
		o := engine.Options{Context: 512, Parallel: 2}
		whole, err := m.Prepare(o, 0)
		if err != nil {
			t.Fatal(err)
		}
		free := whole.Need.Total()
		if _, err := m.Prepare(o, free); err != nil {
			t.Errorf("%s: just enough memory: %v", name, err)
		}
		p, err := m.Prepare(o, free-1)
		var lack *engine.MemoryError
		if !errors.As(err, &lack) || !errors.Is(err, engine.ErrMemory) || p == nil {
			t.Fatalf("%s: one byte too little: %v", name, err)
		}
		if lack.Context != 512 || lack.Wanted != free || lack.Free != free-1 || lack.Largest >= 512 {
			t.Errorf("%s: %+v", name, lack)
		}
		if o.Context = lack.Largest; lack.Largest > 0 {
			if _, err := m.Prepare(o, free-1); err != nil {
				t.Errorf("%s: the context that is said to fit: %v", name, err)
			}
			if open, err := m.Prepare(engine.Options{Parallel: 2}, free-1); err != nil || open.Context < lack.Largest || open.Need.Total() >= free {
				t.Errorf("%s: an open context: %v", name, err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Engines that share a Memory do not reserve the same bytes twice. Memory that an
// engine releases is available again.
func TestMemoryShared(t *testing.T) {
	path := testmodel.Golden(t, "models", "tiny", "llama-hd64.gguf")
	memory := new(engine.Memory)
	o := engine.Options{Context: 1 << 16, Parallel: 1, Threads: 1, Memory: memory}
	before := o.Free(path)
	if before == 0 {
		t.Skip("the system does not say what memory is free")
	}
	e, err := engine.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	cache := e.KV().Bytes()
	if cache < 64<<20 {
		t.Fatalf("%d bytes of cache show nothing", cache)
	}
	// Other programs allocate and free memory at the same time, so a difference of half
	// the cache is enough.
	alone := engine.Options{Memory: new(engine.Memory)}
	if here, elsewhere := o.Free(""), alone.Free(""); elsewhere-here < cache/2 {
		t.Errorf("%d bytes are free beside %d reserved ones, the system says %d", here, cache, elsewhere)
	}
	if here, own := o.Free(""), o.Free(path); own-here < cache/2 {
		t.Errorf("%d bytes are free once the model of %d bytes is unloaded, %d before", own, cache, here)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if here, elsewhere := o.Free(""), alone.Free(""); elsewhere-here > cache/2 {
		t.Errorf("%d bytes are free after the end, the system says %d", here, elsewhere)
	}
}

// A context beyond the trained length is reported by the load and the plan, unless
// RoPE scaling extends the trained length.
func TestBeyondTrained(t *testing.T) {
	for _, c := range []struct {
		file  string
		times int // context as a multiple of the trained length
		warns bool
	}{{"llama-hd64", 1, false}, {"llama-hd64", 2, true}, {"llama-hd256-linear", 2, false}, {"llama-hd256-linear", 64, true}} {
		path := testmodel.Golden(t, "models", "tiny", c.file+".gguf")
		m, err := engine.OpenModel(path)
		if err != nil {
			t.Fatal(err)
		}
		n := m.Config().Context * c.times
		p, err := m.Prepare(engine.Options{Context: n}, 0)
		if err = errors.Join(err, m.Close()); err != nil {
			t.Fatal(err)
		}
		plan := p.Plan("")
		if text := strings.Join(plan.Events, "\n"); strings.Contains(text, "longer than the model was trained for") != c.warns {
			t.Errorf("%s at %d tokens: %s", c.file, n, text)
		}
		if beyond := plan.Ctx > plan.Trained; beyond != c.warns {
			t.Errorf("%s: %d tokens, made for %d", c.file, plan.Ctx, plan.Trained)
		}
	}
}
