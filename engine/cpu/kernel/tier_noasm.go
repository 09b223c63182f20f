//go:build !amd64 && !arm64

package kernel

func simdTiers() []Tier { return nil }
