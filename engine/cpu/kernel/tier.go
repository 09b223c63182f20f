package kernel

import (
	"fmt"
	"os"
	"slices"
)

// Tier is a set of instructions that the kernels use.
type Tier uint8

// The tiers, slowest first for each kind of processor.
const (
	Generic Tier = iota // plain Go
	AVX2                // AVX2, FMA and F16C
	AVX512              // AVX-512 F, BW, DQ, VL, VBMI and VNNI
	NEON                // present on every arm64 processor
	DotProd             // NEON with SDOT and UDOT
)

func (t Tier) String() string {
	switch t {
	case Generic:
		return "generic"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	case NEON:
		return "neon"
	case DotProd:
		return "dotprod"
	}
	return fmt.Sprintf("tier %d", uint8(t))
}

// envTier is the environment variable that selects a tier instead of the best
// one.
const envTier = "GODWIT_CPU_TIER"

// active is the tier in use. It is set once at start; tests change it with
// [Use].
var active, errEnv = choose(os.Getenv(envTier))

// choose returns the tier with a name, or the best one for an empty name.
func choose(name string) (Tier, error) {
	all := Tiers()
	best := all[len(all)-1]
	if name == "" {
		return best, nil
	}
	for _, t := range all {
		if t.String() == name {
			return t, nil
		}
	}
	return best, fmt.Errorf("%s=%q: this machine has %v", envTier, name, all)
}

// EnvError returns an error if GODWIT_CPU_TIER, as read at start, is not a tier
// of this machine. The best tier is used then.
func EnvError() error { return errEnv }

// Active returns the tier in use: the best of [Tiers], or the one named by the
// environment variable GODWIT_CPU_TIER if the machine supports it.
func Active() Tier { return active }

// Tiers lists the tiers of this machine, slowest first.
func Tiers() []Tier { return append([]Tier{Generic}, simdTiers()...) }

// Use sets the tier, for tests that run every tier. No kernel may be running.
func Use(t Tier) error {
	if !slices.Contains(Tiers(), t) {
		return fmt.Errorf("cpu tier %v: this machine has %v", t, Tiers())
	}
	active = t
	return nil
}
