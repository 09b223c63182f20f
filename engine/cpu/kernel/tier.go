package kernel

import (
	"fmt"
	"os"
	"slices"
)

// Tier is a set of instructions that the kernels use.
type Tier uint8

// The tiers, slowest first.
const (
	Generic Tier = iota // plain Go
	AVX2                // AVX2, FMA and F16C
	AVX512              // AVX-512 F, BW, DQ, VL, VBMI and VNNI
)

func (t Tier) String() string {
	switch t {
	case Generic:
		return "generic"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("tier %d", uint8(t))
}

// active is the tier in use. It is set once at start, by [Use] only in tests.
var active = start(os.Getenv("GODWIT_CPU_TIER"))

func start(want string) Tier {
	all := Tiers()
	for _, t := range all {
		if t.String() == want {
			return t
		}
	}
	return all[len(all)-1]
}

// Active is the tier in use: the best of [Tiers], or the one that the environment
// variable GODWIT_CPU_TIER names if the machine has it.
func Active() Tier { return active }

// Tiers lists what this machine offers, slowest first.
func Tiers() []Tier { return append([]Tier{Generic}, simdTiers()...) }

// Use makes t the tier in use, for tests that run every tier. No kernel may be running.
func Use(t Tier) error {
	if !slices.Contains(Tiers(), t) {
		return fmt.Errorf("cpu tier %v: this machine has %v", t, Tiers())
	}
	active = t
	return nil
}
