package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"godwit/engine/eval"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

type evalTableCmd struct {
	labFlags
	windowFlags
	Chunks int      `default:"8" help:"Chunks to measure."`
	Tasks  string   `default:"kld,agree" placeholder:"TASK,…" help:"Measurements to run: kld, agree, needle, copy, arith."`
	Some   []string `placeholder:"K/V,…" help:"Pairs to also measure one token at a time. Default: all."`
	Agree  int      `default:"1024" help:"Number of tokens to feed one at a time."`
	Behind int      `default:"0" help:"Tokens of context before the tokens that --agree feeds."`
	Items  int      `default:"12" help:"Number of texts to copy, and number of sums."`
	Wide   bool     `help:"Print the columns for a long window: the size of the whole cache and the task results, instead of the distribution and the other program's figures."`
	Rows   bool     `help:"Print no table header."`
	Keep   bool     `help:"Keep f16's log-probabilities for the next run."`
	Peer   string   `type:"existingfile" placeholder:"FILE" help:"Results of another program, as CSV with the columns model, kv_k, kv_v, note and ppl."`
	PeerAs string   `placeholder:"NAME" help:"The model's name in that file."`
}

// Run prints the rows of one model.
func (c *evalTableCmd) Run(r *run) (err error) {
	if err := c.check(&c.evalFlags, c.Chunks); err != nil {
		return err
	}
	l, err := c.lab(r)
	if err != nil {
		return err
	}
	end := l.close
	if c.Keep {
		end = l.leave
	}
	defer func() { err = errors.Join(err, end()) }()
	peer, err := readPeer(c.Peer, c.PeerAs)
	if err != nil {
		return err
	}
	pairs, err := c.pairs()
	if err != nil {
		return err
	}
	if len(pairs) == 0 {
		pairs = kv.Pairs()
	}
	var tasks []eval.Task
	for t := range strings.SplitSeq(c.Tasks, ",") {
		if !slices.Contains(eval.Tasks(), eval.Task(t)) {
			return usage{fmt.Errorf("there is no task %q", t)}
		}
		tasks = append(tasks, eval.Task(t))
	}
	c.size(&l.Size)
	fed := pairs
	if len(c.Some) > 0 {
		f := evalFlags{Pairs: c.Some}
		some, err := f.pairs()
		if err != nil {
			return err
		}
		fed = slices.DeleteFunc(slices.Clone(pairs), func(p kv.Pair) bool { return !slices.Contains(some, p) })
	}
	var cells []eval.Cell
	for _, t := range tasks {
		these := pairs
		if t == eval.TaskAgree {
			these = fed
		}
		got, err := l.Run(r.ctx, []eval.Task{t}, these)
		if err != nil {
			return err
		}
		cells = append(cells, only(got, pairs)...)
	}
	rep := c.report(r, l, cells)
	if !c.Rows {
		fmt.Fprintln(r.out, c.head())
	}
	for _, row := range rep.Rows() {
		plan, err := c.plan(r, l, row.Pair, c.CtxSize)
		if err != nil {
			return err
		}
		line := c.line(&row, &plan, peer)
		if c.Wide {
			line = c.wide(&row, &plan)
		}
		fmt.Fprintf(r.out, "| %s |\n", strings.Join(line, " | "))
	}
	return nil
}

// size returns the size of the measurements: each task uses the longest text
// that fits the window.
func (c *evalTableCmd) size(s *eval.Size) {
	s.Window, s.Chunks, s.Every, s.Agree, s.AgreeBehind = c.CtxSize, c.Chunks, c.Every, c.Agree, c.Behind
	const question, records = 64, 640 // tokens that a question adds to the text, and that records or sums add
	s.Lengths, s.Shared, s.Trials = []int{max(c.CtxSize-question, 0)}, true, 1
	s.Distances, s.CopyItems = []int{max(c.CtxSize-records, 0)}, c.Items
	s.SumDepths, s.Sums, s.Runs = []int{max(c.CtxSize-records, 0)}, c.Items, 1
	s.SpeedDepths = nil
}

// head writes the table header.
func (c *evalTableCmd) head() string {
	if c.Wide {
		return "| cache | bytes/token | whole cache | KLD | top-1 % | PPL | agree % | needle | copy | sums |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
	}
	return "| K | V | bytes/token | KLD | ± | 99 % | 99.9 % | max | top-1 % | PPL | against f16 | peer's PPL | against its f16 | agree % | margin lost |\n" +
		"|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
}

