package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"godwit/engine/backend"
	"godwit/engine/calibrate"
	"godwit/engine/kv/layout"
	"godwit/engine/sched"
)

// Calibrator returns the calibrator that measures the model and saves its calibrations.
func (m *Model) Calibrator() *calibrate.Model {
	id := m.identity()
	return &calibrate.Model{
		Config: m.Config(), ID: hex.EncodeToString(id[:]), Bytes: m.File.Size(),
		Layers: m.Layers, Tokenizer: m.Tokenizer, Compile: m.compileTrial,
	}
}

// compileTrial compiles the model for a measurement.
func (m *Model) compileTrial(ctx context.Context, b backend.Backend, n, rows int, s layout.Settings) (*calibrate.Program, error) {
	p, err := m.Prepare(Options{Context: n, Parallel: 1, UBatch: rows, KV: s}, 0)
	if err != nil {
		return nil, err
	}
	c, err := p.compile(ctx, b, p.Sizes)
	if err != nil {
		return nil, err
	}
	return &calibrate.Program{Program: c.prog, Cache: c.cache, Bytes: p.Layout.Bytes(), Sched: sched.Options{
		Context: n, Rows: p.Sizes.Rows, Outputs: p.Sizes.Outputs, Vocab: p.width(), StateModel: len(p.graph.States) > 0,
	}}, nil
}

// measured is the result of the measurements for a load's cache.
type measured struct {
	cache    layout.Settings           // cache settings with the calibration and the tables of InnerQ
	progress func(share float64) error // progress of the rest of the load; may be nil
}

// measure measures the calibration that the cache types of the options need, or
// reads it from the folder of calibrations.
func (x *opened) measure(ctx context.Context, o Options) (*measured, error) {
	w, err := x.calibrate(ctx, o)
	if err == nil {
		err = x.equaliseKeys(ctx, o, w)
	}
	return w, err
}

// smallest returns the options with the given cache settings and a context of at
// most MinContext tokens. They only serve to find out which cache types a load uses.
func (m *Model) smallest(o Options, cache layout.Settings) Options {
	o.Context, o.Cells, o.KV = min(m.Config().Context, MinContext), 0, cache
	o.KV.Memory = 0 // the given limit may be too small for this context, and does not affect the types
	return o
}

// anyLayer reports whether ok holds for a layer with a cache of its own, in the
// layout that a load with these options gets.
func (m *Model) anyLayer(o Options, ok func(y *layout.Layer) bool) (bool, error) {
	p, err := m.Prepare(m.smallest(o, o.KV), 0)
	if err != nil {
		return false, err
	}
	for i := range p.Layout.Layers {
		if y := &p.Layout.Layers[i]; y.Owns() && ok(y) {
			return true, nil
		}
	}
	return false, nil
}

// calibrate returns the cache settings with the calibration that the cache types
// need, either a saved one or a new one. If measuring is not allowed, conversations
// calibrate themselves, or the layout uses types that need no calibration.
func (x *opened) calibrate(ctx context.Context, o Options) (*measured, error) {
	m := x.model
	w := &measured{cache: o.KV, progress: o.Progress}
	if o.KV.Calibration != nil || m.Config().Embedding {
		return w, nil
	}
	auto := o.KV.AutoBits > 0
	if want, err := m.anyLayer(o, func(y *layout.Layer) bool { return !y.MLA && y.K.Active.Normalised }); err != nil || !want && !auto {
		return w, err
	}
	c, err := x.kept(o.Calibrations)
	if err != nil {
		return nil, err
	}
	if c != nil && (!auto || c.Sensed()) {
		w.cache.Calibration = c
		return w, nil
	}
	without := &measured{cache: o.KV, progress: o.Progress}
	without.cache.Calibration, without.cache.Uncalibrated, without.cache.SelfCalibrate = c, true, true
	if o.NoCalibration {
		return without, nil
	}
	if o.CalibrateLater {
		// Strict types may not allow a load without a calibration.
		without.cache.CalibratedLater = true
		if _, err := m.Prepare(m.smallest(o, without.cache), 0); err == nil {
			return without, nil
		}
	}
	progress := o.Measuring
	switch load := o.Progress; {
	case progress != nil:
	case load != nil:
		progress = func(share float64) error { return load(share / 2) }
		w.progress = func(share float64) error { return load(0.5 + share/2) }
	default:
		progress = func(float64) error { return ctx.Err() }
	}
	x.log.Info("calibrating the KV cache", "model", m.Config().Name)
	w.cache.Calibration, err = m.calibrate(ctx, o, calibrate.Options{Calibration: c, Log: x.log, Progress: progress})
	return w, err
}

