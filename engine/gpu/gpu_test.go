package gpu_test

import (
	"testing"

	"godwit/engine/backend"
	"godwit/engine/backend/backendtest"
	"godwit/engine/backend/backendtest/gotest"
	"godwit/engine/gpu"
	"godwit/shaders/emu"
)

// emulator returns the driver of the emulator, which runs on every machine.
func emulator() gpu.Driver {
	return gpu.Driver{
		Kind:    "emu",
		List:    func() ([]backend.Info, error) { return []backend.Info{{Backend: "emu"}}, nil },
		Connect: func(int) (gpu.Device, error) { return emu.Open(emu.Options{}) },
	}
}

func TestConformance(t *testing.T) {
	backendtest.Run(gotest.Of(t), emulator(), backend.Options{FloatAttn: true}, backendtest.Lacks...)
}
