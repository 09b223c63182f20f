package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"godwit/engine"
	"godwit/engine/backend"
	"godwit/engine/gpu"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sample"
	"godwit/engine/testmodel"
	"godwit/shaders/emu"
)

// emulator is the GPU backend with kernels that run on the CPU.
func emulator() backend.Driver {
	return gpu.Driver{
		Kind:    "emu",
		List:    func() ([]backend.Info, error) { return []backend.Info{{Backend: "emu"}}, nil },
		Connect: func(int) (gpu.Device, error) { return emu.Open(emu.Options{}) },
	}
}

// On the GPU backend, every tiny model gives the results of an independent
// implementation, whether its prompt is read in batches or token by token.
func TestTinyModelsOnKernels(t *testing.T) {
	tinyModels(t, func() engine.Options { return engine.Options{UBatch: 64, Driver: emulator()} })
}

// tinyModels runs the first prompt of every tiny model.
func tinyModels(t *testing.T, options func() engine.Options) {
	t.Helper()
	golden.Path(t, "models", "tiny")
	for _, m := range manifest(t).Tiny {
		t.Run(m.Name, func(t *testing.T) {
			file := m.Logits
			if m.Ideal != "" {
				file = m.Ideal
			}
			want, run := readFloats(t, file), m.Runs[0]
			e := open(t, m.path(t), run.Context, run.K, run.V, options())
			all := slices.Concat(run.Tokens, run.Greedy)
			pos := slices.Clone(run.Positions)
			for i := range run.Greedy {
				pos = append(pos, len(run.Tokens)+i)
			}
			n := len(run.Positions) * m.Vocab
			expect := slices.Concat(want[run.PrefillOffset:run.PrefillOffset+n],
				want[run.DecodeOffset:run.DecodeOffset+len(run.Greedy)*m.Vocab])
			check(t, m, run, "prefill", logits(t, e, all, pos, false), expect)
			check(t, m, run, "step", logits(t, e, all, pos, true), expect)
		})
	}
}

