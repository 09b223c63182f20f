package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/eval"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

type evalRecommendCmd struct {
	labFlags
	Budget config.Size `placeholder:"SIZE" help:"Maximum memory for the cache, such as 4GiB."`
}

// Run finds the smallest pair of types within the limits, prints why the others
// failed, and saves the result with the model.
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

// recommend runs the lab.
func (c *evalRecommendCmd) recommend(ctx context.Context, r *run, l *labRun) (eval.Recommendation, error) {
	ask := eval.Ask{Context: c.CtxSize, Budget: int64(c.Budget), Limits: eval.DefaultLimits()}
	if ask.Context == 0 {
		ask.Context = l.Context
	}
	if c.KVAuto > 0 {
		return eval.Recommendation{}, usage{errors.New("--kv-auto chooses the cache types, so there is nothing to recommend")}
	}
	var err error
	if ask.Pairs, err = c.pairs(); err != nil {
		return eval.Recommendation{}, err
	}
	if len(ask.Pairs) == 0 {
		ask.Pairs = kv.Pairs()
	}
	ask.Plan = func(p kv.Pair, context int) (layout.Plan, error) { return c.plan(r, l, p, context) }
	return eval.Recommend(ctx, l.Lab, ask)
}

// plan returns the cache plan of one conversation with a pair of types.
func (f *labFlags) plan(r *run, l *labRun, p kv.Pair, context int) (layout.Plan, error) {
	load := f.Engine
	load.CacheTypeK, load.CacheTypeV, load.CtxSize, load.KVCells, load.Parallel = p.K, p.V, context, 0, 1
	if load.KVAuto > 0 {
		load.CacheTypeK, load.CacheTypeV = "", ""
	}
	o, err := r.options(&load, recorded)
	if err != nil {
		return layout.Plan{}, err
	}
	o.KV.Calibration, err = l.model.Calibrator().Read(r.calibrations())
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, layout.ErrCalibration) { // if the calibration is missing or not usable, the load measures a new one
		return layout.Plan{}, err
	}
	o.KV.Uncalibrated = o.NoCalibration
	return engine.PlanFile(l.path, r.modelName(l.path), o)
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
		return fmt.Errorf("no pair fits %d tokens in %s and keeps the limits; try a shorter context", rec.Context, size(rec.Budget))
	}
	_, err := fmt.Fprintf(r.out, "\nrecommended for %d tokens: -ctk %s -ctv %s, %s\n", rec.Context, rec.Best.K, rec.Best.V, size(rec.Bytes))
	return err
}
