package engine

import (
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/kv"
	"godwit/engine/llm"
	"godwit/engine/model"
	"godwit/engine/sched"
)

// What a calibration is measured on: tokens for the channels of the keys, and
// short runs for the sensitivity of the caches.
// Source: spec gw-formats.md.
const (
	calibrationTokens = 4096 // at most
	senseTokens       = 512
	calibrationSinks  = 4   // first tokens, whose keys are unlike all others
	senseRows         = 128 // positions whose predictions are compared
)

// enoughTokens is how many tokens the channels of a model file of some bytes
// are measured on: fewer where its size makes each of them slow, but not so few
// that longer conversations suffer (docs/gw.md).
func enoughTokens(bytes int64) int {
	if bytes < 1<<30 {
		return calibrationTokens
	}
	return calibrationTokens / 2
}

// corpus has texts of the kinds that the quality lab knows, but for prose, on
// which its figures are quoted.
//
//go:embed eval/corpus/dialogue.txt eval/corpus/code.txt eval/corpus/table.txt
//go:embed eval/corpus/chinese.txt eval/corpus/arabic.txt eval/corpus/korean.txt
var corpus embed.FS

// builtinText is dialogue and code by turns, with some of every other kind
// after the first round. One kind alone makes a calibration that others have to
// pay for.
func builtinText() (string, error) {
	const turn = 1500 // characters
	var err error
	read := func(name string) []rune {
		text, e := corpus.ReadFile("eval/corpus/" + name + ".txt")
		err = errors.Join(err, e)
		return []rune(string(text))
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

// dialogue is what the caches are measured on: one flow of words. Where the mixed text
// changes its kind within a short run, that change decides (docs/gw.md).
func dialogue() (string, error) {
	text, err := corpus.ReadFile("eval/corpus/dialogue.txt")
	return string(text), err
}

// CalibrationPath is where a calibration of the model is kept in a folder.
func (m *Model) CalibrationPath(dir string) string {
	id := m.identity()
	return filepath.Join(dir, hex.EncodeToString(id[:16])+".calibration")
}

// Calibration reads the model's calibration from a folder. Without one the
// error is fs.ErrNotExist; kv.ErrCalibration says that it cannot be used.
func (m *Model) Calibration(dir string) (*kv.Calibration, error) {
	layers, err := m.Layers(m.Config().Context)
	if err != nil {
		return nil, err
	}
	path := m.CalibrationPath(dir)
	c, err := readCalibration(path)
	if err == nil {
		id := m.identity()
		err = c.Check(hex.EncodeToString(id[:]), layers)
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return c, err
	case !errors.Is(err, kv.ErrCalibration): // it is there and cannot be read
		err = fmt.Errorf("%w: %w", kv.ErrCalibration, err)
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// readCalibration reads a file, which has to be an ordinary one: a pipe would
// block.
func readCalibration(path string) (*kv.Calibration, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is no ordinary file (%s)", kv.ErrCalibration, info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return kv.ReadCalibration(f)
}

// UseCalibration gives a plan the calibration that a load with these options
// would find, if there is one yet, and says what the load does without.
// kv.ErrCalibration says that the one there cannot be used.
func (m *Model) UseCalibration(o *Options) error {
	o.KV.Uncalibrated = o.NoCalibration
	o.KV.SelfCalibrate = true
	if o.KV.Calibration != nil || o.Calibrations == "" {
		return nil
	}
	c, err := m.Calibration(o.Calibrations)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		o.KV.Calibration = c
	}
	return err
}

// SaveCalibration puts a calibration into a folder, which is made if need be.
func (m *Model) SaveCalibration(dir string, c *kv.Calibration) error {
	tmp, err := writeCalibration(dir, c)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, m.CalibrationPath(dir)); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// CanSaveCalibration finds out whether SaveCalibration will work, since what it
// saves takes minutes to measure: it writes as much and removes it again.
func (m *Model) CanSaveCalibration(dir string) error {
	layers, err := m.Layers(m.Config().Context)
	if err != nil {
		return err
	}
	id := m.identity()
	c := newHeadStats(layers).calibration(hex.EncodeToString(id[:]), calibrationTokens)
	for i := range c.Layers {
		c.Layers[i].SenseK, c.Layers[i].SenseV = math.Pi, math.Pi // as many digits
	}
	tmp, err := writeCalibration(dir, c)
	if err != nil {
		return err
	}
	if err := os.Remove(tmp); err != nil {
		return err
	}
	path := m.CalibrationPath(dir)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", path)
	}
	return nil
}

// writeCalibration writes a calibration to a new file of a folder, all the way
// to the disk, and returns its name.
func writeCalibration(dir string, c *kv.Calibration) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return "", err
	}
	if err = c.Write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// CalibrateOptions say how a model is measured.
type CalibrateOptions struct {
	Threads  int
	NoRepack bool
	Tokens   []llm.Token // nil: those of built-in texts
	Sense    bool        // also how much each cache matters: two short runs a layer
	// Progress is told how far things are, from 0 to 1; an error cancels.
	Progress func(share float64) error
}

// Calibrate measures on the processor how the keys of a model lie in their
// channels, and, where that is asked for, how much each cache matters.
func (m *Model) Calibrate(ctx context.Context, o CalibrateOptions) (*kv.Calibration, error) {
	if o.Progress == nil {
		o.Progress = func(float64) error { return nil }
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
	talk = talk[:min(len(talk), senseTokens, max(m.Config().Context, 1))]
	o.Tokens = o.Tokens[:min(len(o.Tokens), enoughTokens(m.File.Size()), max(m.Config().Context, 1))]
	if err := m.checkTokens(o.Tokens); err != nil {
		return nil, err
	}
	layers, err := m.Layers(len(o.Tokens))
	if err != nil {
		return nil, err
	}
	stats := newHeadStats(layers)
	b, err := cpu.Driver{Heads: stats.add}.Open(0, backend.Options{Threads: o.Threads, NoRepack: o.NoRepack})
	if err != nil {
		return nil, err
	}
	whole := 1.0
	if o.Sense {
		whole = 0.1
	}
	err = m.try(ctx, b, len(o.Tokens), kv.Settings{}, func(t *trial) error {
		read := func(_, done, total int) { t.cancel(o.Progress(whole * float64(done) / float64(total))) }
		return t.run(sched.Job{Prompt: o.Tokens, Prefilled: read})
	})
	if err := errors.Join(err, b.Close()); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	id := m.identity()
	c := stats.calibration(hex.EncodeToString(id[:]), len(o.Tokens))
	if o.Sense {
		err = m.sense(ctx, c, layers, talk, o, func(share float64) error { return o.Progress(whole + (1-whole)*share) })
	}
	return c, err
}

// builtinTokens are those of a built-in text; for a file without a tokenizer some of
// the vocabulary, the same each time.
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
		ids[i] = llm.Token(x >> 8 % uint32(max(m.Config().Vocab, 1)))
	}
	return ids, nil
}

