package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/testmodel"
)

// If a calibration cannot be saved, nothing is measured: a run that would be
// cancelled at its first measurement reports the folder's problem. Otherwise the
// write test leaves no file behind.
func TestCalibrateUnwritable(t *testing.T) {
	model := testmodel.Small(t, "llama-hd64")
	m, err := engine.OpenModel(model)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(m.Calibrator().Path(""))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what    string
		prepare func(dir string) error
		code    int
		want    string
		left    int // number of files in the folder
	}{
		{"all is well", func(string) error { return nil }, 130, "interrupted", 0},
		{"the folder is a file", func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(dir), 0o755), os.WriteFile(dir, nil, 0o644))
		}, 1, "nothing was measured, because the result could not be saved", -1},
		{"the file is a folder", func(dir string) error { return os.MkdirAll(filepath.Join(dir, name), 0o755) }, 1, name + " is a folder", 1},
	} {
		home := t.TempDir()
		t.Setenv("GODWIT_HOME", home)
		dir := filepath.Join(home, "data", "calibrations")
		if err := test.prepare(dir); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errs bytes.Buffer
		r := &run{ctx: ctx, in: strings.NewReader(""), out: bufio.NewWriter(&out), err: &errs}
		if code := r.main([]string{"kv", "calibrate", model}); code != test.code || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%s: exit %d, %s", test.what, code, &errs)
		}
		if left, err := os.ReadDir(dir); test.left >= 0 && (err != nil || len(left) != test.left) {
			t.Errorf("%s: %v left behind, %v", test.what, left, err)
		}
	}
}
