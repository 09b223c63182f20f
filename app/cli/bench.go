package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"godwit/app/config"
	"godwit/app/device"
	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

type benchCmd struct {
	Model string `arg:"" optional:"" placeholder:"MODEL" help:"Path of a GGUF file, or a name from 'godwit list'."`
	config.Engine
	Prompt    ids    `short:"p" default:"512" placeholder:"512" help:"Prompt lengths in tokens; 0 skips the prompt test."`
	Gen       ids    `short:"n" name:"n-gen" default:"128" placeholder:"128" help:"Tokens to generate; 0 skips the test."`
	Depth     ids    `short:"d" name:"n-depth" default:"0" placeholder:"0,8192" help:"Tokens already in the context."`
	Sequences ids    `name:"sequences" default:"1" placeholder:"1,8" help:"Number of parallel sequences."`
	Synthetic bool   `name:"synthetic" help:"Fill long contexts with copies of the first 512 tokens' cells, instead of processing a long text."`
	Repeat    int    `short:"r" name:"repetitions" default:"5" help:"Timed runs per test, after a warm-up run."`
	Roofline  bool   `name:"roofline" help:"Measure the limits of the machine, and for each weight type the share of them that the kernels reach. Takes no model."`
	Format    string `short:"o" name:"output" enum:"md,json,csv" default:"md" help:"Output: md, json or csv."`
	JSON      bool   `name:"json" help:"Same as --output json."`
}

// benchRow is one test, with llama-bench's keys first and Godwit's own keys
// last.
type benchRow struct {
	Model     string    `json:"model_filename"`
	Arch      string    `json:"model_type"`
	Size      int64     `json:"model_size"`
	Backend   string    `json:"backend"`
	Threads   int       `json:"n_threads"`
	TypeK     string    `json:"type_k"`
	TypeV     string    `json:"type_v"`
	Prompt    int       `json:"n_prompt"`
	Gen       int       `json:"n_gen"`
	Depth     int       `json:"n_depth"`
	Average   float64   `json:"avg_ts"`
	Stddev    float64   `json:"stddev_ts"`
	Samples   []float64 `json:"samples_ts"`
	Sequences int       `json:"n_sequences"`
	Synthetic bool      `json:"synthetic"`
	// Slope is the extra time of a step compared with the smallest depth in the
	// list, in ns per token of context and KV head. It is 0 if there is no
	// smaller depth.
	Slope float64 `json:"ns_token_head"`
}

// Run measures every pair of types at every depth.
func (c *benchCmd) Run(r *run) error {
	if c.JSON {
		c.Format = "json"
	}
	if c.Roofline {
		if c.Model != "" {
			return usage{fmt.Errorf("--roofline measures the machine and takes no MODEL: %q", c.Model)}
		}
		return c.roofline(r)
	}
	if c.Model == "" {
		return usage{errors.New("expected a MODEL, or --roofline")}
	}
	if c.Repeat < 1 {
		return usage{fmt.Errorf("--repetitions must be at least 1, not %d", c.Repeat)}
	}
	for _, l := range []ids{c.Prompt, c.Gen, c.Depth} {
		for _, n := range l {
			if n < 0 {
				return usage{fmt.Errorf("%d tokens", n)}
			}
		}
	}
	for _, n := range c.Sequences {
		if n < 1 {
			return usage{fmt.Errorf("--sequences must be at least 1, not %d", n)}
		}
	}
	if len(c.tests()) == 0 {
		return usage{errors.New("nothing to measure: --prompt and --n-gen are both 0")}
	}
	path, err := r.find(c.Model)
	if err != nil {
		return err
	}
	rows := []benchRow{}
	for _, k := range typeList(c.CacheTypeK) {
		for _, v := range typeList(c.CacheTypeV) {
			got, err := c.pair(r, path, k, v)
			if err != nil {
				return err
			}
			rows = append(rows, got...)
		}
	}
	return r.printBench(c.Format, rows)
}

