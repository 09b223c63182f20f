package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/eval"
	"godwit/engine/kv"
	"godwit/engine/llm"
)

type evalCmd struct {
	All        evalAllCmd        `cmd:"" help:"Run all measurements below for a list of pairs. Writes a table and a report as JSON, CSV and HTML."`
	Perplexity evalPerplexityCmd `cmd:"" help:"Measure perplexity on a text, as llama-perplexity does."`
	KLD        evalKLDCmd        `cmd:"" name:"kld" help:"Measure how far the predictions diverge from a run with f16."`
	Agree      evalAgreeCmd      `cmd:"" help:"Measure how often decoding picks the same token as f16."`
	Copy       evalCopyCmd       `cmd:"" help:"Measure how often a distant text is copied exactly."`
	Needle     evalNeedleCmd     `cmd:"" help:"Measure how often a fact in a long text is found, by length and depth."`
	Arith      evalArithCmd      `cmd:"" help:"Measure how often sums are correct, and equal when they are repeated."`
	Turns      evalTurnsCmd      `cmd:"" help:"Measure whether a chat of ten turns stays close to f16 and free of loops."`
	Speed      evalSpeedCmd      `cmd:"" help:"Measure prompt and generation speed by depth, and the memory in use compared with the plan."`
	Table      evalTableCmd      `cmd:"" hidden:"" help:"Print the table of docs/quality.md for one model, as Markdown."`
	Recommend  evalRecommendCmd  `cmd:"" help:"Find the smallest pair of cache types that stays within the quality limits."`
}

// evalFlags holds the flags that all measurements over a text share.
type evalFlags struct {
	modelArg
	config.Engine
	File  string   `short:"f" type:"existingfile" placeholder:"FILE" help:"Text to measure on. Default: the corpus in this program."`
	Text  string   `default:"all" placeholder:"NAME" help:"Part of that corpus: all, prose, dialogue, code, table, korean, chinese or arabic."`
	JSON  bool     `name:"json" help:"Machine-readable output."`
	Pairs []string `placeholder:"K/V,…" help:"Pairs of cache types, such as q8_0/q4_0,f16. Replaces -ctk and -ctv."`
}

