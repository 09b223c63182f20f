//go:build device

package engine_test

import (
	"os"
	"testing"

	"godwit/cuda"
	"godwit/engine"
	"godwit/engine/backend"
)

// Every tiny model gives on a card what an independent implementation gives.
func TestTinyModelsOnDevice(t *testing.T) {
	var driver backend.Driver
	for _, d := range []backend.Driver{cuda.NVIDIA(), cuda.AMD()} {
		if d.Name() == os.Getenv("GODWIT_DEVICE") {
			driver = d
		}
	}
	if driver == nil {
		t.Fatalf("GODWIT_DEVICE is %q; it names cuda or hip", os.Getenv("GODWIT_DEVICE"))
	}
	tinyModels(t, func() engine.Options { return engine.Options{UBatch: 64, Driver: driver} })
}