// roofline measures the processor.
func (c *benchCmd) roofline(r *run) error {
	f, err := device.MeasureCPU(r.ctx, c.Threads)
	if err != nil {
		return err
	}
	switch c.Format {
	case "json":
		return r.json(f)
	case "csv":
		fmt.Fprintln(r.out, "type,matvec_gbs,matvec_share,matmul_gops,matmul_share")
		for _, t := range f.Types {
			fmt.Fprintf(r.out, "%s,%f,%f,%f,%f\n", t.Type, t.MatVec, t.MatVecShare, t.MatMul, t.MatMulShare)
		}
		return nil
	}
	fmt.Fprintf(r.out, "%s, %d threads: reads %.1f GB/s, multiplies %.0f Gop/s\n\n", f.Tier, f.Threads, f.Read, f.Peak)
	fmt.Fprintf(r.out, "| type | matrix × vector | of reading | matrix × 512 | of peak |\n|---|---:|---:|---:|---:|\n")
	impossible := false
	share := func(x float64) string {
		if x <= 1 {
			return fmt.Sprintf("%.0f %%", 100*x)
		}
		impossible = true
		return fmt.Sprintf("%.0f %% (!)", 100*x)
	}
	for _, t := range f.Types {
		fmt.Fprintf(r.out, "| %s | %.1f GB/s | %s | %.0f Gop/s | %s |\n", t.Type, t.MatVec, share(t.MatVecShare), t.MatMul, share(t.MatMulShare))
	}
	if impossible {
		fmt.Fprintf(r.out, "\n(!) Above the limit. The machine did other work while the limit was measured.\n")
	}
	return nil
}

func typeList(s string) []string {
	if s == "" {
		return []string{""}
	}
	return strings.Split(s, ",")
}

// tests returns the tests of one pair of types, in the order of the flags.
func (c *benchCmd) tests() (out []engine.BenchTest) {
	for _, n := range c.Sequences {
		for _, d := range c.Depth {
			t := engine.BenchTest{Depth: d, Sequences: n, Synthetic: c.Synthetic}
			for _, p := range c.Prompt {
				if t.Prompt = p; p > 0 {
					out = append(out, t)
				}
			}
			t.Prompt = 0
			for _, g := range c.Gen {
				if t.Gen = g; g > 0 {
					out = append(out, t)
				}
			}
		}
	}
	return out
}

