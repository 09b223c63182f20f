package engine_test

import (
	"testing"

	"godwit/engine"
	"godwit/engine/testmodel"
)

// Every kind of benchmark succeeds with a time above 0, even if an earlier run has
// filled the context.
func TestBench(t *testing.T) {
	e := openPath(t, testmodel.SmolLM2(t), engine.Options{Context: 1500, Cells: 3200, Parallel: 2})
	for _, test := range []engine.BenchTest{
		{Prompt: 8},
		{Gen: 4},
		{Gen: 4, Sequences: 2},
		{Prompt: 8, Sequences: 2},
		{Depth: 70, Gen: 4},
		{Depth: 1400, Gen: 4, Sequences: 2, Synthetic: true},
		{Depth: 1400, Prompt: 8, Synthetic: true},
		{Depth: 700, Gen: 4, Synthetic: true},
	} {
		for range 2 {
			if took, err := e.Bench(t.Context(), test); err != nil || took <= 0 {
				t.Errorf("%+v: %v, %v", test, took, err)
			}
		}
	}
	// All sequences start together, so they need no more room than their tokens.
	tight := openPath(t, testmodel.SmolLM2(t), engine.Options{Context: 12, Cells: 4 * 76, Parallel: 4})
	if took, err := tight.Bench(t.Context(), engine.BenchTest{Gen: 10, Sequences: 4}); err != nil || took <= 0 {
		t.Errorf("four in a tight context: %v, %v", took, err)
	}
	if _, err := tight.Bench(t.Context(), engine.BenchTest{Gen: 20, Sequences: 4}); err == nil {
		t.Error("fewer tokens than a test needs gave no error")
	}
	if _, err := e.Bench(t.Context(), engine.BenchTest{Depth: 1 << 20, Gen: 1, Synthetic: true}); err == nil {
		t.Error("a depth beyond the context gave no error")
	}
}