// name returns the name of a pair, followed by the cache flags.
func (c *evalTableCmd) name(p kv.Pair) string {
	name := p.String()
	w, s := c.ExactWindow, c.ExactSinks
	if c.KVMemory > 0 {
		name += fmt.Sprintf(", %v a conversation", c.KVMemory)
	}
	switch {
	case w != nil && s != nil && *w > 0:
		name += fmt.Sprintf(", window %d+%d", *w, *s)
	case w != nil && *w > 0:
		name += fmt.Sprintf(", window %d", *w)
	case s != nil && *s > 0:
		name += fmt.Sprintf(", sinks %d", *s)
	case w != nil:
		name += ", no window"
	}
	if c.InnerQ.Groups > 0 {
		name += fmt.Sprintf(", InnerQ %g", c.InnerQ.Strength)
	}
	return name
}

// perToken returns the bytes that one more token adds, in the layers without a
// window.
func perToken(p *layout.Plan) string {
	n := 0
	for i := range p.Layers {
		if y := &p.Layers[i]; y.Window == 0 {
			n += y.K.RowBytes + y.V.RowBytes
		}
	}
	return strconv.Itoa(n)
}

// inPercent formats a share and its standard error in per cent.
func inPercent(share, stderr float64) string {
	return fmt.Sprintf("%.1f ± %.1f", 100*share, 100*stderr)
}

// line returns the row of one pair: the distribution of its divergence, and the
// figures of the other program.
func (c *evalTableCmd) line(row *eval.Row, plan *layout.Plan, peer map[kv.Pair]float64) []string {
	other, change, agree, lost := "-", "-", "-", "-"
	if p := peer[row.Pair]; p > 0 {
		other = fmt.Sprintf("%.3f", p)
		if base := peer[kv.Pairs()[0]]; base > 0 {
			change = fmt.Sprintf("%+.2f %%", 100*(p/base-1))
		}
	}
	if row.Agree != nil {
		agree = inPercent(row.Agree.Agreement, row.Agree.Stderr)
		lost = fmt.Sprintf("%.2f of %.2f", row.Agree.MarginLost, row.Agree.Margin)
	}
	out := []string{row.Pair.K, row.Pair.V, perToken(plan)}
	if k := row.KLD; k != nil {
		own := 0.0
		if k.BasePPL > 0 && !math.IsNaN(k.BasePPL) {
			own = 100 * (k.Perplexity/k.BasePPL - 1)
		}
		out = append(out, fmt.Sprintf("%.5f", k.Mean), fmt.Sprintf("%.5f", k.Stderr), fmt.Sprintf("%.4f", k.P99), fmt.Sprintf("%.3f", k.P999),
			fmt.Sprintf("%.3f", k.Max), fmt.Sprintf("%.1f", 100*k.Top1), fmt.Sprintf("%.3f", k.Perplexity), fmt.Sprintf("%+.2f %%", own))
	} else {
		out = append(out, slices.Repeat([]string{"-"}, 8)...)
	}
	return append(out, other, change, agree, lost)
}

// wide returns the row of a cache that was measured with a long window.
func (c *evalTableCmd) wide(row *eval.Row, plan *layout.Plan) []string {
	out := []string{c.name(row.Pair), perToken(plan), size(plan.Bytes), "-", "-", "-", "-", "-", "-", "-"}
	if k := row.KLD; k != nil {
		out[3], out[4], out[5] = fmt.Sprintf("%.5f ± %.5f", k.Mean, k.Stderr), inPercent(k.Top1, k.Top1Stderr), fmt.Sprintf("%.3f", k.Perplexity)
	}
	if row.Agree != nil {
		out[6] = inPercent(row.Agree.Agreement, row.Agree.Stderr)
	}
	share := func(at int, s *eval.Share) { out[at] = fmt.Sprintf("%.0f of %d", s.Rate*float64(s.Items), s.Items) }
	if row.Needle != nil {
		share(7, &row.Needle.Share)
	}
	if row.Copy != nil {
		share(8, &row.Copy.Share)
	}
	if row.Arith != nil {
		share(9, &row.Arith.Share)
	}
	return out
}

// readPeer reads the perplexities measured with another program. That program
// rotates stock formats if a switch is set, where Godwit has separate types.
// The column note contains "rotation on" for such a run, and its types get the
// suffix -rot.
func readPeer(path, model string) (map[kv.Pair]float64, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	for _, name := range []string{"model", "kv_k", "kv_v", "note", "ppl"} {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("%s has no column %q", path, name)
		}
	}
	out := map[kv.Pair]float64{}
	for _, row := range rows[1:] {
		p := kv.Pair{K: row[at["kv_k"]], V: row[at["kv_v"]]}
		switch note := row[at["note"]]; {
		case row[at["model"]] != model:
			continue
		case strings.Contains(note, "rotation on"):
			p.K, p.V = p.K+"-rot", p.V+"-rot"
		case note != "default":
			continue
		}
		if out[p], err = strconv.ParseFloat(row[at["ppl"]], 64); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out, nil
}
