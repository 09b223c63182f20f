package cpu_test

import (
	"testing"

	"godwit/engine/backend"
	"godwit/engine/backend/backendtest"
	"godwit/engine/cpu"
)

func TestConformance(t *testing.T) {
	for _, o := range []backend.Options{{Threads: 1}, {Threads: 3}, {Threads: 2, NoRepack: true}} {
		backendtest.Run(t, cpu.Driver{}, o)
	}
}

func TestAttentionMatrix(t *testing.T) {
	backendtest.AttentionMatrix(t, cpu.Driver{}, backend.Options{Threads: 2})
}
