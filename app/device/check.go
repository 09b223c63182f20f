package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"godwit/engine/backend"
	"godwit/engine/backend/backendtest"
)

// Verdict is the result of checking a device.
type Verdict struct {
	Backend string    `json:"backend"`
	Device  string    `json:"device"`
	Detail  string    `json:"detail"` // details such as the driver version
	Binary  string    `json:"binary"` // hash of the program that ran the check, see binary
	When    time.Time `json:"when"`
	// Error says why the check could not finish. It is empty if it did.
	Error string `json:"error,omitempty"`
	None  bool   `json:"none,omitempty"` // there is no device
	backendtest.Result
}

// Passed reports whether every case of the check was correct.
func (v *Verdict) Passed() bool { return v.Error == "" && v.Cases > 0 && len(v.Failures) == 0 }

// String summarises the verdict in a few words.
func (v *Verdict) String() string {
	switch {
	case v.Error != "":
		return v.Error
	case len(v.Failures) > 0:
		return fmt.Sprintf("%d of %d cases are wrong, first %s: %s", len(v.Failures), v.Cases, v.Failures[0].Case, v.Failures[0].Text)
	}
	return fmt.Sprintf("all %d cases are right", v.Cases)
}

// Check compares the results of a backend's first device with the reference: every
// op, every weight type and every cache type. progress is called at the start of
// each case. The error is that of ctx, or says why nothing could be checked, as the
// verdict does.
func Check(ctx context.Context, name string, progress func(what string)) (Verdict, error) {
	d, err := Named(name)
	if err != nil {
		return Verdict{}, err
	}
	return check(ctx, d, progress)
}

func check(ctx context.Context, d backend.Driver, progress func(what string)) (Verdict, error) {
	v := Verdict{Backend: d.Name(), Binary: binary(), When: time.Now().UTC().Truncate(time.Second)}
	list, err := d.Devices()
	if err == nil && len(list) == 0 {
		v.None = true
		var b backend.Backend
		if b, err = d.Open(0, backend.Options{}); err == nil { // otherwise err says why
			err = errors.Join(fmt.Errorf("%s: there is no device", d.Name()), b.Close())
		}
	}
	if err != nil {
		v.Error = err.Error()
		return v, err
	}
	v.Device, v.Detail = list[0].Device, list[0].Detail
	v.Result, err = backendtest.Check(ctx, d, backend.Options{FloatAttn: true}, progress)
	return v, err
}

// binary identifies this build of the program, because a verdict says nothing about
// the kernels of another build.
func binary() string {
	path, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	info, err := os.Stat(path)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano))
}

// Record is the file that keeps the last verdict on each backend.
type Record string

// maxRecord limits the size of a record that is read.
const maxRecord = 1 << 20

// Verdicts reads the record, by backend. It returns nothing for a missing or
// damaged file, so that the devices are checked again.
func (r Record) Verdicts() (map[string]Verdict, error) {
	none := map[string]Verdict{}
	info, err := os.Stat(string(r))
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRecord {
		return none, nil
	}
	data, err := os.ReadFile(string(r))
	if err != nil {
		return none, err
	}
	return verdicts(data), nil
}

// verdicts parses a record. It returns nothing if the record is damaged.
func verdicts(data []byte) map[string]Verdict {
	var kept map[string]Verdict
	if json.Unmarshal(data, &kept) != nil || kept == nil {
		return map[string]Verdict{}
	}
	return kept
}

// Short returns the verdict with only its first few failures.
func (v Verdict) Short() Verdict {
	const failures, text = 20, 500
	v.Failures = slices.Clone(v.Failures[:min(failures, len(v.Failures))])
	for i, f := range v.Failures {
		v.Failures[i].Text = strings.ToValidUTF8(f.Text[:min(text, len(f.Text))], "")
	}
	return v
}

// Keep writes the short form of a verdict to the record.
func (r Record) Keep(v Verdict) error {
	v = v.Short()
	kept, err := r.Verdicts()
	if err != nil {
		return err
	}
	kept[v.Backend] = v
	data, err := json.MarshalIndent(kept, "", "\t")
	if err != nil {
		return err
	}
	dir := filepath.Dir(string(r))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), string(r))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
