package gpu_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/gpu"
	"godwit/engine/kv"
	"godwit/shaders/emu"
)

var errLost = errors.New("the device is lost")

// losing is a device that fails after a number of downloads.
type losing struct {
	gpu.Device
	answers int
}

func (l *losing) Download(dst []byte, src gpu.Buffer, offset int64) error {
	if l.answers--; l.answers < 0 {
		return errLost
	}
	return l.Device.Download(dst, src, offset)
}

// If a device stops responding while a conversation calibrates its keys, the batch returns an error
// that names the layer. If it has no memory for the calibrations, the load returns an error with
// the numbers.
func TestSelfCalibrationFaults(t *testing.T) {
	w := &twins{twinCase: twinCase{k: "gw3", v: "gw3", dim: 64, exact: kv.Window{Newest: 64}, self: true}}
	w.build(t)
	for answers, want := range []string{"calibration of layer 0", "calibration of layer 0", "calibration of layer 1", "calibration of layer 1", "calibration of layer 2", "calibration of layer 2", ""} {
		b := w.open(t, gpu.Driver{Kind: "test", Connect: func(int) (gpu.Device, error) {
			d, err := emu.Open(emu.Options{})
			return &losing{d, answers}, err
		}})
		err := b.prog.Run(context.Background(), w.batch(t, &b, []int{3}))
		if !errors.Is(err, errLost) || !strings.Contains(err.Error(), want) {
			t.Errorf("after %d answers: %v, want %q", answers, err, want)
		}
	}
	full := gpu.Driver{Kind: "test", Connect: func(int) (gpu.Device, error) {
		d, err := emu.Open(emu.Options{})
		return full{d}, err
	}}
	b, err := full.Open(0, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Compile(context.Background(), w.plan, &w.layout, backend.Sizes{Rows: 8, Outputs: 8, Pages: []int{8}})
	if !errors.Is(err, backend.ErrMemory) || !strings.Contains(err.Error(), "3 conversations in layer 0") {
		t.Errorf("no room: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// full is a device without memory for calibrations.
type full struct{ gpu.Device }

func (f full) Alloc(size int64, data []byte, label string) (gpu.Buffer, error) {
	if strings.Contains(label, "conversations") {
		return nil, backend.ErrMemory
	}
	return f.Device.Alloc(size, data, label)
}