// headStats gathers statistics over the rows of all layers.
type headStats struct {
	layers []kv.LayerInfo
	from   int                  // first position that counts
	heads  [][]*kv.ChannelStats // [layer][KV head]
}

func newHeadStats(layers []kv.LayerInfo) *headStats {
	s := &headStats{layers: layers, from: calibrationSinks, heads: make([][]*kv.ChannelStats, len(layers))}
	for i := range layers {
		in := &layers[i]
		if !in.Cached || in.Share >= 0 || in.MLA {
			continue
		}
		for range in.KVHeads {
			s.heads[i] = append(s.heads[i], kv.NewChannelStats(in.HeadDimK, in.Rotary))
		}
	}
	return s
}

// add counts a row of a layer. Queries of a layer that reads another's keys
// count there.
func (s *headStats) add(layer, pos int, q, k []float32) {
	if pos < s.from {
		return
	}
	in := &s.layers[layer]
	own := layer
	if k == nil && in.Share >= 0 {
		own = in.Share
	}
	heads := s.heads[own]
	if heads == nil {
		return
	}
	d, group := in.HeadDimK, in.Heads/in.KVHeads
	for h := range in.Heads {
		heads[h/group].AddQuery(pos, q[h*d:(h+1)*d])
	}
	for h := range len(k) / d {
		heads[h].AddKey(pos, k[h*d:(h+1)*d])
	}
}

