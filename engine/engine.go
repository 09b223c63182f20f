// Package engine runs GGUF language models: open a model, make requests,
// stream events.
//
//	e, err := engine.Open(ctx, "model.gguf", engine.Options{})
//	for ev, err := range e.Generate(ctx, engine.Request{Prompt: "Hello"}) { … }
//
// An Engine is safe for concurrent use. Requests share the device and the cache.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/gguf"
	"godwit/engine/grammar"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/model"
	"godwit/engine/prefix"
	"godwit/engine/sched"
	"godwit/engine/tokenizer"
)

// Defaults of Options.
const (
	DefaultUBatch   = 512
	DefaultParallel = 8
	DefaultMaxStep  = 150 * time.Millisecond
	DefaultQueue    = 128
	// MinContext is the shortest context that a load chooses by itself when memory
	// is short.
	MinContext = 4096
	// outputs is the number of rows of a batch that can have logits.
	outputs = 32
)

// Options configures an engine. The zero value is the model's full context on
// the CPU with an f16 cache.
type Options struct {
	Driver    backend.Driver // nil: the CPU
	Device    int
	Fallback  bool // use the CPU, with a warning, if Driver's device cannot run the model
	GPULayers *int // number of last layers that run on Driver's device; the CPU runs the others. nil: all
	Threads   int  // CPU workers; 0: physical cores
	NoRepack  bool // run from the mapped file instead of repacked weights
	NoMMap    bool // read the file instead of mapping it
	Lock      bool // keep the weights from being swapped out
	Unchecked bool // accept weights that are NaN or infinite
	Strays    bool // continue a request after NaN in a layer, so that the layer can be found
	FloatAttn bool // float arithmetic in attention for every cache type

	Context  int // tokens of one sequence; 0: the model's own context, or less if that does not fit
	AtLeast  int // shortest context that a load may choose if Context is 0
	Cells    int // cells that all sequences share; 0: Context
	Parallel int // number of sequences; 0: 8
	UBatch   int // rows of a batch; 0: 512
	// MaxStep is the longest step while an answer is generated. Prompts are read in
	// smaller chunks meanwhile. 0: DefaultMaxStep; negative: no limit.
	MaxStep time.Duration
	Queue   int // requests that may wait for a slot; 0: DefaultQueue

	Want   layout.Want     // cache types; nil: the type of Preset, else f16
	Preset string          // name in layout.Presets; empty: off
	KV     layout.Settings // cache policies; a load sets Cells, Seqs and UBatch
	// Calibrations is the folder of saved calibrations, for cache types that need one;
	// empty: nothing is saved. A missing calibration is measured at load. With
	// NoCalibration, conversations calibrate themselves instead, or keys use types that
	// need no calibration.
	Calibrations  string
	NoCalibration bool
	// CalibrateLater loads without a missing calibration; [CalibrateFile] measures it for
	// the next load. Strict types that need one are still measured at load.
	CalibrateLater bool
	SparseV        float32 // attention weight below which the V of a cell is skipped; 0: off

	// Hidden makes EachLogits and Logits return the rows after the last norm
	// instead of logits. Such an engine cannot generate.
	Hidden bool
	// EncoderTokens is the text for the encoder of an encoder-decoder model.
	EncoderTokens []llm.Token

	// Drafter returns a drafter that proposes the tokens of an answer, so that one
	// step verifies several tokens, as with [NGram]. The answers do not change. nil:
	// one token per step.
	Drafter func(prediction []llm.Token) sched.Drafter
	Draft   Draft     // a model that proposes tokens, in place of Drafter
	draft   *Prepared // the plan of that model

	// ContextShift drops the middle of a full sequence instead of ending the answer.
	ContextShift bool

	ReuseShifted int // reuse unchanged text after an edit if it has at least this many tokens, which changes answers; 0: off

	// ChatTemplates replace the templates in model files.
	ChatTemplates []ChatTemplate

	LoRA []LoRA // adapters of the model, applied together

	MMProj      string      // projector file for pictures; empty: one beside the model; NoProjector: none
	ImageLimits ImageLimits // limits on the tokens of a picture, for vision towers with a dynamic picture size
	ImageCache  int64       // bytes for the rows of pictures; 0: DefaultImageCache

	Log *slog.Logger // nil: none
	// Memory counts what the models of this process have reserved; nil: a load may use
	// all the free memory that the device reports.
	Memory *Memory
	// Progress is called with the share loaded, from 0 to 1; an error cancels.
	Progress func(share float64) error
	// Measuring receives the progress of a calibration before loading, from 0 to 1;
	// an error cancels. If it is nil, Progress receives the calibration's progress
	// as 0 to 0.5.
	Measuring func(share float64) error
	// Prefixes stores processed prompts, so that this process and later ones can reuse
	// them. nil: only the contents of slots are reused.
	Prefixes *prefix.Store
	// Observe is called after every step of the device, for metrics; may be nil.
	Observe func(sched.Step)
	// Replay returns the tokens of an answer in place of sampled ones, so that tests can
	// script a model. Every step is still computed, and the answer ends after the last
	// listed token. A nil list samples as usual. No flag sets Replay.
	Replay func(ctx context.Context, prompt []llm.Token) []llm.Token
}