// pairs returns the pairs of types in the flags, or nothing if no flag names a
// type.
func (f *evalFlags) pairs() ([]kv.Pair, error) {
	if f.KVAuto > 0 {
		if len(f.Pairs) > 0 || f.CacheTypeK != "" || f.CacheTypeV != "" {
			return nil, usage{errors.New("--kv-auto chooses the cache types; leave out --pairs, -ctk and -ctv")}
		}
		name := eval.AutoName(f.KVAuto)
		return []kv.Pair{{K: name, V: name}}, nil
	}
	var list []kv.Pair
	add := func(k, v string) error {
		want, err := engine.ParseCacheTypes(k, v)
		if err != nil {
			return usage{err}
		}
		list = append(list, kv.Pair{K: typeName(want.K), V: typeName(want.V)})
		return nil
	}
	for _, p := range f.Pairs {
		k, v, ok := strings.Cut(p, "/")
		if !ok {
			v = k
		}
		if err := add(k, v); err != nil {
			return nil, err
		}
	}
	if len(list) > 0 || f.CacheTypeK == "" && f.CacheTypeV == "" {
		return list, nil
	}
	for _, k := range typeList(f.CacheTypeK) {
		for _, v := range typeList(f.CacheTypeV) {
			if err := add(k, v); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// each calls do with the model, opened with each pair of types in the flags.
func (f *evalFlags) each(r *run, ctx int, do func(e *engine.Engine) error) error {
	if len(f.Pairs) > 0 || f.KVAuto > 0 {
		pairs, err := f.pairs()
		for _, p := range pairs {
			if err == nil {
				err = f.with(r, ctx, p.K, p.V, do)
			}
		}
		return err
	}
	for _, k := range typeList(f.CacheTypeK) {
		for _, v := range typeList(f.CacheTypeV) {
			if err := f.with(r, ctx, k, v, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// opener returns a function that opens the model with a pair of types.
func (f *evalFlags) opener(r *run) eval.Opener { return f.open(r, f.Engine) }

// base returns a function that opens the reference model for all comparisons,
// without the cache settings in the flags.
func (f *evalFlags) base(r *run) eval.Opener { return f.open(r, f.PlainCache()) }

func (f *evalFlags) open(r *run, set config.Engine) eval.Opener {
	return func(ctx context.Context, k, v string, context int) (*engine.Engine, error) {
		load := loadFlags{Engine: set}
		if set.KVAuto > 0 && k == eval.AutoName(set.KVAuto) {
			k, v = "", ""
		} else {
			load.KVAuto = 0
		}
		load.CacheTypeK, load.CacheTypeV, load.Parallel, load.CtxSize, load.KVCells = k, v, 1, context, 0
		return r.open(ctx, f.Model, &load)
	}
}

// with calls do with the model, opened with one pair of types.
func (f *evalFlags) with(r *run, ctx int, k, v string, do func(e *engine.Engine) error) error {
	return f.run(r, f.opener(r), ctx, k, v, do)
}

// run calls a function with an opened model. If the result contains NaN, it reports
// where NaN first occurs.
func (f *evalFlags) run(r *run, open eval.Opener, ctx int, k, v string, do func(e *engine.Engine) error) error {
	e, err := open(r.ctx, k, v, ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	if err = do(e); err != nil {
		k, v = eval.Types(e)
	}
	return eval.Locate(r.ctx, open, err, k, v)
}

// source returns the text for a measurement.
func (f *evalFlags) source() (string, error) {
	if f.File != "" {
		b, err := os.ReadFile(f.File)
		return string(b), err
	}
	text, err := eval.Text(f.Text)
	if err != nil {
		return "", usage{err}
	}
	return text, nil
}

// text tokenises the text.
func (f *evalFlags) text(e *engine.Engine) (tokens []llm.Token, bos llm.Token, addBOS bool, err error) {
	source, err := f.source()
	if err != nil {
		return nil, 0, false, err
	}
	t, err := e.Model().Tokenizer()
	if err != nil {
		return nil, 0, false, err
	}
	return t.EncodeText(source, true, false), t.BOS(), t.AddBOS(), nil
}

// windowFlags holds the flags that divide the text into chunks.
type windowFlags struct {
	Every int `default:"1" placeholder:"N" help:"Use only every Nth prediction in the second half of each chunk, to save work on a long window."`
}

// check rejects sizes that cannot be measured and sets the default window.
func (w *windowFlags) check(f *evalFlags, chunks int) error {
	if f.CtxSize == 0 {
		f.CtxSize = evalContext
	}
	switch {
	case f.CtxSize < eval.MinWindow:
		return usage{fmt.Errorf("%w: -c must be at least %[3]d tokens, not %[2]d", eval.ErrWindow, f.CtxSize, eval.MinWindow)}
	case chunks < 0:
		return usage{fmt.Errorf("--chunks must be at least 1, or 0 for all, not %d", chunks)}
	case w.Every < 1:
		return usage{fmt.Errorf("--every must be at least 1, not %d", w.Every)}
	}
	return nil
}

// window returns the tokens of the text and the chunk sizes in the flags.
func (f *evalFlags) window(r *run, e *engine.Engine, chunks, every int) ([]llm.Token, eval.Window, func(), error) {
	tokens, bos, addBOS, err := f.text(e)
	if err != nil {
		return nil, eval.Window{}, nil, err
	}
	bar := r.bar("measuring", f.Model)
	w := eval.Window{
		Context: f.CtxSize, Chunks: chunks, Every: every, BOS: bos, AddBOS: addBOS,
		Progress: func(s float64) { _ = bar.share(s) },
	}
	return tokens, w, bar.close, nil
}

// evalContext is the default chunk size of the measurements.
const evalContext = 512

type evalPerplexityCmd struct {
	evalFlags
	windowFlags
	Chunks int `default:"0" help:"Chunks to measure. 0: all."`
}

// Run measures perplexity for every pair of types.
func (c *evalPerplexityCmd) Run(r *run) error {
	if err := c.check(&c.evalFlags, c.Chunks); err != nil {
		return err
	}
	var list []eval.PerplexityResult
	err := c.each(r, c.CtxSize, func(e *engine.Engine) error {
		tokens, w, done, err := c.window(r, e, c.Chunks, c.Every)
		if err != nil {
			return err
		}
		res, err := eval.Perplexity(r.ctx, e, tokens, w)
		done()
		list = append(list, res)
		return err
	})
	if err != nil {
		return err
	}
	return c.printPerplexities(r, list)
}

func (f *evalFlags) printPerplexities(r *run, list []eval.PerplexityResult) error {
	if f.JSON {
		return r.oneOrList(len(list), list, func(i int) any { return list[i] })
	}
	t := newTable("K", "V", "PERPLEXITY", "±", "TOKENS")
	for _, p := range list {
		t.add(p.TypeK, p.TypeV, fmt.Sprintf("%.4f", p.Perplexity), fmt.Sprintf("%.4f", p.Stderr), fmt.Sprint(p.Tokens))
	}
	return t.write(r.out)
}

// oneOrList prints one result as an object, and several results as a list.
func (r *run) oneOrList(n int, list any, at func(int) any) error {
	if n == 1 {
		return r.json(at(0))
	}
	return r.json(list)
}

type evalKLDCmd struct {
	evalFlags
	windowFlags
	Chunks   int    `default:"8" help:"Chunks to measure. 0: all."`
	Base     string `type:"existingfile" placeholder:"FILE" help:"Compare with a run stored by --save-base instead of a new one."`
	SaveBase string `type:"path" placeholder:"FILE" help:"Store the f16 run for later comparisons and measure only its perplexity. Takes two bytes per vocabulary token and measured position."`
}

// Run compares the predictions of every pair of types with f16's.
func (c *evalKLDCmd) Run(r *run) error {
	if err := c.check(&c.evalFlags, c.Chunks); err != nil {
		return err
	}
	switch {
	case c.SaveBase != "" && c.Base != "":
		return usage{errors.New("--base and --save-base cannot be used together")}
	case c.SaveBase != "":
		p, err := c.save(r, c.SaveBase)
		if err != nil {
			return err
		}
		return c.printPerplexities(r, []eval.PerplexityResult{p})
	}
	path := c.Base
	if path == "" {
		dir, err := os.MkdirTemp("", "godwit-eval-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // the system also cleans up temporary folders
		path = filepath.Join(dir, "base")
		if _, err := c.save(r, path); err != nil {
			return err
		}
	}
	base, err := eval.OpenBase(path)
	if err != nil {
		return err
	}
	list, err := c.compare(r, base)
	if err = errors.Join(err, base.Close()); err != nil {
		return err
	}
	return c.print(r, list)
}

// save stores the results of the f16 run.
func (c *evalKLDCmd) save(r *run, path string) (p eval.PerplexityResult, err error) {
	err = c.run(r, c.base(r), c.CtxSize, "f16", "f16", func(e *engine.Engine) error {
		tokens, w, done, err := c.window(r, e, c.Chunks, c.Every)
		if err != nil {
			return err
		}
		defer done()
		p, err = eval.SaveBase(r.ctx, path, e, tokens, w)
		return err
	})
	return p, err
}

// compare measures every pair of types against the base.
func (c *evalKLDCmd) compare(r *run, base *eval.Base) (list []eval.KLDResult, err error) {
	err = c.each(r, c.CtxSize, func(e *engine.Engine) error {
		tokens, w, done, err := c.window(r, e, c.Chunks, c.Every)
		if err != nil {
			return err
		}
		defer done()
		res, err := eval.KLDFrom(r.ctx, base, e, tokens, w)
		list = append(list, res)
		return err
	})
	return list, err
}

func (c *evalKLDCmd) print(r *run, list []eval.KLDResult) error {
	if c.JSON {
		return r.oneOrList(len(list), list, func(i int) any { return list[i] })
	}
	t := newTable("K", "V", "KLD", "±", "MEDIAN", "99 %", "99.9 %", "MAX", "TOP-1 %", "TOP-P %", "ΔP RMS %", "PPL")
	for _, k := range list {
		t.add(k.TypeK, k.TypeV, fmt.Sprintf("%.5f", k.Mean), fmt.Sprintf("%.5f", k.Stderr), fmt.Sprintf("%.5f", k.Median),
			fmt.Sprintf("%.4f", k.P99), fmt.Sprintf("%.3f", k.P999), fmt.Sprintf("%.3f", k.Max), fmt.Sprintf("%.1f", 100*k.Top1),
			fmt.Sprintf("%.1f", 100*k.TopP), fmt.Sprintf("%.2f", 100*k.DeltaPRMS), fmt.Sprintf("%.3f", k.Perplexity))
	}
	return t.write(r.out)
}

type evalAgreeCmd struct {
	evalFlags
	Tokens int `default:"512" help:"Tokens to feed, one at a time."`
	Behind int `default:"0" placeholder:"N" help:"Tokens of text to process before the compared tokens."`
}

// Run compares the most likely tokens of every pair of types with f16's.
func (c *evalAgreeCmd) Run(r *run) error {
	if c.Tokens < 1 || c.Behind < 0 {
		return usage{fmt.Errorf("--tokens must be at least 1, not %d, and --behind at least 0, not %d", c.Tokens, c.Behind)}
	}
	n := c.Behind + c.Tokens
	var base []eval.Choice
	var list []eval.AgreeResult
	choose := func(e *engine.Engine) ([]eval.Choice, error) {
		tokens, _, _, err := c.text(e)
		if err != nil {
			return nil, err
		}
		if len(tokens) < n {
			return nil, fmt.Errorf("%w: it has %d tokens, but %d are needed", eval.ErrShort, len(tokens), n)
		}
		bar := r.bar("decoding", c.Model)
		defer bar.close()
		return eval.Choices(r.ctx, e, tokens[:n], c.Behind, func(s float64) { _ = bar.share(s) })
	}
	err := c.run(r, c.base(r), n, "f16", "f16", func(e *engine.Engine) (err error) {
		base, err = choose(e)
		return err
	})
	if err == nil {
		err = c.each(r, n, func(e *engine.Engine) error {
			got, err := choose(e)
			if err != nil {
				return err
			}
			res := eval.Agree(base, got)
			res.TypeK, res.TypeV = eval.Types(e)
			list = append(list, res)
			return nil
		})
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return r.oneOrList(len(list), list, func(i int) any { return list[i] })
	}
	t := newTable("K", "V", "AGREEMENT", "±", "TOKENS", "MARGIN", "WHERE LOST")
	for _, a := range list {
		t.add(a.TypeK, a.TypeV, fmt.Sprintf("%.4f", a.Agreement), fmt.Sprintf("%.4f", a.Stderr), fmt.Sprint(a.Tokens),
			fmt.Sprintf("%.2f", a.Margin), fmt.Sprintf("%.2f", a.MarginLost))
	}
	return t.write(r.out)
}