// On the GPU backend, every weight type gives the results of float arithmetic with the
// decoded weights.
func TestQuantModelsOnKernels(t *testing.T) {
	for _, m := range manifest(t).Quant {
		t.Run(m.Name, func(t *testing.T) {
			want, run := readFloats(t, m.Ideal), m.Runs[0]
			o := engine.Options{Driver: emulator(), Context: run.Context, Parallel: 1, Want: layout.Want{K: kv.F32, V: kv.F32}}
			e, err := engine.Open(t.Context(), m.path(t), o)
			if err != nil {
				t.Fatal(err)
			}
			n := len(run.Positions) * m.Vocab
			got := logits(t, e, run.Tokens, run.Positions, false)
			most, rms := distance(got, want[run.PrefillOffset:run.PrefillOffset+n])
			if most > 2e-3 && !(rms <= 1.5*m.PeerRMS) {
				t.Errorf("RMS %g and maximum %g, the peer's RMS is %g", rms, most, m.PeerRMS)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A real model gives nearly the same logits on the GPU backend as on the CPU. Sums in
// another order can change the code of a cached value. This affects few values, so the
// two backends differ less than the cache format differs from exact values. Rows of
// trellis types are read in their exact f16 form here, as in a short prompt by default.
// This moves the two backends apart as much as an f16 cache does.
func TestRealModelOnKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("a forward pass on the emulator takes seconds")
	}
	tokens, pos := []llm.Token{1, 9690, 198, 2683}, []int{0, 3}
	run := func(c layout.Want, w kv.Window, d backend.Driver) []float32 {
		o := engine.Options{Context: 64, Parallel: 1, Want: c, FloatAttn: true, Driver: d}
		o.KV.ExactWindow, o.KV.ExactSinks = &w.Newest, &w.Pinned
		return logits(t, openPath(t, testmodel.SmolLM2(t), o), tokens, pos, false)
	}
	exact := run(layout.Want{K: kv.F32, V: kv.F32}, kv.Window{}, nil)
	var f16 float64 // error of the f16 cache itself
	for _, c := range []struct {
		want   layout.Want
		window kv.Window
	}{
		{layout.Want{K: kv.F16, V: kv.F16}, kv.Window{}},
		{layout.Want{K: kv.Q8_0, V: kv.Turbo3}, kv.Window{}},
		{layout.Want{K: kv.Q8_0, V: kv.Turbo3}, kv.Window{Pinned: 1, Newest: 64}},
		{layout.Want{K: kv.GW3, V: kv.GW3}, kv.Window{Pinned: 4, Newest: 64}},
	} {
		want, got := run(c.want, c.window, nil), run(c.want, c.window, emulator())
		name := fmt.Sprintf("%s, %s, exact %+v", c.want.K.Name, c.want.V.Name, c.window)
		_, format := distance(want, exact)
		_, apart := distance(got, want)
		t.Logf("%s: RMS %.4f, the format's own %.4f", name, apart, format)
		if c.want.K == kv.F16 {
			f16 = format
		}
		if !(apart <= max(format, f16)) {
			t.Errorf("%s: the CPU's logits are %g away, the format's own error is %g", name, apart, format)
		}
		for i := range pos {
			n := len(want) / len(pos)
			if argMax(got[i*n:(i+1)*n]) != argMax(want[i*n:(i+1)*n]) {
				t.Errorf("%s: another token at position %d", name, pos[i])
			}
		}
	}
}

// All rows are packed here, without an exact window. A rounding difference can change the
// code of a value, and with trellis codes the codes of a whole block. This model is
// sensitive to that. For one prompt, the logits of the two backends differ as much as the
// CPU's own logits do if the model's epsilon grows by a ten thousandth (an RMS of 0.8 with
// q8_0 and turbo3). Over several prompts, the backends' predictions still differ less than
// the format's predictions differ from exact ones. Equal rows are packed to equal bytes
// (see TestTwins).
func TestPackedOnKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("a forward pass on the emulator takes seconds")
	}
	prompts := [][]llm.Token{{1, 9690, 198, 2683}, {504, 253, 1690, 30}, {1, 504, 253, 3575, 282, 4649}, {504, 3575, 282, 4649, 314}, {28, 1000, 2000, 3000, 4000, 5000}, {1, 42, 77, 99, 1234, 777, 31}}
	none := 0
	run := func(w layout.Want, d backend.Driver) (out [][]float32) {
		o := engine.Options{Context: 64, Parallel: 1, Want: w, FloatAttn: true, Driver: d}
		o.KV.ExactWindow, o.KV.ExactSinks = &none, &none
		e := openPath(t, testmodel.SmolLM2(t), o)
		for _, tokens := range prompts {
			out = append(out, logits(t, e, tokens, []int{len(tokens) - 1}, false))
		}
		return out
	}
	exact := run(layout.Want{K: kv.F32, V: kv.F32}, nil)
	for _, w := range []layout.Want{{K: kv.Q8_0, V: kv.Turbo3}, {K: kv.GW3, V: kv.GW3}} {
		want, got := run(w, nil), run(w, emulator())
		var format, apart float64
		for i := range prompts {
			f, a := divergence(exact[i], want[i]), divergence(want[i], got[i])
			t.Logf("%s, %s, prompt %d: %.3f nats from the CPU, the format's own %.3f", w.K.Name, w.V.Name, i, a, f)
			format, apart = format+f, apart+a
		}
		if !(apart < format) {
			t.Errorf("%s, %s: %.3f nats from the CPU's predictions, the format's own divergence is %.3f", w.K.Name, w.V.Name, apart, format)
		}
	}
}

// divergence returns KL(a || b) of two rows of logits, in nats.
func divergence(a, b []float32) (sum float64) {
	norm := func(x []float32) float64 {
		most, s := slices.Max(x), 0.0
		for _, v := range x {
			s += math.Exp(float64(v - most))
		}
		return float64(most) + math.Log(s)
	}
	na, nb := norm(a), norm(b)
	for i := range a {
		p := float64(a[i]) - na
		sum += math.Exp(p) * (p - float64(b[i]) + nb)
	}
	return sum
}

// With exact windows, trellis codes and Sparse V, the logits of the GPU backend and of
// the CPU differ by less than the format's own error. Both consider the same number of
// values and skip nearly the same number.
func TestWindowsOnKernels(t *testing.T) {
	m := manifest(t).Tiny[0]
	tokens := m.Runs[slices.IndexFunc(m.Runs, func(r tinyRun) bool { return r.Prompt == "p700" })].Tokens[:300]
	pos := []int{63, 64, 130, 255, 299}
	run := func(k, v string, d backend.Driver, s layout.Settings) ([]float32, []backend.Counts) {
		e := open(t, m.small(t), 512, k, v, engine.Options{UBatch: 128, FloatAttn: true, Driver: d, SparseV: 1e-3, KV: s})
		out := slices.Concat(logits(t, e, tokens, pos, false), logits(t, e, tokens, pos, true))
		use, err := e.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return out, use.Counts
	}
	exact, _ := run("f32", "f32", nil, layout.Settings{})
	for _, c := range []struct {
		k, v           string
		newest, pinned int
	}{
		{"gw3", "gw3", 64, 4}, {"gw4", "gw2", 100, 0}, {"q8_0", "turbo3", 64, 4}, {"turbo3", "turbo3", 0, 60},
	} {
		t.Run(c.k+" "+c.v, func(t *testing.T) {
			s := layout.Settings{ExactWindow: &c.newest, ExactSinks: &c.pinned}
			want, skips := run(c.k, c.v, nil, s)
			got, counted := run(c.k, c.v, emulator(), s)
			_, format := distance(want, exact)
			most, apart := distance(got, want)
			t.Logf("RMS %.2g, at most %.2g, the format's own %.2g", apart, most, format)
			if !(apart <= format) {
				t.Errorf("the CPU's logits are %g away, the format's own error is %g", apart, format)
			}
			for i := range skips {
				if skips[i].Considered != counted[i].Considered || counted[i].Considered == 0 {
					t.Errorf("layer %d: %d values considered, %d on the CPU", i, counted[i].Considered, skips[i].Considered)
				}
				// The GPU may round a weight at the threshold to the other side of it.
				if d := skips[i].Skipped - counted[i].Skipped; d*d*1e6 > skips[i].Considered*skips[i].Considered {
					t.Errorf("layer %d: %d of %d values skipped, %d on the CPU", i, counted[i].Skipped, counted[i].Considered, skips[i].Skipped)
				}
			}
		})
	}
}

// Presets and automatic bits select the same types on the GPU backend as on the CPU.
// The logits differ by less than the format's own error, even if each conversation
// calibrates itself.
func TestPresetsOnKernels(t *testing.T) {
	m := manifest(t).Tiny[0]
	tokens := m.Runs[slices.IndexFunc(m.Runs, func(r tinyRun) bool { return r.Prompt == "p700" })].Tokens[:240]
	pos, dir := []int{63, 130, 239}, t.TempDir()
	run := func(o engine.Options) ([]float32, layout.Layout) {
		o.Context, o.Parallel, o.UBatch, o.FloatAttn = 512, 1, 128, true
		if !o.NoCalibration {
			o.Calibrations = dir
		}
		e := openPath(t, m.small(t), o)
		return slices.Concat(logits(t, e, tokens, pos, false), logits(t, e, tokens, pos, true)), *e.KV()
	}
	exact, _ := run(engine.Options{Want: layout.Want{K: kv.F32, V: kv.F32}})
	list := map[string]engine.Options{
		"2.6 bits": {KV: layout.Settings{AutoBits: 2.6}}, "by itself": {Preset: layout.Presets()[2].Name, NoCalibration: true},
	}
	for _, p := range layout.Presets() {
		list[p.Name] = engine.Options{Preset: p.Name}
	}
	for name, o := range list {
		t.Run(name, func(t *testing.T) {
			want, l := run(o)
			o.Driver = emulator()
			got, same := run(o)
			windows := false
			for i := range l.Layers {
				a, b := &l.Layers[i], &same.Layers[i]
				if a.K.Active != b.K.Active || a.V.Active != b.V.Active || a.Exact != b.Exact || a.K.SelfCalibrated != b.K.SelfCalibrated || a.K.SelfCalibrated != o.NoCalibration {
					t.Errorf("layer %d: %s and %s, %+v; on the CPU %s and %s, %+v", i, b.K.Active.Name, b.V.Active.Name, b.Exact, a.K.Active.Name, a.V.Active.Name, a.Exact)
				}
				windows = windows || a.Exact.Newest > 0
			}
			if windows == (name == layout.Presets()[0].Name) {
				t.Errorf("exact windows: %v", windows)
			}
			_, format := distance(want, exact)
			most, apart := distance(got, want)
			t.Logf("RMS %.2g, at most %.2g, the format's own %.2g", apart, most, format)
			if !(apart <= format) {
				t.Errorf("the CPU's logits are %g away, the format's own error is %g", apart, format)
			}
		})
	}
}

// The plan rejects what a load rejects: a cache for which the device has no kernel, if
// the device would run layers with that cache.
func TestPlanRefusesWhatLoadRefuses(t *testing.T) {
	m := manifest(t).Tiny[0]
	path := m.small(t)
	for _, c := range []struct {
		driver backend.Driver
		layers int
		want   bool
	}{{emulator(), 1, true}, {narrow{emulator()}, 1, false}, {narrow{emulator()}, 0, true}} {
		o := engine.Options{Context: 64, Parallel: 1, Driver: c.driver, GPULayers: &c.layers}
		_, planned := engine.PlanFile(path, m.Name, o)
		if (planned == nil) != c.want || planned != nil && !errors.Is(planned, backend.ErrUnsupported) {
			t.Errorf("%T, %d layers: planned: %v", c.driver, c.layers, planned)
		}
	}
}

// narrow is a driver that supports no cache.
type narrow struct{ backend.Driver }

func (narrow) Holds(l *layout.Layout) error {
	for i := range l.Layers {
		if l.Layers[i].Owns() {
			return fmt.Errorf("%w: layer %d", backend.ErrUnsupported, i)
		}
	}
	return nil
}

// A model that is split between the CPU and the GPU backend gives the golden
// logits, wherever it is split.
func TestSplitOnKernels(t *testing.T) {
	m := golden.Archs(t)[0]
	path, layers := m.Save(t), 0
	for n := 0; n <= layers; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			layers = checkArch(t, &m, path, engine.Options{UBatch: 64, Driver: emulator(), GPULayers: &n})
		})
	}
	if layers < 3 {
		t.Errorf("%s has %d layers", m.Name, layers)
	}
}

