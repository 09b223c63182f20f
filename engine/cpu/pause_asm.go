//go:build amd64 || arm64

package cpu

// pause is the processor's spin-wait hint.

func pause()