func (s *headStats) calibration(model string, tokens int) *kv.Calibration {
	c := &kv.Calibration{Model: model, Tokens: tokens, Layers: make([]kv.LayerCalibration, len(s.layers))}
	for i, heads := range s.heads {
		for _, h := range heads {
			c.Layers[i].Keys = append(c.Layers[i].Keys, h.Moments())
		}
	}
	return c
}

// trial is a program with a cache of its own, for measurements.
type trial struct {
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
	j.Slot, j.Fresh = -1, true
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

// try compiles the model for one sequence of n tokens and calls f.
func (m *Model) try(ctx context.Context, b backend.Backend, n int, s kv.Settings, f func(t *trial) error) (err error) {
	p, err := m.plan(model.Inputs{Context: n})
	if err != nil {
		return err
	}
	s.Cells, s.Seqs, s.UBatch = n, 1, min(n, DefaultUBatch)
	layout, err := m.Layout(n, kv.Want{}, "", s)
	if err != nil {
		return err
	}
	sizes := backend.Sizes{Rows: s.UBatch, Outputs: outputs, Slots: layout.StateSlots()}
	for _, g := range layout.Groups {
		sizes.Pages = append(sizes.Pages, g.Pages)
	}
	prog, err := b.Compile(ctx, p, &layout, sizes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prog.Close()) }()
	cache, err := kv.New(&layout, kv.Options{Copier: prog})
	if err != nil {
		return err
	}
	t := &trial{sched: sched.New(prog, cache, sched.Options{
		Context: n, Rows: sizes.Rows, Outputs: sizes.Outputs, Vocab: p.Values[p.Output].Width, StateModel: len(p.States) > 0,
	})}
	defer t.sched.Close()
	t.ctx, t.stop = context.WithCancelCause(ctx)
	defer t.stop(nil)
	return f(t)
}

// levelled reports whether a layout of this model wants a calibration.
func (m *Model) levelled(o *Options) (bool, error) {
	l, err := m.Layout(min(m.Config().Context, MinContext), o.Want, o.Preset, o.KV)
	if err != nil {
		return false, err
	}
	for i := range l.Layers {
		if y := &l.Layers[i]; y.Owns() && !y.MLA && y.K.Active.Levelled {
			return true, nil
		}
	}
	return false, nil
}

// calibrate finds the calibration that the cache types want: what is kept, or
// a new one. Where none is to be measured the layout takes safe types.
func (e *Engine) calibrate(ctx context.Context) error {
	o := &e.o
	if o.KV.Calibration != nil || e.Config().Embedding {
		return nil
	}
	auto := o.KV.AutoBits > 0
	if want, err := e.levelled(o); err != nil || !want && !auto {
		return err
	}
	c, err := e.kept()
	if err != nil {
		return err
	}
	if c != nil && (!auto || c.Sensed()) {
		o.KV.Calibration = c
		return nil
	}
	if o.NoCalibration {
		o.KV.Calibration, o.KV.Uncalibrated = c, true
		o.KV.SelfCalibrate = true
		return nil
	}
	e.log.Info("measuring the channels of the keys, once for this model", "model", e.Config().Name)
	load := o.Progress
	first := func(share float64) error {
		if load == nil {
			return ctx.Err()
		}
		return load(share / 2)
	}
	c, err = e.Calibrate(ctx, CalibrateOptions{Threads: o.Threads, NoRepack: o.NoRepack, Sense: auto, Progress: first})
	switch {
	case errors.Is(err, errNotFinite): // the channels are there; a load is no judge of models
		e.log.Warn("how much each cache matters cannot be measured", "err", err)
	case err != nil:
		return err
	}
	if load != nil {
		o.Progress = func(share float64) error { return load(0.5 + share/2) }
	}
	o.KV.Calibration = c
	if o.Calibrations == "" {
		return nil
	}
	if err := e.SaveCalibration(o.Calibrations, c); err != nil {
		e.log.Warn("the calibration could not be kept", "err", err)
	}
	return nil
}

