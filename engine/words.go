package engine

import (
	"context"

	"godwit/engine/backend"
	"godwit/engine/chat"
	"godwit/engine/grammar"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/model"
	"godwit/engine/sample"
	"godwit/engine/tokenizer"
)

// Types of lower packages that requests use.
type (
	Sampling      = sample.Params
	SamplingField = sample.Field // name, range, default and help of a parameter
	Grammar       = grammar.Grammar
	Piece         = tokenizer.Piece
	Plan          = layout.Plan
	CacheWant     = layout.Want
	NotNumbers    = backend.NotNumbers
	Bytes         = backend.Bytes   // prints as a human-readable size
	InputError    = chat.InputError // an invalid conversation, with the path of the field
)

// SamplingFields describes all numeric sampling parameters.
func SamplingFields() []SamplingField { return sample.Fields() }

// SamplingDefaults returns the default sampling parameters of a request.
func SamplingDefaults() Sampling { return sample.Defaults() }

// ParseGrammar reads a grammar in GBNF.
func ParseGrammar(text string) (*Grammar, error) { return grammar.ParseGBNF(text) }

// SchemaGrammar returns a grammar for the documents that a JSON schema describes.
// Without strict, it leaves out the keywords that a grammar cannot express, and
// answers are checked against them afterwards.
func SchemaGrammar(schema []byte, strict bool) (*Grammar, error) {
	if strict {
		return grammar.FromSchema(schema)
	}
	return grammar.FromLooseSchema(schema)
}

// JSONGrammar returns the grammar of one JSON object.
func JSONGrammar() *Grammar { return grammar.JSON() }

// ParseCacheTypes parses the type names of K and V. An empty name leaves that side
// open.
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

// Plan describes the cache in use: the requested types, the active types, and the sizes
// that the device reports.
func (e *Engine) Plan(ctx context.Context, name string) (Plan, error) {
	p := e.p.Plan(name)
	use, err := e.Usage(ctx)
	if err != nil {
		return p, err
	}
	for i := range p.Layers {
		l := &p.Layers[i]
		for _, s := range []struct {
			side kv.Side
			plan *layout.PlanSide
		}{{kv.K, &l.K}, {kv.V, &l.V}} {
			if s.plan.RowBytes == 0 {
				continue // the layer has no cells of its own: shared, or a view
			}
			rows, err := e.sched.RowBytes(ctx, l.Layer, s.side)
			if err != nil {
				return p, err
			}
			y := &e.p.Layout.Layers[l.Layer]
			s.plan.RowBytes = rows[layout.Packed]
			each := rows[layout.Pinned]*y.Exact.Pinned + y.Side(s.side).SelfBytes
			s.plan.ExactBytes = int64(rows[layout.Exact]*e.p.Layout.ExactPrivate(y)*kv.PageCells + each*max(e.p.Layout.Settings.Seqs, 1))
			s.plan.Bytes = int64(rows[layout.Packed])*int64(l.Cells) + s.plan.ExactBytes
		}
		if l.Layer < len(use.Counts) {
			s := use.Counts[l.Layer]
			l.SparseV = layout.SparseV{Considered: s.Considered, Skipped: s.Skipped}
			l.K.Saturated, l.V.Saturated = s.Saturated[kv.K], s.Saturated[kv.V]
		}
	}
	return p, nil
}

// warnSaturated logs once that scales of a cache did not fit f16. It runs on the device's
// goroutine.
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
			e.log.Warn("kv scales clamped", "layer", i, "side", kv.Side(s), "blocks", n)
			return
		}
	}
}

// Encoder reports whether all models of an architecture only compute
// embeddings.
func Encoder(arch string) bool { return model.Encoder(arch) }

// ChatFormat returns the conversation format on which an architecture's models were
// trained, for files without a template. It returns "" if the format is unknown.
func ChatFormat(arch string) string { return model.ChatFormat(arch) }
