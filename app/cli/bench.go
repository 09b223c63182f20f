package cli

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/kv"
)

type benchCmd struct {
	modelArg
	config.Engine
	Prompt ids    `short:"p" default:"512" placeholder:"512" help:"Prompt lengths; 0 leaves the prompt test out."`
	Gen    ids    `short:"n" name:"n-gen" default:"128" placeholder:"128" help:"Generated tokens; 0 leaves that test out."`
	Depth  ids    `short:"d" name:"n-depth" default:"0" placeholder:"0,8192" help:"Tokens already in the context."`
	Repeat int    `short:"r" name:"repetitions" default:"5" help:"Timed runs of each test, after one that is not timed."`
	Format string `short:"o" name:"output" enum:"md,json,csv" default:"md" help:"Output: md, json or csv."`
	JSON   bool   `name:"json" help:"Same as --output json."`
}

// benchRow is one test, with llama-bench's keys.
type benchRow struct {
	Model    string    `json:"model_filename"`
	Arch     string    `json:"model_type"`
	Size     int64     `json:"model_size"`
	Backend  string    `json:"backend"`
	Threads  int       `json:"n_threads"`
	TypeK    string    `json:"type_k"`
	TypeV    string    `json:"type_v"`
	Prompt   int       `json:"n_prompt"`
	Gen      int       `json:"n_gen"`
	Depth    int       `json:"n_depth"`
	Average  float64   `json:"avg_ts"`
	Stddev   float64   `json:"stddev_ts"`
	Samples  []float64 `json:"samples_ts"`
	Duration float64   `json:"-"`
}

// Run measures every pair of types at every depth.
func (c *benchCmd) Run(r *run) error {
	path, err := r.find(c.Model)
	if err != nil {
		return err
	}
	var rows []benchRow
	ks, vs := typeList(c.CacheTypeK), typeList(c.CacheTypeV)
	for _, k := range ks {
		for _, v := range vs {
			got, err := c.pair(r, path, k, v)
			if err != nil {
				return err
			}
			rows = append(rows, got...)
		}
	}
	return r.printBench(c, rows)
}

func typeList(s string) []string {
	if s == "" {
		return []string{""}
	}
	return strings.Split(s, ",")
}

// pair loads the model with one pair of types and runs its tests.
func (c *benchCmd) pair(r *run, path, k, v string) ([]benchRow, error) {
	f := loadFlags{c.Engine}
	f.CacheTypeK, f.CacheTypeV, f.Parallel, f.KVCells = k, v, 1, 0
	f.CtxSize = maxOf(c.Depth) + max(maxOf(c.Prompt), maxOf(c.Gen)+1) + 1
	e, err := r.open(r.ctx, path, &f)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	want := e.KV().Want
	base := benchRow{
		Model: filepath.Base(path), Arch: e.Config().Arch, Size: e.File.Size(),
		Backend: e.Device().Backend, Threads: e.Device().Threads, TypeK: typeName(want.K), TypeV: typeName(want.V),
	}
	var rows []benchRow
	for _, d := range c.Depth {
		for _, p := range c.Prompt {
			if p > 0 {
				row := base
				row.Prompt, row.Depth = p, d
				if err := c.measure(r.ctx, e, &row); err != nil {
					return nil, err
				}
				rows = append(rows, row)
			}
		}
		for _, n := range c.Gen {
			if n > 0 {
				row := base
				row.Gen, row.Depth = n, d
				if err := c.measure(r.ctx, e, &row); err != nil {
					return nil, err
				}
				rows = append(rows, row)
			}
		}
	}
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

// measure times one test: an untimed run, then the timed ones.
func (c *benchCmd) measure(ctx context.Context, e *engine.Engine, row *benchRow) error {
	for i := range c.Repeat + 1 {
		took, err := e.Bench(ctx, row.Depth, row.Prompt, row.Gen)
		if err != nil {
			return err
		}
		if i > 0 {
			row.Samples = append(row.Samples, float64(row.Prompt+row.Gen)/took.Seconds())
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

func (r *run) printBench(c *benchCmd, rows []benchRow) error {
	switch {
	case c.JSON || c.Format == "json":
		if rows == nil {
			rows = []benchRow{}
		}
		return r.json(rows)
	case c.Format == "csv":
		fmt.Fprintln(r.out, "model_filename,backend,n_threads,type_k,type_v,n_prompt,n_gen,n_depth,avg_ts,stddev_ts")
		for _, b := range rows {
			fmt.Fprintf(r.out, "%s,%s,%d,%s,%s,%d,%d,%d,%f,%f\n", b.Model, b.Backend, b.Threads, b.TypeK, b.TypeV, b.Prompt, b.Gen, b.Depth, b.Average, b.Stddev)
		}
		return nil
	}
	fmt.Fprintf(r.out, "| model | size | backend | threads | K | V | test | t/s |\n|---|---:|---|---:|---|---|---|---:|\n")
	for _, b := range rows {
		test := "pp" + strconv.Itoa(b.Prompt)
		if b.Gen > 0 {
			test = "tg" + strconv.Itoa(b.Gen)
		}
		if b.Depth > 0 {
			test += " @ d" + strconv.Itoa(b.Depth)
		}
		fmt.Fprintf(r.out, "| %s | %s | %s | %d | %s | %s | %s | %.2f ± %.2f |\n", b.Arch, size(b.Size), b.Backend, b.Threads, b.TypeK, b.TypeV, test, b.Average, b.Stddev)
	}
	return nil
}
