package engine_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// normalisedType returns a cache type whose keys need a calibration.
func normalisedType(t *testing.T) *kv.Type {
	for _, typ := range kv.Types() {
		if typ.Form(64, kv.K).Normalised {
			return typ
		}
	}
	t.Fatal("no type wants a calibration")
	return nil
}

// A calibration is measured at the first load with a type that needs it, saved, and
// used again. A damaged one is measured again. If measuring is not allowed, every
// conversation calibrates itself, or keys use a type that needs no calibration.
func TestCalibrationOnLoad(t *testing.T) {
	typ, dir := normalisedType(t), t.TempDir()
	path := golden.Small(t, "llama-hd64")
	load := func(o engine.Options) *engine.Engine {
		o.Threads, o.Context, o.Parallel, o.Want = 1, 256, 1, layout.Want{K: typ, V: typ}
		return openPath(t, path, o)
	}
	measured := 0
	count := func(share float64) error {
		if share < 0.5 {
			measured++
		}
		return nil
	}
	channels := func(e *engine.Engine) []kv.Channels { return e.KV().Layers[0].K.Channels }
	first := load(engine.Options{Calibrations: dir, Progress: count})
	if channels(first) == nil || measured == 0 {
		t.Fatalf("no channels after the first load, told %d times", measured)
	}
	file := first.Model().Calibrator().Path(dir)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	again := load(engine.Options{Calibrations: dir, NoCalibration: true})
	if c := channels(again); c == nil || c[0].Gain[5] != channels(first)[0].Gain[5] {
		t.Error("the kept calibration is not used")
	}
	if err := os.WriteFile(file, before[:len(before)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	if l := load(engine.Options{Calibrations: dir, NoCalibration: true}).KV(); !l.Layers[0].K.SelfCalibrated || !l.Layers[0].K.Active.Normalised || l.Layers[0].K.Reason == "" {
		t.Errorf("without a calibration K is %s (%s)", l.Layers[0].K.Active.Name, l.Layers[0].K.Reason)
	}
	short := 32 // an exact window so short that a page is packed before there are enough keys to measure
	if l := load(engine.Options{Calibrations: dir, NoCalibration: true, KV: layout.Settings{ExactWindow: &short}}).KV(); l.Layers[0].K.SelfCalibrated || l.Layers[0].K.Active.Normalised || l.Layers[0].K.Reason == "" {
		t.Errorf("without a calibration and a window K is %s (%s)", l.Layers[0].K.Active.Name, l.Layers[0].K.Reason)
	}
	load(engine.Options{Calibrations: dir})
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("measured anew it is another: %v", err)
	}
	// A calibration file that cannot be read, here because it is a folder, does not
	// prevent a load.
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Model().Calibrator().Read(dir); !errors.Is(err, layout.ErrCalibration) || !strings.Contains(err.Error(), file) {
		t.Errorf("a folder: %v", err)
	}
	if c := channels(load(engine.Options{Calibrations: dir})); c == nil || c[0].Gain[5] != channels(first)[0].Gain[5] {
		t.Error("beside a folder nothing is measured")
	}
}

// A load with automatic bits measures the sensitivity of every cache of the
// model once.
func TestAutoOnLoad(t *testing.T) {
	dir := t.TempDir()
	path := golden.Small(t, "llama-hd64")
	least, most := layout.AutoRange()
	o := engine.Options{Threads: 1, Context: 256, Parallel: 1, Calibrations: dir, KV: layout.Settings{AutoBits: (least + most) / 2}}
	l := openPath(t, path, o).KV()
	for i := range l.Layers {
		if y := &l.Layers[i]; y.K.Reason == "" || y.V.Reason == "" || y.K.Channels == nil {
			t.Errorf("layer %d: K %q, V %q, %d channels", i, y.K.Reason, y.V.Reason, len(y.K.Channels))
		}
	}
	m, err := engine.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c, err := m.Calibrator().Read(dir)
	if err != nil || !c.Sensed() {
		t.Errorf("kept: %v", err)
	}
}

// Without a calibration of the model, a conversation calibrates itself. Attention
// over its packed pages comes closer to f16 with every additional bit.
func TestSelfCalibration(t *testing.T) {
	path := golden.Small(t, "llama-hd64")
	rng := rand.New(rand.NewPCG(5, 6))
	tokens := make([]llm.Token, 400)
	for i := range tokens {
		tokens[i] = llm.Token(rng.IntN(300))
	}
	var positions []int // many positions, because one error in the cache affects all logits of a position
	for pos := 200; pos < len(tokens); pos++ {
		positions = append(positions, pos)
	}
	rows := func(typ *kv.Type) []float32 {
		e := openPath(t, path, engine.Options{Threads: 1, Context: 512, Parallel: 2, Want: layout.Want{K: typ, V: kv.F16}, NoCalibration: true})
		if k := &e.KV().Layers[0].K; typ != kv.F16 && !k.SelfCalibrated {
			t.Fatalf("K is %s, %s", k.Active.Name, k.Reason)
		}
		list, err := e.Logits(t.Context(), tokens, positions, false)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := rows(kv.F16)
	last := math.Inf(1)
	for _, name := range []string{"gw2", "gw3", "gw4"} {
		typ, err := kv.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		var sum float64
		for i, v := range rows(typ) {
			d := float64(v - want[i])
			sum += d * d
		}
		if sum == 0 || sum > last/2 {
			t.Errorf("%s: squared error %g after %g with a bit less", name, sum, last)
		}
		last = sum
	}
}
