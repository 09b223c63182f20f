//go:build !amd64

package kernel

func simdTiers() []Tier { return nil }
