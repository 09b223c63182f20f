// Package calibrate measures, on the CPU, the properties of a model that cache types depend on:
// the channels of its keys, the sensitivity of each cache, and the tables of InnerQ. It also
// stores the results in files and continues a run that was killed.
package calibrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/eval/corpus"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/model"
	"godwit/engine/sched"
	"godwit/engine/tokenizer"
)

// Model is an opened model, as far as a measurement needs it.
type Model struct {
	Config    *model.Config
	ID        string // hash of the file and its adapters, in hexadecimal
	Bytes     int64  // size of the file
	Layers    func(ctx int) ([]layout.LayerInfo, error)
	Tokenizer func() (*tokenizer.Tokenizer, error)
	// Compile makes a program for one sequence of n tokens, in steps of at most rows tokens, with a
	// cache that has the settings s.
	Compile func(ctx context.Context, b backend.Backend, n, rows int, s layout.Settings) (*Program, error)
}

// Program is a compiled model with its own cache.
type Program struct {
	backend.Program
	Cache *pages.Cache
	Bytes int64 // size of the cache
	Sched sched.Options
}

// DefaultRows is the number of tokens of one step.
const DefaultRows = 512

// The tokens for a calibration: a long text for the channels of the keys, and
// short runs for the sensitivity of the caches. Source: spec gw-formats.md.
const (
	calibrationTokens = 4096 // largest number of tokens for the channels
	senseTokens       = 512
	keyParts          = 4   // number of parts of the text; progress is saved after each
	calibrationSinks  = 4   // number of leading tokens to ignore, because their keys are unlike all others
	senseRows         = 128 // number of positions whose predictions are compared
)

// enoughTokens returns the number of tokens for the channels of a model, by the size of its file.
// Large models are slow and get fewer tokens, but still enough for long conversations (docs/gw.md).
func enoughTokens(bytes int64) int {
	if bytes < 1<<30 {
		return calibrationTokens
	}
	return calibrationTokens / 2
}

// builtinText alternates dialogue and code. After the first round it adds every other kind of text.
// A calibration on only one kind would be worse for all others.
func builtinText() (string, error) {
	const turn = 1500 // length of a piece, in characters
	var err error
	read := func(name string) []rune {
		text, e := corpus.Text(name)
		err = errors.Join(err, e)
		return []rune(text)
	}
	talk, code := read("dialogue"), read("code")
	var out []rune
	some := func(from []rune, n int) []rune {
		n = min(n, len(from))
		out = append(append(out, from[:n]...), '\n', '\n')
		return from[n:]
	}
	for len(talk) > 0 && len(code) > 0 {
		first := len(out) == 0
		talk, code = some(talk, turn), some(code, turn)
		talk = some(talk, turn)
		if first {
			some(read("table"), 400)
			for _, name := range []string{"chinese", "arabic", "korean"} {
				some(read(name), 200)
			}
		}
	}
	return string(out), err
}

// dialogue returns the text for the sensitivity of the caches. It has only one kind of text. The
// mixed text may change its kind within a short run, and that change would dominate the result
// (docs/gw.md).
func dialogue() (string, error) { return corpus.Text("dialogue") }

// Options control a measurement.
type Options struct {
	Threads  int
	NoRepack bool
	Rows     int         // tokens per step; 0 means DefaultRows. Small steps can be cancelled sooner and give the same result
	Tokens   []llm.Token // text to measure on; nil for the built-in texts
	Sense    bool        // also measure the sensitivity of the caches, with two short runs per layer
	// Calibration contains the channels if they are already measured. If it is
	// nil, they are measured.
	Calibration *layout.Calibration
	// Partial is the folder for unfinished calibrations, which a later run continues. If it is
	// empty, they are not saved.
	Partial string
	Log     *slog.Logger // nil for no log
	// Progress is called with the share of the work that is done, from 0 to 1. An error cancels the
	// measurement. Nothing is computed while Progress runs.
	Progress func(share float64) error
	Work     *Work // counts what is computed; may be nil
}

// Work counts what this run of a calibration has computed. It does not include the results of an
// earlier run.
type Work struct {
	Tokens int // number of tokens whose keys were read
	Runs   int // number of runs over a text, for comparing predictions
}

// run is one calibration of a model.
type run struct {
	*Model
	Options
	layers []layout.LayerInfo
	talk   []llm.Token // text on which the sensitivities are measured
	input  string      // digest of the tokens
	failed bool        // a failure to save progress was logged
}

// Measure measures the key channels of a model on the CPU and, with Sense, the sensitivity of each
// cache.
func (m *Model) Measure(ctx context.Context, o Options) (*layout.Calibration, error) {
	c, err := m.newRun(o)
	if err != nil {
		return nil, err
	}
	old := c.resume()
	defer old.close() //nolint:errcheck // the file was only read
	keys := 1.0
	if o.Sense {
		keys = 0.1
	}
	out := c.Calibration
	if out != nil {
		out = withoutSense(out)
	}
	if out == nil && old != nil {
		out = old.whole
	}
	if out == nil {
		if out, err = c.readKeys(ctx, old, keys); err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
	}
	if !o.Sense {
		return out, nil
	}
	return out, c.sense(ctx, out, old, func(share float64) error { return c.Progress(keys + (1-keys)*share) })
}

