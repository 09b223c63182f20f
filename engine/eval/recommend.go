package eval

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"godwit/engine"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// Limits is the quality loss that a pair of types may have.
type Limits struct {
	Agreement float64 `json:"agreement"` // lowest share of equal choices
	KLD       float64 `json:"kld_mean"`  // highest mean divergence from f16, in nats
	Copy      float64 `json:"copy"`      // lowest rate of exact copies, relative to f16's rate; a shortfall within chance is allowed
}

// DefaultLimits are the defaults of the command line. A reader could not tell
// an answer within them from f16's.
func DefaultLimits() Limits { return Limits{Agreement: 0.97, KLD: 0.05, Copy: 0.95} }

// Ask describes the recommendation that is wanted.
type Ask struct {
	Context int   // number of tokens that must fit into the cache
	Budget  int64 // maximum bytes of the cache; 0: no limit
	Pairs   []kv.Pair
	Limits  Limits
	// Plan describes the cache of a pair for a context, from metadata alone.
	Plan func(p kv.Pair, context int) (layout.Plan, error)
}

// Recommendation is the smallest pair within the limits.
type Recommendation struct {
	Found   bool      `json:"found"`
	Best    kv.Pair   `json:"best"` // recommended pair, set if Found
	Bytes   int64     `json:"bytes"`
	Context int       `json:"ctx"`
	Budget  int64     `json:"budget"`
	Limits  Limits    `json:"limits"`
	Tried   []Verdict `json:"tried"` // verdict on every pair, smallest cache first
}

// Verdict is the result for a pair. Its measurements are set if it was
// measured.
type Verdict struct {
	kv.Pair
	Bytes    int64    `json:"bytes"`
	Passed   bool     `json:"passed"`
	Reasons  []string `json:"reasons"` // reasons why the pair was rejected or not measured
	Measured bool     `json:"measured"`

	Agreement float64 `json:"agreement,omitempty"`
	KLD       float64 `json:"kld_mean,omitempty"`
	Copy      float64 `json:"copy,omitempty"`
}

// candidate is a pair with its plan.
type candidate struct {
	kv.Pair
	plan layout.Plan
}

// Recommend measures pairs from the smallest up, until one is within the
// limits. Of the pairs that give the model the same cache, only the first is measured.
func Recommend(ctx context.Context, l *Lab, a Ask) (Recommendation, error) {
	rec := Recommendation{Context: a.Context, Budget: a.Budget, Limits: a.Limits, Tried: []Verdict{}}
	list, err := a.candidates()
	if err != nil {
		return rec, err
	}
	told := l.Progress
	defer func() { l.Progress = told }()
	start := time.Now()
	for i, c := range list {
		l.Progress = overall(told, start, i, len(list))
		v := Verdict{Pair: c.Pair, Bytes: c.plan.Bytes, Reasons: []string{}}
		same := slices.IndexFunc(list[:i], func(b candidate) bool { return samePlan(&b.plan, &c.plan) })
		switch {
		case a.Budget > 0 && v.Bytes > a.Budget:
			v.Reasons = append(v.Reasons, fmt.Sprintf("takes %v, the budget is %v", engine.Bytes(v.Bytes), engine.Bytes(a.Budget)))
		case same >= 0:
			v.Reasons = append(v.Reasons, fmt.Sprintf("gets the same cache as %v on this model", list[same].Pair))
		case rec.Found:
			v.Reasons = append(v.Reasons, fmt.Sprintf("not measured: %v is smaller and keeps the limits", rec.Best))
		default:
			if err := l.judge(ctx, &v, a.Limits); err != nil {
				return rec, err
			}
			if v.Passed {
				rec.Found, rec.Best, rec.Bytes = true, v.Pair, v.Bytes
			}
		}
		rec.Tried = append(rec.Tried, v)
	}
	return rec, l.Store.Recommend(&rec)
}

// overall converts the progress of one pair's measurement to the progress of
// the search, as if every pair had to be measured.
func overall(told func(Progress), start time.Time, pair, pairs int) func(Progress) {
	if told == nil {
		return nil
	}
	return func(p Progress) {
		p.Share = (float64(pair) + p.Share) / float64(pairs)
		if p.Share >= enough {
			p.Left = time.Duration(float64(time.Since(start)) * (1 - p.Share) / p.Share)
		}
		told(p)
	}
}

// candidates plans the cache of each pair and sorts them by size, smallest
// first.
func (a *Ask) candidates() ([]candidate, error) {
	var list []candidate
	for _, p := range a.Pairs {
		plan, err := a.Plan(p, a.Context)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", p, err)
		}
		list = append(list, candidate{p, plan})
	}
	slices.SortStableFunc(list, func(x, y candidate) int { return cmp.Compare(x.plan.Bytes, y.plan.Bytes) })
	return list, nil
}

// samePlan reports whether two plans use the same types in every layer.
func samePlan(a, b *layout.Plan) bool {
	return slices.EqualFunc(a.Layers, b.Layers, func(x, y layout.PlanLayer) bool {
		return x.K.Active == y.K.Active && x.V.Active == y.V.Active
	})
}

// judge measures a pair and compares it with the limits.
func (l *Lab) judge(ctx context.Context, v *Verdict, limits Limits) error {
	cells, err := l.Run(ctx, []Task{TaskKLD, TaskAgree, TaskCopy}, []kv.Pair{v.Pair})
	if err != nil {
		return err
	}
	v.Measured, v.Passed = true, true
	fail := func(format string, args ...any) {
		v.Passed = false
		v.Reasons = append(v.Reasons, fmt.Sprintf(format, args...))
	}
	own := l.base[TaskCopy].Copy
	if own != nil && (own.Note != "" || own.Rate == 0) {
		own = nil // f16 itself cannot do the task
	}
	for _, c := range cells {
		if c.K != v.K || c.V != v.V {
			continue
		}
		switch {
		case c.Agree != nil:
			if v.Agreement = c.Agree.Agreement; v.Agreement < limits.Agreement {
				fail("agreement %.4f ± %.4f, at least %.2f is required", v.Agreement, c.Agree.Stderr, limits.Agreement)
			}
		case c.KLD != nil:
			if v.KLD = c.KLD.Mean; v.KLD > limits.KLD {
				fail("mean divergence %.4f ± %.4f nats; the limit is %.2f", v.KLD, c.KLD.Stderr, limits.KLD)
			}
		case c.Copy != nil && own != nil:
			if v.Copy = c.Copy.Rate; copiesLess(own.Exact, c.Copy.Exact, limits.Copy) {
				fail("copies %.2f of the texts exactly, and f16 %.2f", v.Copy, own.Rate)
			}
		}
	}
	return nil
}

// copiesLess reports whether fewer items were copied than the given share of
// the items that the base copied. The items are the same, so the difference of
// losses and gains is chance if it is at most the root of their sum.
func copiesLess(base, got []bool, share float64) bool {
	var own, lost, gained float64
	for i := range min(len(base), len(got)) {
		switch {
		case base[i] && got[i]:
			own++
		case base[i]:
			own++
			lost++
		case got[i]:
			gained++
		}
	}
	return lost-gained > (1-share)*own+math.Sqrt(lost+gained)
}
