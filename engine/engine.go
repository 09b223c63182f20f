// Package engine runs GGUF language models: open a model, make requests,
// stream events.
//
//	e, err := engine.Open(ctx, "model.gguf", engine.Options{})
//	for ev, err := range e.Generate(ctx, engine.Request{Prompt: "Hello"}) { … }
//
// An Engine is safe for concurrent use; requests share the device and the
// cache.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"godwit/engine/backend"
	"godwit/engine/backend/split"
	"godwit/engine/cpu"
	"godwit/engine/gguf"
	"godwit/engine/grammar"
	"godwit/engine/kv"
	"godwit/engine/llm"
	"godwit/engine/model"
	"godwit/engine/sched"
	"godwit/engine/tokenizer"
)

// Defaults of Options.
const (
	DefaultUBatch   = 512
	DefaultParallel = 8
	// MinContext is what a context is never cut below for lack of memory.
	MinContext = 4096
	// outputs is how many rows of a batch can have logits.
	outputs = 32
)

// Options size an engine. The zero value is the model's own context on the
// CPU with an f16 cache.
type Options struct {
	Driver    backend.Driver // nil: the CPU
	Device    int
	Fallback  bool // the CPU takes over, with a warning, where Driver's device cannot run the model
	GPULayers *int // layers that Driver's device runs, the last ones; the CPU runs those before. nil: all
	Threads   int  // CPU workers, 0: physical cores
	NoRepack  bool // run from the mapped file
	NoMMap    bool // read the file instead of mapping it
	Lock      bool // keep the weights from being swapped out
	Unchecked bool // accept weights that are NaN or infinite
	Strays    bool // go on with rows for which a layer computes NaN, to find the layer
	FloatAttn bool // float arithmetic in attention for every cache type

	Context  int // tokens of one sequence; 0: the model's own, or what fits
	AtLeast  int // tokens that a context chosen here has to hold
	Cells    int // cells that all sequences share; 0: Context
	Parallel int // sequences, 0: 8
	UBatch   int // rows of a batch, 0: 512

	Want   kv.Want     // nil types: what Preset says, f16 without one
	Preset string      // a name of kv.Presets; empty: off
	KV     kv.Settings // policies; Cells, Seqs and UBatch are filled in
	// Calibrations is the folder where calibrations of models are kept, for cache
	// types that want one; empty: none is kept. A missing one is measured on
	// load, unless NoCalibration says to take types that do without.
	Calibrations  string
	NoCalibration bool
	// CalibrateLater loads without a calibration that is missing; [CalibrateFile]
	// measures it for the next load. Strict types that need one wait for it.
	CalibrateLater bool
	SparseV        float32 // V of cells with a smaller weight is skipped; 0: off

	// ContextShift drops the middle of a full sequence instead of ending the answer.
	ContextShift bool

	// ChatTemplates stand in for models' own.
	ChatTemplates []ChatTemplate

	LoRA []LoRA // adapters of the model, applied together

	Log *slog.Logger // nil: none
	// Progress is told how far loading is, from 0 to 1; an error cancels.
	Progress func(share float64) error
	// Measuring is told how far a calibration is, which comes before loading; an error
	// cancels. nil: Progress is told, up to a half.
	Measuring func(share float64) error
	// Observe is told of every step of the device, for metrics; may be nil.
	Observe func(sched.Step)
	// Replay returns the tokens of an answer in place of sampled ones, for tests
	// of what surrounds a model. The model computes every step all the same. An
	// answer ends with the list, and nil samples as usual. No flag sets it.
	Replay func(ctx context.Context, prompt []llm.Token) []llm.Token
}

// Engine is a loaded model on a device.
type Engine struct {
	*Model
	o          Options
	layout     kv.Layout
	backend    backend.Backend
	prog       backend.Program
	cache      *kv.Cache
	sched      *sched.Sched
	embed      embedder
	log        *slog.Logger
	unmeasured bool // a calibration is missing, and to be measured later
	warned     bool // that scales were saturated; the scheduler's goroutine has it
	once       sync.Once
	closed     error
	// grammarTokens is the vocabulary as grammars need it, made at first use.
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
		o.Log.Warn("the CPU runs this model, the GPU cannot", "backend", o.Driver.Name(), "err", d.error)
	}
	o.Driver, o.GPULayers = nil, nil
	return open(ctx, path, o)
}