// Engine is a loaded model on a device.
type Engine struct {
	model    *Model
	p        *Prepared
	backend  backend.Backend
	prog     backend.Program
	claim    *claim
	cache    *pages.Cache
	sched    *sched.Sched
	embed    embedder
	draft    *drafting // nil: no draft model
	pictures *pictures // nil: text only
	log      *slog.Logger
	warned   bool // saturated scales were logged; used only on the scheduler's goroutine
	once     sync.Once
	closed   error
	// grammarTokens is the vocabulary in the form that grammars use, made at first use.
	grammarTokens func() (*grammar.Tokens, error)
}

// Open loads a model.
func Open(ctx context.Context, path string, o Options) (*Engine, error) {
	e, err := open(ctx, path, o)
	var d *deviceError
	if !o.Fallback || !errors.As(err, &d) || ctx.Err() != nil {
		return e, err
	}
	if o.Log != nil {
		o.Log.Warn("model not loaded on the GPU, running on the CPU", "backend", o.Driver.Name(), "err", d.error)
	}
	onCPU := o
	onCPU.Driver, onCPU.GPULayers = nil, nil
	return open(ctx, path, onCPU)
}

// open loads a model in steps. Each step makes a value from the results of earlier
// steps.
func open(ctx context.Context, path string, o Options) (_ *Engine, err error) {
	x, err := openParts(path, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.close())
		}
	}()
	if o.Draft.Path != "" {
		if err := x.model.checkDraft(o.Draft.Path); err != nil {
			return nil, err
		}
	}
	if err := x.encode(ctx, o); err != nil {
		return nil, err
	}
	w, err := x.measure(ctx, o)
	if err != nil {
		return nil, unableDevice(o, err)
	}
	p, claim, err := x.prepare(o, w.cache)
	if err != nil {
		return nil, unableDevice(o, err)
	}
	d, err := x.openDraft(ctx, &o, p.Context)
	if err != nil {
		o.Memory.drop(claim)
		return nil, err
	}
	c, err := x.compile(ctx, p, claim, w.progress)
	if err != nil {
		o.Memory.drop(claim)
		return nil, errors.Join(err, d.close())
	}
	return x.engine(p, c, claim, d), nil
}

// opened is an open model and an open device. The cache is not planned yet.
type opened struct {
	model   *Model
	backend backend.Backend
	log     *slog.Logger
}