// pair loads the model with one pair of types and runs its tests.
func (c *benchCmd) pair(r *run, path, k, v string) ([]benchRow, error) {
	f := loadFlags{c.Engine}
	f.CacheTypeK, f.CacheTypeV = k, v
	f.Parallel = maxOf(c.Sequences)
	// The prompt token and the first generated token are not timed, and pages are
	// whole.
	f.CtxSize = maxOf(c.Depth) + max(maxOf(c.Prompt), maxOf(c.Gen)+1) + 1
	f.KVCells = f.Parallel * (f.CtxSize + kv.PageCells)
	e, err := r.open(r.ctx, path, &f)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	want := e.KV().Want
	base := benchRow{
		Model: filepath.Base(path), Arch: e.Config().Arch, Size: e.Model().File.Size(),
		Backend: e.Device().Backend, Threads: e.Device().Threads, TypeK: typeName(want.K), TypeV: typeName(want.V),
	}
	var rows []benchRow
	for _, t := range c.tests() {
		row := base
		row.Prompt, row.Gen, row.Depth, row.Sequences = t.Prompt, t.Gen, t.Depth, t.Sequences
		row.Synthetic = t.Synthetic && t.Depth > 0
		if err := c.measure(r.ctx, e, t, &row); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	slopes(rows, heads(e.KV()))
	return rows, nil
}

func typeName(t *kv.Type) string {
	if t == nil {
		return kv.F16.Name
	}
	return t.Name
}

func maxOf(l ids) int {
	m := 0
	for _, n := range l {
		m = max(m, n)
	}
	return m
}

// measure times a test. The first run is not timed.
func (c *benchCmd) measure(ctx context.Context, e *engine.Engine, t engine.BenchTest, row *benchRow) error {
	for i := range c.Repeat + 1 {
		took, err := e.Bench(ctx, t)
		if err != nil {
			return err
		}
		tokens := t.Prompt
		if tokens == 0 {
			tokens = t.Gen
		}
		if i > 0 {
			row.Samples = append(row.Samples, float64(tokens*t.Sequences)/took.Seconds())
		}
	}
	n := float64(len(row.Samples))
	for _, s := range row.Samples {
		row.Average += s / n
	}
	for _, s := range row.Samples {
		row.Stddev += (s - row.Average) * (s - row.Average) / max(n-1, 1)
	}
	row.Stddev = math.Sqrt(row.Stddev)
	return nil
}

// heads counts the KV heads of all layers whose attention grows with the context.
func heads(l *layout.Layout) (n int) {
	for i := range l.Layers {
		if y := &l.Layers[i]; y.Window == 0 {
			n += y.KVHeads
		}
	}
	return n
}

// slopes sets Slope: the extra time of a step per context token and KV head, compared
// with the smallest depth of the same test.
func slopes(rows []benchRow, heads int) {
	for i := range rows {
		y := &rows[i]
		if y.Gen == 0 || heads == 0 {
			continue
		}
		x := y
		for j := range rows {
			if z := &rows[j]; z.Gen == y.Gen && z.Sequences == y.Sequences && z.Depth < x.Depth {
				x = z
			}
		}
		if d := y.Depth - x.Depth; d > 0 {
			y.Slope = (1/y.Average - 1/x.Average) * 1e9 / float64(d) / float64(heads)
		}
	}
}

func (r *run) printBench(format string, rows []benchRow) error {
	switch format {
	case "json":
		return r.json(rows)
	case "csv":
		fmt.Fprintln(r.out, "model_filename,model_type,model_size,backend,n_threads,type_k,type_v,n_prompt,n_gen,n_depth,avg_ts,stddev_ts,n_sequences,synthetic,ns_token_head")
		for _, b := range rows {
			fmt.Fprintf(r.out, "%s,%s,%d,%s,%d,%s,%s,%d,%d,%d,%f,%f,%d,%t,%f\n", b.Model, b.Arch, b.Size, b.Backend, b.Threads,
				b.TypeK, b.TypeV, b.Prompt, b.Gen, b.Depth, b.Average, b.Stddev, b.Sequences, b.Synthetic, b.Slope)
		}
		return nil
	}
	fmt.Fprintf(r.out, "| model | size | backend | threads | K | V | test | t/s | ns a token and KV head |\n|---|---:|---|---:|---|---|---|---:|---:|\n")
	for _, b := range rows {
		slope := ""
		if b.Slope != 0 {
			slope = fmt.Sprintf("%.2f", b.Slope)
		}
		fmt.Fprintf(r.out, "| %s | %s | %s | %d | %s | %s | %s | %.2f ± %.2f | %s |\n",
			b.Arch, size(b.Size), b.Backend, b.Threads, b.TypeK, b.TypeV, b.test(), b.Average, b.Stddev, slope)
	}
	return nil
}

// test names a test as llama-bench does.
func (b *benchRow) test() string {
	name := "pp" + strconv.Itoa(b.Prompt)
	if b.Gen > 0 {
		name = "tg" + strconv.Itoa(b.Gen)
	}
	if b.Sequences > 1 {
		name = strconv.Itoa(b.Sequences) + " × " + name
	}
	if b.Depth > 0 {
		name += " @ d" + strconv.Itoa(b.Depth)
	}
	if b.Synthetic {
		name += " (synthetic)"
	}
	return name
}
