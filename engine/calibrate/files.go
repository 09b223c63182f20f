package calibrate

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"godwit/engine/kv/layout"
)

// Path returns the path of the model's calibration in a folder.
func (m *Model) Path(dir string) string { return filepath.Join(dir, m.ID[:32]+".calibration") }

// Read reads the model's calibration from a folder. It returns fs.ErrNotExist
// without one, and layout.ErrCalibration if it cannot be used.
func (m *Model) Read(dir string) (*layout.Calibration, error) {
	layers, err := m.Layers(m.Config.Context)
	if err != nil {
		return nil, err
	}
	path := m.Path(dir)
	c, err := readCalibration(path)
	if err == nil {
		err = c.Check(m.ID, layers)
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return c, err
	case !errors.Is(err, layout.ErrCalibration): // the file exists and cannot be read
		err = fmt.Errorf("%w: %w", layout.ErrCalibration, err)
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// openOrdinary opens a regular file. It rejects other files, because opening a
// pipe would block.
func openOrdinary(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is not an ordinary file (%s)", layout.ErrCalibration, info.Mode().Type())
	}
	return os.Open(path)
}

func readCalibration(path string) (*layout.Calibration, error) {
	f, err := openOrdinary(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return layout.ReadCalibration(f)
}

// Save writes a calibration to a folder. It creates the folder if necessary.
func (m *Model) Save(dir string, c *layout.Calibration) error {
	tmp, err := writeCalibration(dir, c)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, m.Path(dir)); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	m.dropPartial(dir)
	return nil
}

// CanSave checks, before minutes of measuring, that Save will work. It writes a file of the same
// size and removes it.
func (m *Model) CanSave(dir string) error {
	layers, err := m.Layers(m.Config.Context)
	if err != nil {
		return err
	}
	c := newHeadStats(layers).calibration(m.ID, calibrationTokens)
	for i := range c.Layers {
		c.Layers[i].SenseK, c.Layers[i].SenseV = math.Pi, math.Pi // a number with as many digits as a real one
	}
	tmp, err := writeCalibration(dir, c)
	if err != nil {
		return err
	}
	if err := os.Remove(tmp); err != nil {
		return err
	}
	path := m.Path(dir)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", path)
	}
	return nil
}

// writeCalibration writes and syncs a calibration to a new file in a folder, and returns
// its name.
func writeCalibration(dir string, c *layout.Calibration) (string, error) {
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
