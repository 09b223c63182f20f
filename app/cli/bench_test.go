package cli

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"godwit/engine"
)

func TestBenchTests(t *testing.T) {
	c := benchCmd{Prompt: ids{0, 8}, Gen: ids{4, 0}, Depth: ids{0, 64}, Sequences: ids{1, 2}}
	want := []engine.BenchTest{
		{Prompt: 8, Sequences: 1},
		{Gen: 4, Sequences: 1},
		{Depth: 64, Prompt: 8, Sequences: 1},
		{Depth: 64, Gen: 4, Sequences: 1},
		{Prompt: 8, Sequences: 2},
		{Gen: 4, Sequences: 2},
		{Depth: 64, Prompt: 8, Sequences: 2},
		{Depth: 64, Gen: 4, Sequences: 2},
	}
	if d := cmp.Diff(want, c.tests()); d != "" {
		t.Error(d)
	}
}

// A step of 1 ms that takes 3 ms after 1,000 more tokens costs 2 µs per token,
// divided by the KV heads.
func TestSlopes(t *testing.T) {
	rows := []benchRow{
		{Gen: 8, Depth: 1500, Sequences: 1, Average: 1000. / 3},
		{Gen: 8, Depth: 500, Sequences: 1, Average: 1000},
		{Prompt: 8, Depth: 1500, Sequences: 1, Average: 10},
		{Gen: 8, Depth: 1500, Sequences: 2, Average: 5},
	}
	slopes(rows, 4)
	want := []float64{500, 0, 0, 0}
	for i, y := range rows {
		if diff := y.Slope - want[i]; diff > 1e-6 || diff < -1e-6 {
			t.Errorf("row %d: %g ns, want %g", i, y.Slope, want[i])
		}
	}
}

func TestPrintBench(t *testing.T) {
	rows := []benchRow{
		{Model: "m.gguf", Arch: "llama", Size: 1 << 20, Backend: "cpu", Threads: 2, TypeK: "f16", TypeV: "turbo3", Prompt: 512, Average: 1000, Stddev: 1.5, Samples: []float64{1000}, Sequences: 1},
		{Model: "m.gguf", Arch: "llama", Size: 1 << 20, Backend: "cpu", Threads: 2, TypeK: "f16", TypeV: "turbo3", Gen: 32, Depth: 8192, Average: 10, Sequences: 8, Synthetic: true, Slope: 1.25},
	}
	for format, want := range map[string][]string{
		"md":   {"| llama | 1.0 MiB | cpu | 2 | f16 | turbo3 | pp512 | 1000.00 ± 1.50 |  |", "| 8 × tg32 @ d8192 (synthetic) | 10.00 ± 0.00 | 1.25 |"},
		"csv":  {"m.gguf,llama,1048576,cpu,2,f16,turbo3,512,0,0,1000.000000,1.500000,1,false,0.000000\n"},
		"json": {`"n_prompt":512`, `"ns_token_head":1.25`, `"n_sequences":8`, `"samples_ts":[1000]`},
	} {
		var b bytes.Buffer
		r := &run{out: bufio.NewWriter(&b)}
		if err := r.printBench(format, rows); err != nil {
			t.Fatal(err)
		}
		if err := r.out.Flush(); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if format == "json" {
			text = strings.NewReplacer(" ", "", "\n", "").Replace(text)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", format, w, b.String())
			}
		}
	}
}
