package engine

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"godwit/engine/kv"
)

// smallest is the options with a context that every model has, for questions about
// the cache types of a load.
func (m *Model) smallest(o Options) Options {
	o.Context, o.Cells = min(m.Config().Context, MinContext), 0
	return o
}

// anyLayer reports whether ok holds for a layer with a cache of its own, in the
// layout that a load with these options gets.
func (m *Model) anyLayer(o Options, ok func(y *kv.LayerLayout) bool) (bool, error) {
	p, err := m.Prepare(m.smallest(o), 0)
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

// calibrate returns the settings of the cache with the calibration that the cache
// types need, one that is kept or a new one, and the progress of what is left of
// the load. Where nothing may be measured the layout takes safe types.
func (x *opened) calibrate(ctx context.Context, o *Options) (kv.Settings, func(float64) error, error) {
	s, load, m := o.KV, o.Progress, x.model
	if s.Calibration != nil || m.Config().Embedding {
		return s, load, nil
	}
	auto := s.AutoBits > 0
	if want, err := m.anyLayer(*o, func(y *kv.LayerLayout) bool { return !y.MLA && y.K.Active.Normalised }); err != nil || !want && !auto {
		return s, load, err
	}
	c, err := x.kept(o.Calibrations)
	if err != nil {
		return s, load, err
	}
	if c != nil && (!auto || c.Sensed()) {
		s.Calibration = c
		return s, load, nil
	}
	without := s
	without.Calibration, without.Uncalibrated, without.SelfCalibrate = c, true, true
	if o.NoCalibration {
		return without, load, nil
	}
	if o.CalibrateLater {
		// Strict types may allow no load without a calibration.
		without.CalibratedLater = true
		with := m.smallest(*o)
		with.KV = without
		if _, err := m.Prepare(with, 0); err == nil {
			return without, load, nil
		}
	}
	measured, rest := o.Measuring, load
	switch {
	case measured != nil:
	case load != nil:
		measured = func(share float64) error { return load(share / 2) }
		rest = func(share float64) error { return load(0.5 + share/2) }
	default:
		measured = func(float64) error { return ctx.Err() }
	}
	x.log.Info("measuring the keys, once for this model", "model", m.Config().Name)
	s.Calibration, err = m.measure(ctx, o, CalibrateOptions{Calibration: c, Log: x.log, Progress: measured})
	return s, rest, err
}

// measure measures what the cache types of the options need, and keeps it.
func (m *Model) measure(ctx context.Context, o *Options, how CalibrateOptions) (*kv.Calibration, error) {
	how.Threads, how.NoRepack, how.Sense, how.Partial = o.Threads, o.NoRepack, o.KV.AutoBits > 0, o.Calibrations
	c, err := m.Calibrate(ctx, how)
	switch {
	case errors.Is(err, errNotFinite): // the channels exist; loading does not judge models
		how.Log.Warn("how much each cache matters cannot be measured", "err", err)
	case err != nil:
		return nil, err
	}
	if o.Calibrations == "" {
		return c, nil
	}
	if err := m.SaveCalibration(o.Calibrations, c); err != nil {
		how.Log.Warn("the calibration could not be kept", "err", err)
	}
	return c, nil
}

// backgroundRows is how many tokens a calibration beside other work reads at once:
// it makes way, and ends, within a step.
const backgroundRows = 64

// Unmeasured reports whether the load has left a calibration to be measured later,
// by [CalibrateFile]. Only a load after that uses it: the form of a cache does not
// change while the model is loaded.
func (e *Engine) Unmeasured() bool { return e.p.Options.KV.CalibratedLater }

// CalibrateFile measures what a load of a model with these options has left for
// later, and keeps it in the folder of the options. While progress does not return
// nothing is computed.
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
		known, kept := m.Calibration(o.Calibrations)
		if kept != nil { // nothing usable was kept
			known = nil
		}
		_, err = m.measure(ctx, &o, CalibrateOptions{Calibration: known, Rows: backgroundRows, Log: log, Progress: progress})
	}
	return errors.Join(err, m.Close())
}

// kept is the calibration in the folder; nil without one, or with one that
// cannot be used.
func (x *opened) kept(folder string) (*kv.Calibration, error) {
	if folder == "" {
		return nil, nil
	}
	c, err := x.model.Calibration(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, kv.ErrCalibration):
		x.log.Warn("calibration ignored", "err", err)
		return nil, nil
	}
	return c, err
}
