package engine

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"godwit/engine/kv"
)

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

// calibrate finds the calibration that the cache types need: what is kept, or
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
	without := o.KV
	without.Calibration, without.Uncalibrated, without.SelfCalibrate = c, true, true
	if o.NoCalibration {
		o.KV = without
		return nil
	}
	if o.CalibrateLater {
		// Strict types may allow no load without a calibration.
		without.CalibratedLater = true
		if _, err := e.Layout(min(e.Config().Context, MinContext), o.Want, o.Preset, without); err == nil {
			o.KV, e.unmeasured = without, true
			return nil
		}
	}
	measured, load := o.Measuring, o.Progress
	switch {
	case measured != nil:
	case load != nil:
		measured = func(share float64) error { return load(share / 2) }
		o.Progress = func(share float64) error { return load(0.5 + share/2) }
	default:
		measured = func(float64) error { return ctx.Err() }
	}
	e.log.Info("measuring the keys, once for this model", "model", e.Config().Name)
	o.KV.Calibration, err = e.measure(ctx, o, CalibrateOptions{Calibration: c, Log: e.log, Progress: measured})
	return err
}

// measure measures what the cache types of the options need, and keeps it.
func (m *Model) measure(ctx context.Context, o *Options, how CalibrateOptions) (*kv.Calibration, error) {
	how.Threads, how.NoRepack, how.Sense, how.Partial = o.Threads, o.NoRepack, o.KV.AutoBits > 0, o.Calibrations
	c, err := m.Calibrate(ctx, how)
	switch {
	case errors.Is(err, errNotFinite): // the channels are there; a load is no judge of models
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
func (e *Engine) Unmeasured() bool { return e.unmeasured }

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
		if kept != nil { // there is none that can be used
			known = nil
		}
		_, err = m.measure(ctx, &o, CalibrateOptions{Calibration: known, Rows: backgroundRows, Log: log, Progress: progress})
	}
	return errors.Join(err, m.Close())
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
