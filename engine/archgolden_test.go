package engine_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/backend"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/model"
)

// unregistered is the sorted list of the architectures in the golden data that Godwit
// cannot load. When you add an architecture to Godwit, remove it here.
var unregistered = strings.Fields(`
	deepseek4 glm5-next graniteswitch minimax-m3 qwen4exp
`)

// TestArchModels compares a model of every architecture with llama.cpp: the logits
// of a prompt in one piece and token by token, or the pooled row. Architectures
// that are not registered must be listed in unregistered.
func TestArchModels(t *testing.T) {
	var missing []string
	for _, m := range golden.Archs(t) {
		path := m.Save(t)
		switch err := opens(path); {
		case errors.Is(err, model.ErrArch) && !slices.Contains(missing, m.Arch):
			missing = append(missing, m.Arch)
		case errors.Is(err, model.ErrArch), m.Mode == "mtp": // prediction blocks are not supported
		default:
			t.Run(m.Name, func(t *testing.T) { checkArch(t, &m, path, engine.Options{Threads: 1}) })
		}
	}
	slices.Sort(missing)
	if !slices.Equal(missing, unregistered) {
		t.Errorf("unregistered architectures:\n%q\nthe list has\n%q", missing, unregistered)
	}
}

// opens returns the error of opening a file.
func opens(path string) error {
	m, err := engine.OpenModel(path)
	if err != nil {
		return err
	}
	return m.Close()
}

// lacking maps architectures to the op or feature that the GPU backend does not
// support, as named in the error. The CPU runs these models instead.
var lacking = map[string]string{
	"apertus":         "an exponential",
	"bailingmoe3":     "a recurrence that decays by column",
	"deepseek32":      "attention to chosen positions",
	"dots3note":       "attention to chosen positions",
	"glm-dsa":         "attention to chosen positions",
	"hy_v4":           "attention to chosen positions",
	"kimi-k3":         "a recurrence that decays by column",
	"kimi-linear":     "a recurrence that decays by column",
	"arwkv7":          "a recurrence that decays by column",
	"bloom":           "a slope for each head",
	"gemma-embedding": "a window to both sides",
	"grovemoe":        "experts that share a small one",
	"jais":            "a slope for each head",
	"jamba":           "a selective scan",
	"jina-bert-v2":    "a slope for each head",
	"mamba":           "a selective scan",
	"modern-bert":     "a window to both sides",
	"mpt":             "a slope for each head",
	"refact":          "a slope for each head",
	"rwkv6":           "an exponential",
	"rwkv6qwen2":      "an exponential",
	"rwkv7":           "a recurrence that decays by column",
	"t5":              "relative positions",
	"t5encoder":       "relative positions",
}

// checkLack opens a model whose architecture the GPU backend does not support. The
// error names what is missing. With Fallback, the CPU gives llama.cpp's results.
func checkLack(t *testing.T, m *golden.Model, what string) {
	t.Helper()
	path := m.Save(t)
	o := engine.Options{UBatch: 64, Context: m.Runs[0].Context, Parallel: 1, Driver: emulator()}
	if _, err := engine.Open(t.Context(), path, o); !errors.Is(err, backend.ErrUnsupported) || !strings.Contains(err.Error(), what) {
		t.Fatalf("opened on the emulator: %v, want an error about %s", err, what)
	}
	o.Fallback, o.Threads = true, 1
	checkArch(t, m, path, o)
}

// Compares one model per architecture on the GPU backend with llama.cpp. CI draws
// 40 architectures and prints the seed. GODWIT_SEED repeats a draw, and
// GODWIT_TEST=all runs all architectures.
func TestArchModelsOnKernels(t *testing.T) {
	var list []golden.Model
	seen := make(map[string]bool)
	for _, m := range golden.Archs(t) {
		if seen[m.Arch] || slices.Contains(unregistered, m.Arch) || m.Mode == "mtp" {
			continue
		}
		seen[m.Arch] = true
		list = append(list, m)
	}
	if !testAll() {
		rng := rand.New(rand.NewPCG(testSeed(t), 0))
		rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		list = list[:40]
	}
	for _, m := range list {
		t.Run(m.Name, func(t *testing.T) {
			if what := lacking[m.Arch]; what != "" {
				checkLack(t, &m, what)
				return
			}
			checkArch(t, &m, m.Save(t), engine.Options{UBatch: 64, Driver: emulator()})
		})
	}
}

// checkArch compares a model with llama.cpp and returns its number of layers.
func checkArch(t *testing.T, m *golden.Model, path string, o engine.Options) int {
	t.Helper()
	rows, run := m.Rows(t), m.Runs[0]
	o.Context, o.Parallel, o.Want, o.EncoderTokens = run.Context, 1, layout.Want{K: kv.F32, V: kv.F32}, run.Encoder
	e := openPath(t, path, o)
	if m.Mode == "embed" {
		got, err := e.Embed(t.Context(), run.Tokens)
		if err != nil {
			t.Fatal(err)
		}
		if most, _ := distance(unit(got), unit(rows[m.PooledAt:][:m.Pooled])); !(most <= 5e-4) {
			t.Errorf("pooled rows of length 1 differ by %g, at most 5e-4", most)
		}
		o.Hidden = true
		if most := farthest(logits(t, openPath(t, path, o), run.Tokens, run.Positions, false), rows[run.Offset:][:len(run.Positions)*m.Row]); !(most <= m.Tolerance) {
			t.Errorf("hidden rows differ by %g, at most %g", most, m.Tolerance)
		}
		return e.Config().Layers
	}
	want := rows[run.Offset:][:len(run.Positions)*m.Row]
	for _, step := range []bool{false, true} {
		if step && run.Prefill == len(run.Tokens) {
			continue // the model is not causal
		}
		got := logits(t, e, run.Tokens, run.Positions, step)
		if most := farthest(got, want); !(most <= m.Tolerance) {
			t.Errorf("step %v: largest distance %g, at most %g", step, most, m.Tolerance)
		}
	}
	return e.Config().Layers
}

// farthest returns the largest difference. Logits of suppressed tokens, which are far
// below all others, are not compared if both lists suppress the token.
func farthest(got, want []float32) (most float64) {
	const suppressed = -1e30
	if len(got) != len(want) {
		return math.NaN()
	}
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if got[i] < suppressed && want[i] < suppressed {
			continue
		}
		if d > most || d != d {
			most = d
		}
	}
	return most
}

// unit scales a vector to length 1.
func unit(x []float32) []float32 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(float64(v) / math.Sqrt(sum))
	}
	return out
}
