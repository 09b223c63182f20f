package engine

import (
	"context"
	"errors"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/chat"
	"godwit/engine/grammar"
	"godwit/engine/kv"
	"godwit/engine/sample"
	"godwit/engine/tokenizer"
)

// The words of the packages below that requests are written in.
type (
	Sampling      = sample.Params
	SamplingField = sample.Field // name, range, default and help of a parameter
	Grammar       = grammar.Grammar
	Piece         = tokenizer.Piece
	Plan          = kv.Plan
	CacheWant     = kv.Want
	NotNumbers    = backend.NotNumbers
	InputError    = chat.InputError // a conversation that is wrong in itself; has the field's path
)

// SamplingFields describes all numeric sampling parameters.
func SamplingFields() []SamplingField { return sample.Fields() }

// SamplingDefaults is what a request starts from.
func SamplingDefaults() Sampling { return sample.Defaults() }

// ParseGrammar reads a grammar in GBNF.
func ParseGrammar(text string) (*Grammar, error) { return grammar.ParseGBNF(text) }

// SchemaGrammar is the grammar of the documents that a JSON schema describes.
func SchemaGrammar(schema []byte) (*Grammar, error) { return grammar.FromSchema(schema) }

// JSONGrammar is the grammar of one JSON object.
func JSONGrammar() *Grammar { return grammar.JSON() }

// ParseCacheTypes reads the names of the types of K and V; an empty name
// leaves the side open.
func ParseCacheTypes(k, v string) (want CacheWant, err error) {
	if k != "" {
		if want.K, err = kv.Parse(k); err != nil {
			return want, err
		}
	}
	if v != "" {
		want.V, err = kv.Parse(v)
	}
	return want, err
}

// Plan describes the cache in use: what was asked, what is active, and what
// the device's memory was read back to hold.
func (e *Engine) Plan(ctx context.Context, name string) (Plan, error) {
	p := kv.NewPlan(&e.layout, name, e.o.Context)
	use, err := e.Usage(ctx)
	if err != nil {
		return p, err
	}
	for i := range p.Layers {
		l := &p.Layers[i]
		for _, s := range []struct {
			side kv.Side
			plan *kv.PlanSide
		}{{kv.K, &l.K}, {kv.V, &l.V}} {
			if s.plan.RowBytes == 0 {
				continue // nothing of its own: shared, or a view
			}
			rows, err := e.sched.RowBytes(ctx, l.Layer, s.side)
			if err != nil {
				return p, err
			}
			y := &e.layout.Layers[l.Layer]
			s.plan.RowBytes = rows[kv.Packed]
			each := rows[kv.Sinks]*y.Exact.Sinks + y.Side(s.side).OwnBytes
			s.plan.ExactBytes = int64(rows[kv.Exact]*e.layout.ExactOwn(y)*kv.PageCells + each*max(e.layout.Settings.Seqs, 1))
			s.plan.Bytes = int64(rows[kv.Packed])*int64(l.Cells) + s.plan.ExactBytes
		}
		if l.Layer < len(use.Counts) {
			s := use.Counts[l.Layer]
			l.SparseV = kv.SparseV{Considered: s.Considered, Skipped: s.Skipped}
			l.K.Saturated, l.V.Saturated = s.Saturated[kv.K], s.Saturated[kv.V]
		}
	}
	return p, nil
}

// warnSaturated says once that a cache had to store scales that f16 does not
// hold. It runs on the device's goroutine.
func (e *Engine) warnSaturated() {
	if e.warned {
		return
	}
	for i, c := range e.prog.Counts() {
		for s, n := range c.Saturated {
			if n == 0 {
				continue
			}
			e.warned = true
			e.log.Warn(fmt.Sprintf("kv: scales of %v were infinite or no numbers and were cut to what f16 holds; GET /api/kv counts them", kv.Side(s)), "layer", i)
			return
		}
	}
}

// PlanFile describes the cache that a model would get with these options, from
// its metadata alone. A context of 0 is the model's own.
func PlanFile(path, name string, o Options) (Plan, error) {
	m, err := OpenModel(path)
	if err != nil {
		return Plan{}, err
	}
	p, err := m.planCache(name, o)
	return p, errors.Join(err, m.Close())
}

func (m *Model) planCache(name string, o Options) (Plan, error) {
	if err := m.UseCalibration(&o); err != nil && !errors.Is(err, kv.ErrCalibration) {
		return Plan{}, err
	}
	if o.Context == 0 {
		o.Context = m.Config().Context
	}
	s := o.KV
	s.Cells, s.Seqs, s.UBatch = o.Cells, o.Parallel, o.UBatch
	if s.Cells == 0 {
		s.Cells = o.Context
	}
	if s.Seqs == 0 {
		s.Seqs = DefaultParallel
	}
	if s.UBatch == 0 {
		s.UBatch = DefaultUBatch
	}
	s.UBatch = min(s.UBatch, o.Context)
	l, err := m.Layout(o.Context, o.Want, o.Preset, s)
	if err == nil {
		err = m.Holds(&l, &o)
	}
	if err != nil {
		return Plan{}, err
	}
	return kv.NewPlan(&l, name, o.Context), nil
}
