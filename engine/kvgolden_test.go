package engine_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"godwit/engine"
	"godwit/engine/internal/golden"
	"godwit/engine/kv/layout"
)

type kvModel struct {
	Model string
	File  string
	Rows  []struct {
		Prompt   string
		Position int
	}
	Variants []kvVariant
}

type kvVariant struct {
	K      string `json:"kv_k"`
	V      string `json:"kv_v"`
	Flash  bool   `json:"flash_attn"`
	Status string
	Offset *int
	RMS    float64 `json:"rms_diff_vs_f32"`
	KL     float64 `json:"mean_kl_vs_f32"`
}

// TestKVModels compares ten models under eighteen pairs of cache types with the
// peer, in float arithmetic. The two implementations differ only in the order
// of sums and in the last bits of rounded values.
//
// The logits may differ from the peer's stored logits by √2 times the distance
// by which the cache type moves the peer's logits. This is the size of two
// independent errors. With 8-bit values, int8 arithmetic adds a third error. It
// rounds attention weights to 255ths of the largest weight of their page, which
// costs about as much as rounding the values. (With two more planes of weights,
// these rows are as close as in float arithmetic; RATIONALE.md has the price.)
// A pair is worse than the peer's if its divergence from the F32 cache is
// larger by more than a twentieth and by more than three standard errors of the
// mean over the models, because single rows vary by a third.
func TestKVModels(t *testing.T) {
	var list struct {
		Tiny []tinyModel
		KV   []kvModel
	}
	if err := json.Unmarshal(golden.Read(t, "models", "manifest.json"), &list); err != nil {
		t.Fatal(err)
	}
	golden.Path(t, "models", "tiny")
	ratios := make(map[string][]float64)
	for _, m := range list.KV {
		tiny := list.Tiny[slices.IndexFunc(list.Tiny, func(x tinyModel) bool { return x.Name == m.Model })]
		base := kvRows(t, tiny, m, "f32", "f32", true)
		stored := readFloats(t, m.File)
		for _, v := range m.Variants {
			if v.K == "f32" {
				continue // f32 is the base of the comparison
			}
			pair := v.K + "/" + v.V
			rows := kvRows(t, tiny, m, v.K, v.V, true)
			if v.Offset != nil {
				want := stored[*v.Offset:][:len(rows)]
				checkStored(t, m.Model+" "+pair, rows, want, v, 2)
				errors := 2.0
				if v.V == "q8_0" {
					errors = 3
				}
				checkStored(t, m.Model+" "+pair+" int8", kvRows(t, tiny, m, v.K, v.V, false), want, v, errors)
			}
			// Below 1e-5 nats, the divergence comes from the arithmetic, not from
			// the format.
			if v.Flash && v.KL > 1e-5 {
				ratios[pair] = append(ratios[pair], math.Log(meanKL(base, rows, tiny.Vocab)/v.KL))
			}
		}
	}
	for pair, logs := range ratios {
		mean, se := meanError(logs)
		t.Logf("%s: divergence %.2f times the peer's over %d models", pair, math.Exp(mean), len(logs))
		if mean > 3*se && mean > math.Log(1.05) {
			t.Errorf("%s: divergence %.2f times the peer's, %.1f standard errors", pair, math.Exp(mean), mean/se)
		}
	}
}

func checkStored(t *testing.T, what string, rows, want []float32, v kvVariant, errors float64) {
	t.Helper()
	if _, rms := distance(rows, want); !(rms <= math.Sqrt(errors)*v.RMS) {
		t.Errorf("%s: RMS distance to the peer's rows %g, the format moves them by %g", what, rms, v.RMS)
	}
}

// meanError returns the mean and its standard error.
func meanError(x []float64) (mean, se float64) {
	n := float64(len(x))
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		se += (v - mean) * (v - mean) / (n * (n - 1))
	}
	return mean, math.Sqrt(se)
}

// kvRows returns the logits at the stored positions, with the cache types k and v.
func kvRows(t *testing.T, tiny tinyModel, m kvModel, k, v string, float bool) []float32 {
	t.Helper()
	zero := 0
	var out []float32
	for _, prompt := range []string{"p40", "p700"} {
		var pos []int
		for _, r := range m.Rows {
			if r.Prompt == prompt {
				pos = append(pos, r.Position)
			}
		}
		run := tiny.Runs[slices.IndexFunc(tiny.Runs, func(r tinyRun) bool { return r.Prompt == prompt && r.Context == 1024 })]
		e := open(t, tiny.path(t), 1024, k, v, engine.Options{Threads: 1, FloatAttn: float, KV: layout.Settings{Policy: &zero, AutoAsymmetric: layout.Off, SWABypass: layout.Off}})
		out = append(out, logits(t, e, run.Tokens, pos, false)...)
	}
	return out
}

// meanKL returns the mean divergence of rows q from rows p, in nats.
func meanKL(p, q []float32, vocab int) float64 {
	var sum float64
	n := len(p) / vocab
	for r := range n {
		a, b := logSoftmax(p[r*vocab:(r+1)*vocab]), logSoftmax(q[r*vocab:(r+1)*vocab])
		for i := range a {
			sum += math.Exp(a[i]) * (a[i] - b[i])
		}
	}
	return sum / float64(n)
}

func logSoftmax(x []float32) []float64 {
	top := float64(slices.Max(x))
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) - top - math.Log(sum)
	}
	return out
}