// A sequence that one backend has saved continues on another. The second backend reuses
// the restored tokens and generates the same tokens as the first one.
func TestSessionsOnKernels(t *testing.T) {
	m := manifest(t).Tiny[0]
	prompt := m.Runs[slices.IndexFunc(m.Runs, func(r tinyRun) bool { return r.Prompt == "p700" })].Tokens[:200]
	for _, pair := range [][3]string{{"f16", "f16"}, {"q8_0", "turbo3"}, {"gw4", "gw3"}, {"gw4", "gw3", "by itself"}} {
		own := pair[2] != "" // the conversation calibrates its keys
		devices := map[string]engine.Options{"cpu": {Threads: 1, FloatAttn: true, NoCalibration: own}, "emu": {Driver: emulator(), NoCalibration: own}}
		for from, to := range map[string]string{"cpu": "emu", "emu": "cpu"} {
			t.Run(pair[0]+pair[2]+" "+from+" to "+to, func(t *testing.T) {
				request := engine.Request{Tokens: prompt, MaxTokens: 4}
				answer := func(e *engine.Engine) *engine.Result {
					_, res, err := e.Answer(t.Context(), request)
					if err != nil {
						t.Fatal(err)
					}
					return res
				}
				a, b := open(t, m.small(t), 256, pair[0], pair[1], devices[from]), open(t, m.small(t), 256, pair[0], pair[1], devices[to])
				first := answer(a)
				var saved bytes.Buffer
				if _, err := a.SaveSlot(t.Context(), first.Slot, &saved); err != nil {
					t.Fatal(err)
				}
				if n, err := b.RestoreSlot(t.Context(), 0, "", bytes.NewReader(saved.Bytes())); err != nil || n < len(prompt) {
					t.Fatalf("restored %d tokens: %v", n, err)
				}
				restored := answer(b)
				if restored.Cached < kv.PageCells {
					t.Errorf("reused %d tokens of %d", restored.Cached, len(prompt))
				}
				if !slices.Equal(restored.Tokens, first.Tokens) {
					t.Errorf("%v after the restore, %v before", restored.Tokens, first.Tokens)
				}
			})
		}
	}
}

// If the sampler needs only the largest logits, the device finds them. The tokens
// are the same as with all logits, which are computed when probabilities are
// requested.
func TestLargestLogitsOnKernels(t *testing.T) {
	m := manifest(t).Tiny[0]
	e := open(t, m.small(t), 128, "f16", "f16", engine.Options{UBatch: 64, Driver: emulator()})
	for _, p := range []sample.Params{{}, {Temperature: 1.5, TopK: 40, Seed: 3}, {Temperature: 2, TopK: 5, TopP: 0.9, MinP: 0.01, Seed: 4}, {Temperature: 1, TopK: 100, Seed: 5}} {
		var tokens [2][]llm.Token
		for i := range tokens {
			req := engine.Request{Tokens: m.Runs[0].Tokens, Sampling: p, IgnoreEOG: true, MaxTokens: 12, Logprobs: i == 1}
			_, res, err := e.Answer(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			tokens[i] = res.Tokens
		}
		if len(tokens[0]) == 0 || !slices.Equal(tokens[0], tokens[1]) {
			t.Errorf("%+v: %v of the largest logits, %v of all", p, tokens[0], tokens[1])
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
