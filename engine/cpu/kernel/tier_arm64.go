package kernel

import "golang.org/x/sys/cpu"

func simdTiers() []Tier {
	if cpu.ARM64.HasASIMDDP {
		return []Tier{NEON, DotProd}
	}
	return []Tier{NEON}
}
