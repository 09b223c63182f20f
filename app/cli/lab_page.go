package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"godwit/app/api/page"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/engine/eval"
	"godwit/engine/kv"
)

// pageLab runs the cache panel's measurements: `eval recommend --quick` with
// the settings of the page. Results are saved with the model, and the command
// and the page share them.
type pageLab struct{ run run }

// newPageLab returns a pageLab. r must not show progress.
func newPageLab(r *run) pageLab {
	quiet := *r
	quiet.err = io.Discard
	return pageLab{quiet}
}

// command returns the command that corresponds to a request of the page.
func (p *pageLab) command(m *hub.Model, c *config.Engine) *evalRecommendCmd {
	f := labFlags{Quick: true}
	f.Model, f.Engine, f.Text = m.Path, *c, eval.All
	f.CacheTypeK, f.CacheTypeV, f.KVPreset, f.KVAuto = "", "", "off", 0 // the lab chooses the cache types, so the page's choice is cleared
	return &evalRecommendCmd{labFlags: f}
}

// Known reads the saved results.
func (p pageLab) Known(m hub.Model, c *config.Engine) (q *page.Quality, err error) {
	l, err := p.command(&m, c).silentLab(&p.run)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.model.Close()) }()
	return known(l)
}

// Recommend runs the measurements and returns the recommended pair.
func (p pageLab) Recommend(ctx context.Context, m hub.Model, c *config.Engine, tell func(page.Step)) (q *page.Quality, err error) {
	cmd := p.command(&m, c)
	l, err := cmd.silentLab(&p.run)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	l.Progress = func(s eval.Progress) {
		tell(page.Step{Doing: doing(s), Share: s.Share, Left: s.Left})
	}
	if _, err := cmd.recommend(ctx, &p.run, l); err != nil {
		return nil, err
	}
	return known(l)
}

// doing describes the current task of a lab to the user.
func doing(s eval.Progress) string {
	task, ok := map[eval.Task]string{
		eval.TaskKLD: "Comparing predictions", eval.TaskAgree: "Comparing responses", eval.TaskCopy: "Testing recall",
	}[s.Task]
	if !ok {
		task = string(s.Task)
	}
	return fmt.Sprintf("%s with %v", task, s.Pair)
}

// known collects the finished cells for the lab's build and size.
func known(l *labRun) (*page.Quality, error) {
	cells, err := l.Known([]eval.Task{eval.TaskKLD, eval.TaskAgree, eval.TaskCopy}, kv.Pairs())
	if err != nil {
		return nil, err
	}
	q := &page.Quality{Pairs: []page.Measured{}}
	rep := eval.Report{Cells: cells}
	for _, row := range rep.Rows() {
		m := page.Measured{K: row.Pair.K, V: row.Pair.V}
		if row.KLD != nil {
			m.KLD, m.KLDError = &row.KLD.Mean, row.KLD.Stderr
		}
		if row.Agree != nil {
			m.Agreement, m.AgreementError = &row.Agree.Agreement, row.Agree.Stderr
		}
		if row.Copy != nil && row.Copy.Note == "" {
			m.Copy = &row.Copy.Rate
		}
		q.Pairs = append(q.Pairs, m)
	}
	rec, err := l.Store.Recommendation()
	if err != nil || rec == nil {
		return q, err
	}
	q.Best = &page.Choice{K: rec.Best.K, V: rec.Best.V, Bytes: rec.Bytes, Context: rec.Context, Found: rec.Found}
	return q, nil
}