// openParts opens the model with its adapters, and the device. A missing device is
// thus reported before anything is measured.
func openParts(path string, o Options) (*opened, error) {
	read := gguf.Open
	if o.NoMMap {
		read = gguf.Load
	}
	m, err := openModel(path, read)
	if err != nil {
		return nil, err
	}
	m.override = templateFor(path, o.ChatTemplates)
	x := &opened{model: m, log: o.Log}
	if x.log == nil {
		x.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	m.words = noticed(m.words, x.log)
	if err = m.adapt(o.LoRA); err == nil {
		err = m.project(o)
	}
	if err == nil {
		x.backend, err = m.device(o)
		err = otherDevice(o, err)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return x, nil
}

func (x *opened) close() error { return errors.Join(x.backend.Close(), x.model.Close()) }

// prepare plans the load and reserves its memory.
func (x *opened) prepare(o Options, cache layout.Settings) (*Prepared, *claim, error) {
	o.KV = cache
	return o.Memory.claim(x.model.Path, x.backend.Info(), func(free int64) (*Prepared, error) { return x.model.Prepare(o, free) })
}

// compiled is a program with its cache.
type compiled struct {
	prog  backend.Program
	cache *pages.Cache
}

// compile compiles the prepared model on the device. progress may be nil.
func (x *opened) compile(ctx context.Context, p *Prepared, claim *claim, progress func(share float64) error) (*compiled, error) {
	for _, ev := range p.Events {
		x.log.LogAttrs(ctx, ev.Level, ev.Text, ev.Attrs...)
	}
	m, o := x.model, p.Options
	if n := m.adapters.ignored; len(n) > 0 {
		x.log.Warn(fmt.Sprintf("%d tensors of adapters are ignored, %q first: norms are not replaced", len(n), n[0]))
	}
	s := p.Sizes
	s.Done = m.File.Drop
	s.Progress = func(share float64) error {
		o.Memory.progress(claim, share)
		if progress == nil {
			return nil
		}
		return progress(share)
	}
	c, err := p.compile(ctx, x.backend, s)
	if err != nil {
		return nil, otherDevice(o, m.named(err))
	}
	if err := m.File.Gone(); err != nil {
		return nil, errors.Join(err, c.prog.Close())
	}
	if !o.NoRepack {
		m.File.DropPages()
	}
	o.Memory.loaded(claim, c.prog)
	return c, nil
}

// compile compiles a program and its cache on a device.
func (p *Prepared) compile(ctx context.Context, b backend.Backend, s backend.Sizes) (*compiled, error) {
	prog, err := b.Compile(ctx, p.graph, &p.Layout, s)
	if err != nil {
		return nil, err
	}
	cache, err := pages.New(&p.Layout, pages.Options{Copier: prog, Model: p.model.identity()})
	if err != nil {
		return nil, errors.Join(err, prog.Close())
	}
	return &compiled{prog, cache}, nil
}

// engine starts the scheduler for a compiled model.
func (x *opened) engine(p *Prepared, c *compiled, claim *claim, d *drafting) *Engine {
	m, g := x.model, p.graph
	e := &Engine{model: m, p: p, backend: x.backend, prog: c.prog, claim: claim, cache: c.cache, draft: d, log: x.log}
	e.grammarTokens = sync.OnceValues(func() (*grammar.Tokens, error) {
		t, err := m.Tokenizer()
		if err != nil {
			return nil, err
		}
		return grammar.NewTokens(vocabulary{t, m.Config().Vocab})
	})
	width := g.Values[g.Output].Width
	if m.projector != nil {
		e.pictures = newPictures(m.projector, p.Options.ImageLimits, p.Options.ImageCache)
	}
	if m.Config().Embedding && !p.Options.Hidden {
		e.embed.set(c.prog, c.cache, p.Sizes.Rows, width)
	}
	origin, err := p.origin(c.cache, x.backend.Info())
	if err != nil {
		x.log.Warn("prefixes not stored", "err", err)
	}
	o := sched.Options{
		Context: p.Context, Rows: p.Sizes.Rows, Outputs: p.Sizes.Outputs, Vocab: width,
		Queue:      cmp.Or(p.Options.Queue, DefaultQueue),
		StateModel: len(g.States) > 0, SingleRows: x.backend.Info().Backend != cpu.Driver{}.Name(), Observe: d.observe(p.Options.Observe), Ended: e.warnSaturated,
		Shift: p.Options.ContextShift, Splice: p.Options.ReuseShifted, Rotary: rotaries(g, m.Config().Layers), MaxStep: cmp.Or(p.Options.MaxStep, DefaultMaxStep),
	}
	if err == nil && !m.Config().Embedding {
		o.Prefixes, o.Origin = p.Options.Prefixes, origin
		o.Reused = func(r sched.Stats) {
			x.log.Debug("prompt reuse", "tokens", r.Prompt, "cached", r.Cached, "disk", r.FromDisk, "pos", r.Ended, "why", r.Why)
		}
		o.Unkept = func(err error) { x.log.Warn("prefix not stored", "err", err) }
	}
	e.sched = sched.New(c.prog, c.cache, o)
	e.sched.WarnSplice(x.log)
	x.log.Info("model loaded", "model", m.Config().Name, "arch", m.Config().Arch, "device", x.backend.Info().Detail,
		"ctx", p.Context, "bytes", c.prog.Memory().Weights+c.prog.Memory().Cache)
	h := holding(c.prog, &p.Layout)
	x.log.Info("memory reserved", "weights", h.Weights, "cells", h.Cells, "exact", h.Exact, "states", h.States, "scratch", h.Scratch,
		"left", p.Options.Memory.Free(x.backend.Info(), ""))
	return e
}

// noticed wraps words. The first call also logs the vocabulary's notices.
func noticed(words func() (*tokenizer.Tokenizer, error), log *slog.Logger) func() (*tokenizer.Tokenizer, error) {
	return sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
		t, err := words()
		if err == nil {
			for _, n := range t.Notices() {
				log.Warn("unusual vocabulary", "notice", n)
			}
		}
		return t, err
	})
}

