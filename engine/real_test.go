package engine_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"godwit/engine"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

type realModel struct {
	Logits struct {
		Tokens    []llm.Token
		Positions []int
		Ideal     []topLogits `json:"ideal_top32"`
		Noise     float64     `json:"one_by_one_max_diff"` // difference between the other implementation's results with different batches
	}
	Greedy []struct {
		Prompt  string
		Tokens  []llm.Token
		Greedy  []llm.Token
		Margins []float64
	}
	Long struct {
		Tokens  []llm.Token
		Top     []topLogits `json:"top32"`
		Greedy  []llm.Token
		Margins []float64
	} `json:"long_prompt"`
}

type topLogits struct {
	Position int
	IDs      []llm.Token
	Logits   []float64
	LogSum   float64 `json:"logsumexp"`
	PeerRMS  float64 `json:"peer_rms"`
	PeerKL   float64 `json:"peer_kl"`
}

// margin is the golden margin below which the arg-max is not reliable. The other
// implementation's results differ by up to 1.0 with different batches (README of
// the data).
const margin = 0.3

func readReal(t testing.TB, name string) (m realModel) {
	t.Helper()
	if err := json.Unmarshal(golden.Read(t, "models", "real", name), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRealModels compares the two real models with the other implementation. The
// greedy tokens must be equal, and the distance to the ideal logits must be at most
// 1.5 times the other implementation's distance.
func TestRealModels(t *testing.T) {
	for _, c := range []struct {
		golden string
		path   func(testing.TB) string
	}{{"smollm2.json", testmodel.SmolLM2}, {"gemma3.json", testmodel.Gemma3}} {
		t.Run(c.golden, func(t *testing.T) {
			m := readReal(t, c.golden)
			e := openPath(t, c.path(t), engine.Options{Context: 1024, Parallel: 1, Want: layout.Want{K: kv.F16, V: kv.F16}})
			vocab := e.Config().Vocab
			rows := logits(t, e, m.Logits.Tokens, m.Logits.Positions, false)
			for i, top := range m.Logits.Ideal {
				checkTop(t, "prefill", rows[i*vocab:(i+1)*vocab], top)
			}
			for _, g := range m.Greedy {
				checkGreedy(t, e, g.Prompt, g.Tokens, g.Greedy, g.Margins, m.Logits.Noise)
			}
			var pos []int
			for _, top := range m.Long.Top {
				pos = append(pos, top.Position)
			}
			rows = logits(t, e, m.Long.Tokens, pos, false)
			for i, top := range m.Long.Top {
				if row := rows[i*vocab : (i+1)*vocab]; top.Logits[0]-top.Logits[1] > margin && argMax(row) != top.IDs[0] {
					t.Errorf("position %d: arg-max %d, want %d", top.Position, argMax(row), top.IDs[0])
				}
			}
			checkGreedy(t, e, "long prompt", m.Long.Tokens, m.Long.Greedy, m.Long.Margins, m.Logits.Noise)
		})
	}
}

func openPath(t testing.TB, path string, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), path, o)
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

// checkTop compares the 32 largest logits. Their RMS distance from the ideal logits may
// be at most 1.5 times the peer's.
func checkTop(t *testing.T, what string, row []float32, top topLogits) {
	t.Helper()
	var rms float64
	for i, id := range top.IDs {
		d := float64(row[id]) - top.Logits[i]
		rms += d * d / float64(len(top.IDs))
	}
	rms = math.Sqrt(rms)
	t.Logf("%s position %d: RMS %.4f, the peer's %.4f", what, top.Position, rms, top.PeerRMS)
	if rms > 1.5*top.PeerRMS {
		t.Errorf("%s position %d: RMS distance to the ideal %g, the peer's is %g", what, top.Position, rms, top.PeerRMS)
	}
	if top.Logits[0]-top.Logits[1] > margin && argMax(row) != top.IDs[0] {
		t.Errorf("%s position %d: arg-max %d, want %d", what, top.Position, argMax(row), top.IDs[0])
	}
}

// checkGreedy reads the golden ids. Up to the first small margin, every id must be
// equal. After it, an id must be equal only if its margin is larger than the other
// implementation's difference with other batches.
func checkGreedy(t *testing.T, e *engine.Engine, what string, prompt, want []llm.Token, margins []float64, noise float64) {
	t.Helper()
	all := slices.Concat(prompt, want[:len(want)-1])
	var pos []int
	for i := range want {
		pos = append(pos, len(prompt)-1+i)
	}
	vocab := e.Config().Vocab
	rows := logits(t, e, all, pos, false)
	limit := margin
	for i, id := range want {
		if margins[i] <= margin {
			limit = max(margin, noise)
		}
		if got := argMax(rows[i*vocab : (i+1)*vocab]); margins[i] > limit && got != id {
			t.Errorf("%s: token %d is %d, want %d (margin %g)", what, i, got, id, margins[i])
		}
	}
}

// TestQuantModels compares a model of each weight type with its ideal logits.
func TestQuantModels(t *testing.T) {
	for _, m := range manifest(t).Quant {
		t.Run(m.Name, func(t *testing.T) {
			want := readFloats(t, m.Ideal)
			run := m.Runs[0]
			e := open(t, m.path(t), run.Context, run.K, run.V, engine.Options{})
			pos := slices.Clone(run.Positions)
			for i := range run.Greedy {
				pos = append(pos, len(run.Tokens)+i)
			}
			n := len(run.Positions) * m.Vocab
			expect := slices.Concat(want[run.PrefillOffset:run.PrefillOffset+n],
				want[run.DecodeOffset:run.DecodeOffset+len(run.Greedy)*m.Vocab])
			for _, step := range []bool{false, true} {
				got := logits(t, e, slices.Concat(run.Tokens, run.Greedy), pos, step)
				most, rms := distance(got, expect)
				// Either the activations are floats, or the error is at most 1.5
				// times the peer's rounding error.
				if most > 2e-3 && !(rms <= 1.5*m.PeerRMS) {
					t.Errorf("step %v: RMS %g and maximum %g, the peer's RMS is %g", step, rms, most, m.PeerRMS)
				}
			}
		})
	}
}