func (m *Model) newRun(o Options) (*run, error) {
	if o.Progress == nil {
		o.Progress = func(float64) error { return nil }
	}
	if o.Work == nil {
		o.Work = new(Work)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Rows == 0 {
		o.Rows = DefaultRows
	}
	talk := o.Tokens
	if o.Tokens == nil {
		var err error
		if o.Tokens, err = m.builtinTokens(builtinText); err != nil {
			return nil, err
		}
		if talk, err = m.builtinTokens(dialogue); err != nil {
			return nil, err
		}
	}
	talk = talk[:min(len(talk), senseTokens, max(m.Config.Context, 1))]
	o.Tokens = o.Tokens[:min(len(o.Tokens), enoughTokens(m.Bytes), max(m.Config.Context, 1))]
	if err := m.Config.CheckTokens(o.Tokens); err != nil {
		return nil, err
	}
	layers, err := m.Layers(len(o.Tokens))
	return &run{Model: m, Options: o, layers: layers, talk: talk, input: inputDigest(o.Tokens, talk)}, err
}

// readKeys measures the channels, and saves its progress after each part.
func (c *run) readKeys(ctx context.Context, old *partial, whole float64) (*layout.Calibration, error) {
	stats := newHeadStats(c.layers)
	b, err := cpu.Driver{Heads: stats.add}.Open(0, backend.Options{Threads: c.Threads, NoRepack: c.NoRepack})
	if err != nil {
		return nil, err
	}
	total := len(c.Tokens)
	part := max((total/keyParts+kv.PageCells-1)/kv.PageCells*kv.PageCells, kv.PageCells)
	err = c.try(ctx, b, total, c.Rows, layout.Settings{}, func(t *trial) error {
		done := old.resumeKeys(ctx, t, stats, c.Tokens)
		if done > 0 {
			c.Log.Info("calibration resumed", "tokens", done)
		}
		observe := func(n int, _ *sched.Stats) { t.cancel(c.Progress(whole * float64(n) / float64(total))) }
		for done < total {
			stats.from = max(calibrationSinks, done)
			next := min(done+part, total)
			if err := t.run(sched.Job{Prompt: c.Tokens[:next], Prefilled: observe, Fresh: done == 0}); err != nil {
				return err
			}
			c.Work.Tokens += next - done
			if done = next; done < total {
				c.keepKeys(ctx, t, stats, done)
			}
		}
		return nil
	})
	if err := errors.Join(err, b.Close()); err != nil {
		return nil, err
	}
	out := stats.calibration(c.ID, total)
	c.keep(&partial{whole: out}, nil)
	return out, nil
}

// builtinTokens returns the tokens of a built-in text. For a file without a tokenizer it returns
// pseudo-random tokens, which are always the same.
func (m *Model) builtinTokens(read func() (string, error)) ([]llm.Token, error) {
	t, err := m.Tokenizer()
	if err == nil {
		text, err := read()
		if err != nil {
			return nil, err
		}
		if ids := t.EncodeText(text, true, false); len(ids) > 0 {
			return ids, nil
		}
	}
	ids := make([]llm.Token, calibrationTokens)
	for i, x := 0, uint32(1); i < len(ids); i++ {
		x = x*1664525 + 1013904223
		ids[i] = llm.Token(x >> 8 % uint32(max(m.Config.Vocab, 1)))
	}
	return ids, nil
}

// trial is a program with its own cache, for measurements.
type trial struct {
	cells int64 // bytes of the cache
	sched *sched.Sched
	stop  context.CancelCauseFunc
	ctx   context.Context
}

// cancel ends the run in progress if err is not nil.
func (t *trial) cancel(err error) {
	if err != nil {
		t.stop(err)
	}
}

// run runs a job to its end.
func (t *trial) run(j sched.Job) error {
	done := make(chan error, 1)
	j.Slot = -1
	j.Done = func(_ sched.Finish, _ sched.Stats, err error) { done <- err }
	if err := t.sched.Submit(t.ctx, j); err != nil {
		return err
	}
	err := <-done
	if cause := context.Cause(t.ctx); cause != nil {
		return cause
	}
	return err
}

// try compiles the model for one sequence of n tokens, in steps of rows tokens, and calls f.
func (m *Model) try(ctx context.Context, b backend.Backend, n, rows int, s layout.Settings, f func(t *trial) error) (err error) {
	p, err := m.Compile(ctx, b, n, rows, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	t := &trial{cells: p.Bytes, sched: sched.New(p.Program, p.Cache, p.Sched)}
	defer t.sched.Close()
	t.ctx, t.stop = context.WithCancelCause(ctx)
	defer t.stop(nil)
	return f(t)
}