// Close ends all requests and frees the model.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.sched.Close()
		e.p.Options.Memory.drop(e.claim)
		e.p.Options.Memory.drop(e.embed.claim)
		e.closed = errors.Join(e.draft.close(), e.embed.close(), e.prog.Close(), e.backend.Close(), e.model.Close())
	})
	return e.closed
}

// Model returns the opened file. It is closed with the engine.
func (e *Engine) Model() *Model { return e.model }

// Config returns the hyper-parameters that the architecture read.
func (e *Engine) Config() *model.Config { return e.model.Config() }

// Context returns the largest number of tokens in a sequence.
func (e *Engine) Context() int { return e.p.Context }

// KV returns the layout of the cache in use.
func (e *Engine) KV() *layout.Layout { return &e.p.Layout }

// Device describes where the model runs.
func (e *Engine) Device() backend.Info { return e.backend.Info() }

// Free returns the memory that another load can take on the device; 0: unknown.
func (e *Engine) Free() int64 { return e.p.Options.Memory.Free(e.Device(), "") }

// EachLogits calls f with the logits of every wanted position, in order. f runs on the
// device's goroutine and must not keep the row after it returns. The prompt is computed
// from scratch. With step, it is read one token at a time.
func (e *Engine) EachLogits(ctx context.Context, tokens []llm.Token, want func(pos int) bool, step bool, f func(pos int, row []float32) error) error {
	if err := e.Config().CheckTokens(tokens); err != nil {
		return err
	}
	if step && e.Config().WholeText() {
		return ErrWhole
	}
	if e.Config().Encoder && e.model.encoded == nil {
		return ErrEncoder
	}
	return e.wait(ctx, sched.Job{Prompt: tokens, Fresh: true, OneByOne: step, Slot: -1, Want: want, Row: f})
}

// EachStep reads tokens[:prompt] as a prompt and feeds the remaining tokens one at a
// time. It calls f with the logits of each of these, as in [Engine.EachLogits].
func (e *Engine) EachStep(ctx context.Context, tokens []llm.Token, prompt int, f func(pos int, row []float32) error) error {
	if err := e.Config().CheckTokens(tokens); err != nil {
		return err
	}
	if prompt < 0 || prompt >= len(tokens) {
		return fmt.Errorf("a prompt of %d tokens; want at least 0 and less than the %d tokens of the text", prompt, len(tokens))
	}
	j := sched.Job{Prompt: tokens, Fresh: true, OneByOne: true, Want: func(p int) bool { return p >= prompt }, Row: f}
	if prompt > 0 {
		// This reads the prompt into the cache. The job below reuses its whole pages.
		if err := e.wait(ctx, sched.Job{Prompt: tokens[:prompt], Fresh: true, Want: func(int) bool { return false }, Row: f}); err != nil {
			return err
		}
		j.Fresh = false
	}
	return e.wait(ctx, j)
}

// wait runs a job to its end.
func (e *Engine) wait(ctx context.Context, j sched.Job) error {
	done := make(chan error, 1)
	j.Done = func(_ sched.Finish, _ sched.Stats, err error) { done <- err }
	if err := e.submit(ctx, j); err != nil {
		return err
	}
	return <-done
}

// submit queues jobs of a model that generates.
func (e *Engine) submit(ctx context.Context, jobs ...sched.Job) error {
	if e.Config().Embedding && !e.p.Options.Hidden {
		return ErrEmbedding
	}
	for i := range jobs {
		if done := jobs[i].Done; done != nil {
			jobs[i].Done = func(f sched.Finish, s sched.Stats, err error) { done(f, s, e.model.named(err)) }
		}
		jobs[i].Strays = jobs[i].Strays || e.p.Options.Strays
	}
	return e.sched.Submit(ctx, jobs...)
}

// named adds the model's path to an error about its weights or about NaN results.
func (m *Model) named(err error) error {
	var odd *NotNumbers
	switch {
	case errors.As(err, &odd):
		return fmt.Errorf("%s: %w: %w", m.Path, ErrLogits, err)
	case errors.Is(err, ErrLogits):
		return fmt.Errorf("%s: %w after the attention of layer %d, the last layer", m.Path, err, m.Config().Layers-1)
	case errors.Is(err, backend.ErrDamaged):
		return fmt.Errorf("%s: %w", m.Path, err)
	}
	return err
}
