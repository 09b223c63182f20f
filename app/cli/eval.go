package cli

import (
	"fmt"
	"os"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/eval"
	"godwit/engine/llm"
)

type evalCmd struct {
	Perplexity evalPerplexityCmd `cmd:"" help:"How well the model predicts a text, as llama-perplexity measures it."`
	KLD        evalKLDCmd        `cmd:"" name:"kld" help:"How far a cache type moves the model's predictions from f16's."`
	Agree      evalAgreeCmd      `cmd:"" help:"How often decoding chooses the token that f16 chooses."`
}

// evalFlags are shared by the measurements over a text.
type evalFlags struct {
	modelArg
	config.Engine
	File string `short:"f" type:"existingfile" placeholder:"FILE" help:"Text to measure on."`
	JSON bool   `name:"json" help:"Machine-readable output."`
}

// each opens the model with every pair of types that the flags list.
func (f *evalFlags) each(r *run, ctx int, do func(e *engine.Engine) error) error {
	for _, k := range typeList(f.CacheTypeK) {
		for _, v := range typeList(f.CacheTypeV) {
			if err := f.with(r, ctx, k, v, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// with opens the model with one pair of types.
func (f *evalFlags) with(r *run, ctx int, k, v string, do func(e *engine.Engine) error) error {
	load := loadFlags{f.Engine}
	load.CacheTypeK, load.CacheTypeV, load.Parallel, load.CtxSize, load.KVCells = k, v, 1, ctx, 0
	e, err := r.open(r.ctx, f.Model, &load)
	if err != nil {
		return err
	}
	defer e.Close()
	return do(e)
}

// text reads and tokenises the file.
func (f *evalFlags) text(e *engine.Engine) (tokens []llm.Token, bos llm.Token, addBOS bool, err error) {
	if f.File == "" {
		return nil, 0, false, usage{fmt.Errorf("-f FILE is missing")}
	}
	b, err := os.ReadFile(f.File)
	if err != nil {
		return nil, 0, false, err
	}
	t, err := e.Tokenizer()
	if err != nil {
		return nil, 0, false, err
	}
	return t.EncodeText(string(b), true, false), t.BOS(), t.AddBOS(), nil
}

// window is the chunking of the flags.
func (f *evalFlags) window(r *run, e *engine.Engine, chunks int) ([]llm.Token, eval.Window, func(), error) {
	tokens, bos, addBOS, err := f.text(e)
	if err != nil {
		return nil, eval.Window{}, nil, err
	}
	bar := r.bar("measuring", f.Model)
	w := eval.Window{Context: f.CtxSize, Chunks: chunks, BOS: bos, AddBOS: addBOS, Progress: func(s float64) { _ = bar.share(s) }}
	return tokens, w, bar.close, nil
}

// evalContext is the default window of the chunked measurements.
const evalContext = 512

type evalPerplexityCmd struct {
	evalFlags
	Chunks int `default:"0" help:"Chunks to measure, 0: all."`
}

// Run measures perplexity for every pair of types.
func (c *evalPerplexityCmd) Run(r *run) error {
	if c.CtxSize == 0 {
		c.CtxSize = evalContext
	}
	var list []eval.PerplexityResult
	err := c.each(r, c.CtxSize, func(e *engine.Engine) error {
		tokens, w, done, err := c.window(r, e, c.Chunks)
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
	if c.JSON {
		return r.oneOrList(len(list), list, func(i int) any { return list[i] })
	}
	t := newTable("K", "V", "PERPLEXITY", "±", "TOKENS")
	for _, p := range list {
		t.add(p.TypeK, p.TypeV, fmt.Sprintf("%.4f", p.Perplexity), fmt.Sprintf("%.4f", p.Stderr), fmt.Sprint(p.Tokens))
	}
	return t.write(r.out)
}

// oneOrList prints one result as an object, several as a list.
func (r *run) oneOrList(n int, list any, at func(int) any) error {
	if n == 1 {
		return r.json(at(0))
	}
	return r.json(list)
}

type evalKLDCmd struct {
	evalFlags
	Chunks int `default:"8" help:"Chunks to measure, 0: all."`
}

// Run compares every pair of types with f16.
func (c *evalKLDCmd) Run(r *run) error {
	if c.CtxSize == 0 {
		c.CtxSize = evalContext
	}
	var list []eval.KLDResult
	err := c.with(r, c.CtxSize, "f16", "f16", func(base *engine.Engine) error {
		return c.each(r, c.CtxSize, func(e *engine.Engine) error {
			tokens, w, done, err := c.window(r, e, c.Chunks)
			if err != nil {
				return err
			}
			res, err := eval.KLD(r.ctx, base, e, tokens, w)
			done()
			list = append(list, res)
			return err
		})
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return r.oneOrList(len(list), list, func(i int) any { return list[i] })
	}
	t := newTable("K", "V", "KLD", "±", "MEDIAN", "99 %", "MAX", "TOP-1 %", "PPL")
	for _, k := range list {
		t.add(k.TypeK, k.TypeV, fmt.Sprintf("%.5f", k.Mean), fmt.Sprintf("%.5f", k.Stderr), fmt.Sprintf("%.5f", k.Median),
			fmt.Sprintf("%.4f", k.P99), fmt.Sprintf("%.3f", k.Max), fmt.Sprintf("%.1f", 100*k.Top1), fmt.Sprintf("%.3f", k.Perplexity))
	}
	return t.write(r.out)
}

type evalAgreeCmd struct {
	evalFlags
	Tokens int `default:"512" help:"Tokens to feed, one at a time."`
}

// Run compares the choices of every pair of types with f16's.
func (c *evalAgreeCmd) Run(r *run) error {
	var base []llm.Token
	var list []eval.AgreeResult
	choose := func(e *engine.Engine) ([]llm.Token, error) {
		tokens, _, _, err := c.text(e)
		if err != nil {
			return nil, err
		}
		if len(tokens) < c.Tokens {
			return nil, fmt.Errorf("%w: %d tokens, wanted %d", eval.ErrShort, len(tokens), c.Tokens)
		}
		bar := r.bar("decoding", c.Model)
		defer bar.close()
		return eval.Choices(r.ctx, e, tokens[:c.Tokens], func(s float64) { _ = bar.share(s) })
	}
	err := c.with(r, c.Tokens, "f16", "f16", func(e *engine.Engine) (err error) {
		base, err = choose(e)
		return err
	})
	if err == nil {
		err = c.each(r, c.Tokens, func(e *engine.Engine) error {
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
	t := newTable("K", "V", "AGREEMENT", "±", "TOKENS")
	for _, a := range list {
		t.add(a.TypeK, a.TypeV, fmt.Sprintf("%.4f", a.Agreement), fmt.Sprintf("%.4f", a.Stderr), fmt.Sprint(a.Tokens))
	}
	return t.write(r.out)
}
