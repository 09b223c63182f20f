package engine_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit/engine"
	"godwit/engine/backend"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// stepCases cover everything that a chunk border may affect: each trellis type,
// windows, latent rows, experts and recurrent states. The emulator takes seconds for
// each case, so CI emulates only the cases with emulate.
var stepCases = []struct {
	file, k, v string
	emulate    bool
}{
	{"llama-hd64", "gw2", "gw2", true},
	{"llama-hd64", "gw3", "gw3", true},
	{"llama-hd64", "gw4", "gw4", true},
	{"qwen35", "gw3", "gw3", true},
	{"llama-hd64", "f16", "turbo3", false},
	{"gemma3-hd64", "gw3", "gw2", false},
	{"deepseek2-mla", "tbq4", "tbq4", false},
	{"qwen3moe-hd64", "gw4", "q4_0", false},
	{"lfm2", "f16", "f16", false},
}

// The step limit changes how prompts are cut during another answer, but not a bit
// of the results. The logits are the same without a limit, alone and next to an
// answer, and with limits from one that every step exceeds to one that no step exceeds.
func TestMaxStep(t *testing.T) {
	for _, c := range stepCases {
		t.Run(c.file+"/"+c.k+"/"+c.v, func(t *testing.T) { sameSteps(t, c.file, c.k, c.v, nil, 321) })
	}
}

// GPU kernels for single rows and for several rows differ. The emulator runs
// both.
func TestMaxStepOnKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("the emulator takes seconds for each")
	}
	all := os.Getenv("GODWIT_TEST") == "all"
	for _, c := range stepCases {
		if !c.emulate && !all {
			continue
		}
		t.Run(c.file+"/"+c.k+"/"+c.v, func(t *testing.T) { sameSteps(t, c.file, c.k, c.v, emulator(), 129) })
	}
}

// sameSteps reads prompts of about size tokens with each limit and compares the logits.
func sameSteps(t *testing.T, file, k, v string, d backend.Driver, size int) {
	want := wantOf(t, k, v)
	rng := rand.New(rand.NewPCG(5, 5))
	prompt := make([]llm.Token, size)
	var first []float32
	chunks := map[time.Duration]int{}
	for _, bound := range []time.Duration{-1, time.Nanosecond, 20 * time.Millisecond, 150 * time.Millisecond, 5 * time.Second} {
		var mu sync.Mutex
		watch := false
		e := openPath(t, golden.Small(t, file), engine.Options{
			Context: 2048, Cells: 4096, Parallel: 3, UBatch: 256, MaxStep: bound, Want: want, NoCalibration: true, Driver: d,
			Observe: func(st sched.Step) {
				mu.Lock()
				defer mu.Unlock()
				if watch && st.Prefill > 0 {
					chunks[bound]++
				}
			},
		})
		if first == nil {
			for i := range prompt {
				prompt[i] = llm.Token(rng.IntN(e.Config().Vocab))
			}
		}
		ask := func() (rows []float32) {
			for _, n := range []int{size - 63, size, size, size - 16} { // the third is cached except for its last token
				got, _, _ := e.Rows(t, prompt[:n], 4, false)
				rows = append(rows, got...)
			}
			return rows
		}
		if first == nil {
			first = ask()
			for i := range 3 {
				if _, err := e.EraseSlot(t.Context(), i); err != nil {
					t.Fatal(err)
				}
			}
		}
		e.Beside(t, prompt[:20], func() {
			mu.Lock()
			watch = true
			mu.Unlock()
			if got := ask(); !slices.Equal(got, first) {
				t.Errorf("bound %v: other logits than alone without a bound", bound)
			}
		})
	}
	if chunks[time.Nanosecond] < 2*chunks[-1] {
		t.Errorf("%d chunks under the smallest bound, %d without one", chunks[time.Nanosecond], chunks[-1])
	}
}

// wantOf parses a pair of cache types.
func wantOf(t *testing.T, k, v string) (w layout.Want) {
	t.Helper()
	var err error
	if w.K, err = kv.Parse(k); err == nil {
		w.V, err = kv.Parse(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}
