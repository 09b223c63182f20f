package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"godwit/engine"
	"godwit/engine/calibrate"
	"godwit/engine/kv/layout"
)

// calibrations returns the folder of the saved calibrations.
func (r *run) calibrations() string { return filepath.Join(r.home.Data, "calibrations") }

type kvCalibrateCmd struct {
	modelArg
	Threads int    `short:"t" placeholder:"N" help:"CPU threads. 0: one for each physical core."`
	File    string `short:"f" placeholder:"FILE" type:"existingfile" help:"Text to measure on. Default: a built-in one."`
	Fast    bool   `help:"Do not measure the sensitivity of the caches, which --kv-auto needs. Results of an earlier full run are kept."`
	JSON    bool   `name:"json" help:"Machine-readable output."`
}

// calibrationRow is a layer in the output of kv calibrate. Each sensitivity is
// the divergence in nats if only that cache uses the type with the fewest bits.
type calibrationRow struct {
	Layer  int     `json:"layer"`
	SenseK float64 `json:"sense_k"`
	SenseV float64 `json:"sense_v"`
}

// Run measures and saves a calibration.
func (c *kvCalibrateCmd) Run(r *run) error {
	path, err := r.find(c.Model)
	if err != nil {
		return err
	}
	m, err := engine.OpenModel(path)
	if err != nil {
		return err
	}
	defer m.Close()
	measure := m.Calibrator()
	o := calibrate.Options{Threads: c.Threads, Sense: !c.Fast}
	if c.File != "" {
		text, err := os.ReadFile(c.File)
		if err != nil {
			return err
		}
		words, err := m.Tokenizer()
		if err != nil {
			return err
		}
		if o.Tokens = words.EncodeText(string(text), true, false); len(o.Tokens) < minCalibration {
			return fmt.Errorf("%s has %d tokens, but at least %d are needed", c.File, len(o.Tokens), minCalibration)
		}
	}
	if err := measure.CanSave(r.calibrations()); err != nil {
		return fmt.Errorf("nothing was measured, because the result could not be saved: %w", err)
	}
	bar := r.loadBar(path, true)
	o.Progress, o.Partial, o.Log = bar.measured, r.calibrations(), r.log
	cal, err := measure.Measure(r.ctx, o)
	bar.close()
	if err == nil && c.Fast {
		// The sensitivities of an earlier full run stay valid, because they do
		// not depend on the channels.
		if old, kept := measure.Read(r.calibrations()); kept == nil {
			cal.KeepSense(old)
		}
	}
	if err == nil {
		err = measure.Save(r.calibrations(), cal)
	}
	if err != nil {
		return err
	}
	return r.printCalibration(cal, measure.Path(r.calibrations()), c.JSON)
}

// minCalibration is the smallest number of tokens that calibrates channels
// reliably.
const minCalibration = 128

func (r *run) printCalibration(c *layout.Calibration, file string, asJSON bool) error {
	rows := []calibrationRow{}
	for i := range c.Layers {
		if l := &c.Layers[i]; l.SenseK > 0 || l.SenseV > 0 {
			rows = append(rows, calibrationRow{i, l.SenseK, l.SenseV})
		}
	}
	if asJSON {
		return r.json(struct {
			File   string           `json:"file"`
			Tokens int              `json:"tokens"`
			Layers []calibrationRow `json:"layers"`
		}{file, c.Tokens, rows})
	}
	var errs []error
	if len(rows) > 0 {
		t := newTable("LAYER", "K", "V")
		for _, row := range rows {
			t.add(strconv.Itoa(row.Layer), nats(row.SenseK), nats(row.SenseV))
		}
		least, _ := layout.AutoRange()
		errs = append(errs, t.write(r.out))
		_, err := fmt.Fprintf(r.out, "\nDivergence from f16, in nats, if only the named cache is packed at %g bits.\n", least)
		errs = append(errs, err)
	}
	_, err := fmt.Fprintf(r.out, "measured on %d tokens, saved in %s\n", c.Tokens, file)
	return errors.Join(append(errs, err)...)
}

func nats(v float64) string { return strconv.FormatFloat(v, 'f', 5, 64) }
