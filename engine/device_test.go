//go:build device

package engine_test

import (
	"os"
	"testing"

	"godwit/cuda"
	"godwit/engine"
	"godwit/engine/backend"
	"godwit/engine/gpu"
)

// On a GPU, every tiny model gives the results of an independent implementation, both
// with the kernels for that GPU and with the kernels for older GPUs.
func TestTinyModelsOnDevice(t *testing.T) {
	var driver backend.Driver
	for _, d := range []backend.Driver{cuda.NVIDIA(), cuda.AMD()} {
		if d.Name() == os.Getenv("GODWIT_DEVICE") {
			driver = d
		}
	}
	if os.Getenv("GODWIT_DEVICE") == "fake" {
		driver = emulator()
	}
	if driver == nil {
		t.Fatalf("GODWIT_DEVICE is %q; it names cuda, hip or fake", os.Getenv("GODWIT_DEVICE"))
	}
	t.Run("card", func(t *testing.T) {
		tinyModels(t, func() engine.Options { return engine.Options{UBatch: 64, Driver: driver} })
	})
	d := driver.(gpu.Driver)
	connect := d.Connect
	d.Connect = func(i int) (gpu.Device, error) {
		dev, err := connect(i)
		if err != nil {
			return nil, err
		}
		r, ok := dev.(gpu.Recorder)
		if !ok {
			return dev, nil // not a GPU
		}
		return older{r}, nil
	}
	t.Run("older", func(t *testing.T) {
		tinyModels(t, func() engine.Options { return engine.Options{UBatch: 64, Driver: d} })
	})
}

// older hides features of newer GPUs.
type older struct{ gpu.Recorder }