// equaliseKeys adds the tables of InnerQ if the options request them. They are
// measured on the built-in text before the cache is laid out, so that they do not
// depend on the first request.
func (x *opened) equaliseKeys(ctx context.Context, o Options, w *measured) error {
	m, s := x.model, &w.cache
	if s.InnerQ.Groups == 0 || s.Equalised != nil || m.Config().Embedding {
		return nil
	}
	o.KV = *s
	if want, err := m.anyLayer(o, func(y *layout.Layer) bool { return y.K.Equalised }); err != nil || !want {
		return err
	}
	tables, heads, err := m.Calibrator().Equalise(ctx, s.InnerQ, backend.Options{Threads: o.Threads, NoRepack: o.NoRepack})
	if err != nil {
		return fmt.Errorf("innerq: %w", err)
	}
	s.Equalised = tables
	x.log.Info("key channels equalised by InnerQ", "heads", heads, "model", m.Config().Name)
	return nil
}

// calibrate measures the calibration that the options need and saves it.
func (m *Model) calibrate(ctx context.Context, o Options, how calibrate.Options) (*layout.Calibration, error) {
	how.Threads, how.NoRepack, how.Sense, how.Partial = o.Threads, o.NoRepack, o.KV.AutoBits > 0, o.Calibrations
	measure := m.Calibrator()
	c, err := measure.Measure(ctx, how)
	switch {
	case errors.Is(err, calibrate.ErrNotFinite): // c still has the calibrated channels, and a load does not check predictions
		how.Log.Warn("cache sensitivity not measured", "err", err)
	case err != nil:
		return nil, err
	}
	if o.Calibrations == "" {
		return c, nil
	}
	if err := measure.Save(o.Calibrations, c); err != nil {
		how.Log.Warn("calibration not saved", "err", err)
	}
	return c, nil
}

// backgroundRows is the number of tokens in a step of a background calibration. Steps are
// small so that it can pause or stop quickly.
const backgroundRows = 64

// Unmeasured reports whether [CalibrateFile] still has to measure a calibration for this
// model. Only a later load uses it, because the form of a cache does not change while
// the model is loaded.
func (e *Engine) Unmeasured() bool { return e.p.Options.KV.CalibratedLater }

// CalibrateFile measures the calibration that a load with these options left for later,
// and saves it in the folder of the options. It computes nothing while progress blocks.
func CalibrateFile(ctx context.Context, path string, o Options, progress func(share float64) error) error {
	m, err := OpenModel(path)
	if err != nil {
		return err
	}
	if err = m.adapt(o.LoRA); err == nil {
		log := o.Log
		if log == nil {
			log = slog.New(slog.DiscardHandler)
		}
		known, kept := m.Calibrator().Read(o.Calibrations)
		if kept != nil { // no usable calibration was saved
			known = nil
		}
		_, err = m.calibrate(ctx, o, calibrate.Options{Calibration: known, Rows: backgroundRows, Log: log, Progress: progress})
	}
	return errors.Join(err, m.Close())
}

// kept returns the calibration in the folder, or nil if it is missing or cannot
// be used.
func (x *opened) kept(folder string) (*layout.Calibration, error) {
	if folder == "" {
		return nil, nil
	}
	c, err := x.model.Calibrator().Read(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, layout.ErrCalibration):
		x.log.Warn("calibration ignored", "err", err)
		return nil, nil
	}
	return c, err
}

// WithCalibration returns the options of a plan with the calibration that a load
// would find, or with the settings that a load uses without one. The error
// layout.ErrCalibration reports that the saved calibration cannot be used. The options
// are valid even then.
func (m *Model) WithCalibration(o Options) (Options, error) {
	o.KV.Uncalibrated, o.KV.CalibratedLater = o.NoCalibration || o.CalibrateLater, o.CalibrateLater && !o.NoCalibration
	o.KV.SelfCalibrate = true
	if o.KV.Calibration != nil || o.Calibrations == "" {
		return o, nil
	}
	c, err := m.Calibrator().Read(o.Calibrations)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o, nil
	case err == nil:
		o.KV.Calibration = c
	}
	return o, err
}