// deviceError is why a device other than the CPU does not run a model.
type deviceError struct{ error }

func (e *deviceError) Unwrap() error { return e.error }

// onDevice marks an error of a device other than the CPU.
func (e *Engine) onDevice(err error) error {
	if err == nil || errors.Is(err, backend.ErrDamaged) || e.o.Driver.Name() == (cpu.Driver{}).Name() || errors.Is(err, context.Canceled) {
		return err
	}
	return &deviceError{err}
}

func open(ctx context.Context, path string, o Options) (*Engine, error) {
	read := gguf.Open
	if o.NoMMap {
		read = gguf.Load
	}
	m, err := openModel(path, read)
	if err != nil {
		return nil, err
	}
	m.override = templateFor(path, o.ChatTemplates)
	e := &Engine{Model: m, o: o, log: o.Log}
	e.grammarTokens = sync.OnceValues(func() (*grammar.Tokens, error) {
		t, err := e.Tokenizer()
		if err != nil {
			return nil, err
		}
		return grammar.NewTokens(vocabulary{t, e.Config().Vocab})
	})
	if e.log == nil {
		e.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	m.words = e.noticed(m.words)
	err = m.adapt(o.LoRA)
	if err == nil { // a device that is not there refuses before anything is measured
		e.backend, err = e.open()
		err = e.onDevice(err)
	}
	if err == nil {
		err = e.calibrate(ctx)
	}
	if err == nil {
		err = e.evenKeys(ctx)
	}
	if err == nil {
		err = e.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// noticed is words that logs what the vocabulary has to say about itself.
func (e *Engine) noticed(words func() (*tokenizer.Tokenizer, error)) func() (*tokenizer.Tokenizer, error) {
	return sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
		t, err := words()
		if err == nil {
			for _, n := range t.Notices() {
				e.log.Warn("vocabulary: " + n)
			}
		}
		return t, err
	})
}

func (e *Engine) start(ctx context.Context) error {
	if err := e.size(); err != nil {
		return err
	}
	p, err := e.plan(model.Inputs{Context: e.o.Context})
	if err != nil {
		return err
	}
	for _, ev := range e.layout.Events {
		e.log.LogAttrs(ctx, ev.Level, ev.Text, ev.Attrs...)
	}
	if n := e.adapters.ignored; len(n) > 0 {
		e.log.Warn(fmt.Sprintf("%d tensors of adapters are ignored, %q first: norms are not replaced", len(n), n[0]))
	}
	s := backend.Sizes{
		Rows: e.o.UBatch, Outputs: max(outputs, e.o.Parallel), Slots: e.layout.StateSlots(),
		SparseV: e.o.SparseV, Progress: e.o.Progress, Done: e.File.Drop,
	}
	for _, g := range e.layout.Groups {
		s.Pages = append(s.Pages, g.Pages)
	}
	if e.prog, err = e.backend.Compile(ctx, p, &e.layout, s); err != nil {
		return e.onDevice(e.named(err))
	}
	if err := e.File.Gone(); err != nil {
		return err
	}
	if e.cache, err = kv.New(&e.layout, kv.Options{Copier: e.prog, Model: e.identity()}); err != nil {
		return err
	}
	if !e.o.NoRepack {
		e.File.DropPages()
	}
	if e.Config().Embedding {
		e.embed.set(e.prog, e.cache, s.Rows, p.Values[p.Output].Width)
	}
	e.sched = sched.New(e.prog, e.cache, sched.Options{
		Context: e.o.Context, Rows: s.Rows, Outputs: s.Outputs, Vocab: p.Values[p.Output].Width,
		StateModel: len(p.States) > 0, Observe: e.o.Observe, Ended: e.warnSaturated,
		Shift: e.o.ContextShift, Rotary: rotaries(p, e.Config().Layers),
	})
	e.log.Info("model loaded", "model", e.Config().Name, "arch", e.Config().Arch, "device", e.backend.Info().Detail,
		"ctx", e.o.Context, "bytes", e.prog.Memory().Weights+e.prog.Memory().Cache)
	return nil
}

// open opens the device, or two where it runs only the last layers.
func (e *Engine) open() (backend.Backend, error) {
	o, host := &e.o, cpu.Driver{}
	onHost := e.hostLayers(o)
	if o.Driver == nil || o.GPULayers != nil && *o.GPULayers <= 0 {
		o.Driver, o.Device = host, 0
	}
	options := backend.Options{Threads: o.Threads, NoRepack: o.NoRepack, FloatAttn: o.FloatAttn, Lock: o.Lock, Unchecked: o.Unchecked}
	b, err := o.Driver.Open(o.Device, options)
	if err != nil || onHost == 0 || o.Driver.Name() == host.Name() {
		return b, err
	}
	first, err := host.Open(0, options)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return split.New(first, b, onHost), nil
}

// hostLayers is the number of layers, the first ones, that the CPU runs whatever
// device the options name.
func (m *Model) hostLayers(o *Options) int {
	if o.GPULayers == nil {
		return 0
	}
	return max(0, m.Config().Layers-max(0, *o.GPULayers))
}

// Holds reports an error where the device that the options name has no kernel for
// the cache of a layer that it would run, as Open does.
func (m *Model) Holds(l *kv.Layout, o *Options) error {
	d, ok := o.Driver.(backend.Holder)
	if !ok {
		return nil
	}
	part := l.Part(m.hostLayers(o), len(l.Layers))
	return d.Holds(&part)
}

// size settles the context and the layout.
func (e *Engine) size() error {
	o := &e.o
	if o.Context < 0 || o.Cells < 0 || o.Parallel < 0 || o.UBatch < 0 {
		return errors.New("context, cells, parallel sequences and batch must not be negative")
	}
	if o.Parallel == 0 {
		o.Parallel = DefaultParallel
	}
	if o.UBatch == 0 {
		o.UBatch = DefaultUBatch
	}
	trained := e.Config().Context
	if e.Config().Embedding {
		trained = min(trained, embeddingContext)
		o.Parallel, o.Preset = 1, ""
		if o.Want.K == nil {
			o.Want.K = kv.F32
		}
		if o.Want.V == nil {
			o.Want.V = kv.F32
		}
	}
	if o.Context == 0 {
		o.Context = trained
		if free := e.backend.Info().Free; free > 0 {
			l, err := e.layoutFor(kv.PageCells)
			if err != nil {
				return err
			}
			fits := max(l.LargestContext(free/2), min(MinContext, trained))
			if fits < trained {
				o.Context = fits
				e.log.Info("context cut to what fits in half of the free memory", "ctx", fits, "model_ctx", trained)
			}
		}
		o.Context = max(o.Context, o.AtLeast)
	}
	if o.Cells == 0 {
		o.Cells = o.Context
	}
	o.UBatch = min(o.UBatch, max(o.Context, 1))
	if e.Config().Embedding {
		o.UBatch = o.Context // a text is one batch
	}
	var err error
	e.layout, err = e.layoutFor(o.Cells)
	return err
}

func (e *Engine) layoutFor(cells int) (kv.Layout, error) {
	s := e.o.KV
	s.Cells, s.Seqs, s.UBatch = cells, e.o.Parallel, e.o.UBatch
	return e.Layout(e.o.Context, e.o.Want, e.o.Preset, s)
}

// Close ends all requests and frees the model.
func (e *Engine) Close() error {
	e.once.Do(func() {
		var errs []error
		if e.sched != nil {
			e.sched.Close()
		}
		errs = append(errs, e.embed.close())
		if e.prog != nil {
			errs = append(errs, e.prog.Close())
		}
		if e.backend != nil {
			errs = append(errs, e.backend.Close())
		}
		e.closed = errors.Join(append(errs, e.Model.Close())...)
	})
	return e.closed
}

// Context is the most tokens a sequence may hold.
func (e *Engine) Context() int { return e.o.Context }

// KV is the layout of the cache in use.
func (e *Engine) KV() *kv.Layout { return &e.layout }

// Device describes where the model runs.
func (e *Engine) Device() backend.Info { return e.backend.Info() }

// Logits returns the logits at each position, [len(positions), vocab], in the
// order given. With step the tokens are fed one at a time.
func (e *Engine) Logits(ctx context.Context, tokens []llm.Token, positions []int, step bool) ([]float32, error) {
	where := make(map[int][]int)
	for i, p := range positions {
		if p < 0 || p >= len(tokens) {
			return nil, fmt.Errorf("position %d of %d tokens", p, len(tokens))
		}
		where[p] = append(where[p], i)
	}
	vocab := e.Config().Vocab
	out := make([]float32, len(positions)*vocab)
	want := func(p int) bool { return where[p] != nil }
	err := e.EachLogits(ctx, tokens, want, step, func(p int, row []float32) error {
		for _, i := range where[p] {
			copy(out[i*vocab:], row)
		}
		return nil
	})
	return out, err
}

// EachLogits calls f with the logits of every wanted position, in order. The
// row is f's only until it returns; f runs on the device's goroutine. The
// prompt is computed afresh; with step it is fed one token at a time.
func (e *Engine) EachLogits(ctx context.Context, tokens []llm.Token, want func(pos int) bool, step bool, f func(pos int, row []float32) error) error {
	if err := e.checkTokens(tokens); err != nil {
		return err
	}
	return e.wait(ctx, sched.Job{Prompt: tokens, Fresh: true, OneByOne: step, Slot: -1, Want: want, Row: f})
}

// EachStep reads the first tokens as a prompt, feeds the others one at a time,
// and calls f with the logits of each of these, as [Engine.EachLogits] does.
func (e *Engine) EachStep(ctx context.Context, tokens []llm.Token, prompt int, f func(pos int, row []float32) error) error {
	if err := e.checkTokens(tokens); err != nil {
		return err
	}
	if prompt < 0 || prompt >= len(tokens) {
		return fmt.Errorf("a prompt of %d of %d tokens", prompt, len(tokens))
	}
	j := sched.Job{Prompt: tokens, Fresh: true, OneByOne: true, Want: func(p int) bool { return p >= prompt }, Row: f}
	if prompt > 0 {
		// The steps take these cells over, all whole pages of them.
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
	if e.Config().Embedding {
		return ErrEmbedding
	}
	for i := range jobs {
		if done := jobs[i].Done; done != nil {
			jobs[i].Done = func(f sched.Finish, s sched.Stats, err error) { done(f, s, e.named(err)) }
		}
		jobs[i].Strays = jobs[i].Strays || e.o.Strays
	}
	return e.sched.Submit(ctx, jobs...)
}

// named adds the model's file to an error about its weights or its numbers.
func (e *Engine) named(err error) error {
	var odd *NotNumbers
	switch {
	case errors.As(err, &odd):
		return fmt.Errorf("%s: %w: %w", e.Path, ErrLogits, err)
	case errors.Is(err, ErrLogits):
		return fmt.Errorf("%s: %w behind the attention of layer %d, the last one", e.Path, err, e.Config().Layers-1)
	case errors.Is(err, backend.ErrDamaged):
		return fmt.Errorf("%s: %w", e.Path, err)
	}
	return err
}

// checkTokens rejects ids outside the vocabulary.
func (m *Model) checkTokens(tokens []llm.Token) error {
	for i, t := range tokens {
		if t < 0 || int(t) >= m.Config().Vocab {
			return fmt.Errorf("token %d at position %d is not in the vocabulary of %d", t, i, m.Config().Vocab)
		}
	}
	return nil
}