// kept is the calibration in the folder; nil without one, or with one that
// cannot be used.
func (e *Engine) kept() (*kv.Calibration, error) {
	if e.o.Calibrations == "" {
		return nil, nil
	}
	c, err := e.Calibration(e.o.Calibrations)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, kv.ErrCalibration):
		e.log.Warn("calibration ignored", "err", err)
		return nil, nil
	}
	return c, err
}

// sense measures the divergence from f16 of the model with one cache at a
// time at the least bits, everything else as it will be.
func (m *Model) sense(ctx context.Context, c *kv.Calibration, layers []kv.LayerInfo, tokens []llm.Token, o CalibrateOptions, progress func(float64) error) error {
	b, err := cpu.Driver{}.Open(0, backend.Options{Threads: o.Threads, NoRepack: o.NoRepack})
	if err != nil {
		return err
	}
	runs, done := 1, 0
	for i := range layers {
		if l := &layers[i]; l.Cached && l.Share < 0 {
			runs += 2
		}
	}
	var base []float32
	err = m.try(ctx, b, len(tokens), kv.Settings{}, func(t *trial) error {
		var err error
		if base, err = t.logits(tokens); err != nil {
			return err
		}
		for i := range layers {
			in := &layers[i]
			if !in.Cached || in.Share >= 0 {
				continue
			}
			for _, s := range []kv.Side{kv.K, kv.V} {
				if s == kv.V && in.MLA {
					continue
				}
				done++
				if err := progress(float64(done) / float64(runs)); err != nil {
					return err
				}
				to := &c.Layers[i].SenseK
				if s == kv.V {
					to = &c.Layers[i].SenseV
				}
				set := kv.Settings{Calibration: c, Span: span(m.Config().Context), Each: kv.Probe(layers, i, s), SWABypass: kv.Off, AutoAsymmetric: kv.Off}
				err := m.try(ctx, b, len(tokens), set, func(t *trial) error {
					got, err := t.logits(tokens)
					if err == nil {
						*to, err = meanKL(base, got, m.Config().Vocab)
					}
					return err
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return errors.Join(err, b.Close())
}

// logits are the predictions that are compared: every second one of the end.
func (t *trial) logits(tokens []llm.Token) ([]float32, error) {
	var out []float32
	first := max(len(tokens)-2*senseRows, len(tokens)/2)
	err := t.run(sched.Job{
		Prompt: tokens,
		Want:   func(pos int) bool { return pos >= first && (len(tokens)-1-pos)%2 == 0 },
		Row: func(_ int, row []float32) error {
			out = append(out, row...)
			return nil
		},
	})
	return out, err
}

var errNotFinite = errors.New("the model's predictions are not finite")

// meanKL is the mean of KL(a || b) over rows of logits, in nats.
func meanKL(a, b []float32, vocab int) (float64, error) {
	var total float64
	rows := len(a) / vocab
	for r := range rows {
		p, q := a[r*vocab:(r+1)*vocab], b[r*vocab:(r+1)*vocab]
		zp, zq := logSum(p), logSum(q)
		for i := range p {
			lp := float64(p[i]) - zp
			if w := math.Exp(lp); w > 0 {
				total += w * (lp - float64(q[i]) + zq)
			}
		}
	}
	total /= float64(max(rows, 1))
	if math.IsNaN(total) || math.IsInf(total, 0) {
		return 0, errNotFinite
	}
	return max(total, 0), nil
}

// logSum is log Σ e^x.
func logSum(x []float32) float64 {
	top := float64(slices.Max(x))
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}
