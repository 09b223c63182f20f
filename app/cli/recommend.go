package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/eval"
	"godwit/engine/kv"
)

type evalRecommendCmd struct {
	labFlags
	Budget config.Size `placeholder:"SIZE" help:"Most memory for the cache, such as 4GiB."`
}

// Run finds the smallest pair that keeps the limits, prints why the others
// fell, and keeps the result with the model.
func (c *evalRecommendCmd) Run(r *run) (err error) {
	l, err := c.lab(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	rec, err := c.recommend(r.ctx, r, l)
	if err != nil {
		return err
	}
	if c.JSON {
		return r.json(rec)
	}
	return r.printRecommendation(&rec)
}

// recommend asks the lab.
func (c *evalRecommendCmd) recommend(ctx context.Context, r *run, l *labRun) (eval.Recommendation, error) {
	ask := eval.Ask{Context: c.CtxSize, Budget: int64(c.Budget), Limits: eval.DefaultLimits()}
	if ask.Context == 0 {
		ask.Context = l.Context
	}
	var err error
	if ask.Pairs, err = c.pairs(); err != nil {
		return eval.Recommendation{}, err
	}
	if len(ask.Pairs) == 0 {
		ask.Pairs = kv.Pairs()
	}
	ask.Plan = func(p kv.Pair, context int) (kv.Plan, error) {
		load := c.Engine
		load.CacheTypeK, load.CacheTypeV, load.CtxSize, load.Parallel = p.K, p.V, context, 1
		o, err := r.options(&load)
		if err != nil {
			return kv.Plan{}, err
		}
		return engine.PlanFile(l.path, r.modelName(l.path), o)
	}
	return eval.Recommend(ctx, l.Lab, ask)
}

func (r *run) printRecommendation(rec *eval.Recommendation) error {
	t := newTable("K", "V", "CACHE", "AGREE %", "KLD", "COPY %", "")
	for _, v := range rec.Tried {
		agree, kld, copied := "-", "-", "-"
		if v.Measured {
			agree, kld = fmt.Sprintf("%.1f", 100*v.Agreement), fmt.Sprintf("%.5f", v.KLD)
		}
		if v.Copy > 0 {
			copied = fmt.Sprintf("%.1f", 100*v.Copy)
		}
		why := strings.Join(v.Reasons, "; ")
		if v.Passed {
			why = "keeps the limits"
		}
		t.add(v.K, v.V, size(v.Bytes), agree, kld, copied, why)
	}
	if err := t.write(r.out); err != nil {
		return err
	}
	if !rec.Found {
		return fmt.Errorf("no pair fits %d tokens in %d bytes and keeps the limits; a shorter context may", rec.Context, rec.Budget)
	}
	_, err := fmt.Fprintf(r.out, "\nrecommended for %d tokens: -ctk %s -ctv %s, %s\n", rec.Context, rec.Best.K, rec.Best.V, size(rec.Bytes))
	return err
}

type evalTableCmd struct {
	labFlags
	Chunks int      `default:"8" help:"Chunks to measure."`
	Agree  []string `placeholder:"K/V,…" help:"More pairs, whose agreement is measured too, over 1024 tokens."`
	Peer   string   `type:"existingfile" placeholder:"FILE" help:"Figures of another program: CSV with the columns model, kv_k, kv_v, note and ppl."`
	PeerAs string   `placeholder:"NAME" help:"What that file calls the model."`
}

// Run prints the table of one model.
func (c *evalTableCmd) Run(r *run) (err error) {
	l, err := c.lab(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
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
	l.Size.Chunks = c.Chunks
	f := evalFlags{Pairs: c.Agree}
	some, err := f.pairs()
	if err != nil {
		return err
	}
	cells, err := l.Run(r.ctx, []eval.Task{eval.TaskKLD}, append(pairs, some...))
	if err != nil {
		return err
	}
	if len(some) > 0 {
		more, err := l.Run(r.ctx, []eval.Task{eval.TaskAgree}, some)
		if err != nil {
			return err
		}
		cells = append(cells, more...)
	}
	rep := c.report(r, l, cells)
	fmt.Fprintln(r.out, "| K | V | bytes/token | KLD | ± | 99 % | 99.9 % | max | top-1 % | PPL | against f16 | peer's PPL | against its f16 | agree % | margin lost |")
	fmt.Fprintln(r.out, "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, row := range rep.Rows() {
		if err := c.line(r, l, &row, peer); err != nil {
			return err
		}
	}
	return nil
}

// line prints one pair.
func (c *evalTableCmd) line(r *run, l *labRun, row *eval.Row, peer map[kv.Pair]float64) error {
	want, err := engine.ParseCacheTypes(row.Pair.K, row.Pair.V)
	if err != nil {
		return err
	}
	layout, err := l.model.Layout(eval.Full().Window, want, "", kv.Settings{Cells: eval.Full().Window, Seqs: 1})
	if err != nil {
		return err
	}
	k := row.KLD
	other, change, agree, lost := "-", "-", "-", "-"
	if p := peer[row.Pair]; p > 0 {
		other = fmt.Sprintf("%.3f", p)
		if base := peer[kv.Pairs()[0]]; base > 0 {
			change = fmt.Sprintf("%+.2f %%", 100*(p/base-1))
		}
	}
	if row.Agree != nil {
		agree = fmt.Sprintf("%.1f ± %.1f", 100*row.Agree.Agreement, 100*row.Agree.Stderr)
		lost = fmt.Sprintf("%.2f of %.2f", row.Agree.MarginLost, row.Agree.Margin)
	}
	own := 0.0
	if k.BasePPL > 0 && !math.IsNaN(k.BasePPL) {
		own = 100 * (k.Perplexity/k.BasePPL - 1)
	}
	_, err = fmt.Fprintf(r.out, "| %s | %s | %d | %.5f | %.5f | %.4f | %.3f | %.3f | %.1f | %.3f | %+.2f %% | %s | %s | %s | %s |\n",
		row.Pair.K, row.Pair.V, layout.BytesPerToken(), k.Mean, k.Stderr, k.P99, k.P999, k.Max, 100*k.Top1, k.Perplexity, own, other, change, agree, lost)
	return err
}

// readPeer reads the perplexities of another program. It rotates the stock
// formats by a switch, not by a type: such a run has a note that says so.
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
			return nil, fmt.Errorf("%s: no column %q", path, name)
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
