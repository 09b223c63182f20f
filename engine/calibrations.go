package engine

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"godwit/engine/kv"
)

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
		return nil, fmt.Errorf("%w: it is not an ordinary file (%s)", kv.ErrCalibration, info.Mode().Type())
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
	o.KV.Uncalibrated, o.KV.CalibratedLater = o.NoCalibration || o.CalibrateLater, o.CalibrateLater && !o.NoCalibration
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
	m.dropPartial(dir)
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
