package kernel

import "godwit/engine/cpu/kernel/asm"

func stream(p []byte) uint64 {
	switch {
	case len(p) == 0:
		return 0
	case active == Generic:
		return streamGeneric(p)
	}
	return asm.ReadNEON(&p[0], len(p))
}

func products(rounds int) int64 {
	switch {
	case rounds <= 0:
		return 0
	case active == DotProd:
		asm.PeakDot(rounds)
		return int64(rounds) * 16 * 32
	case active == NEON:
		asm.PeakNEON(rounds)
		return int64(rounds) * 16 * 16
	}
	return productsGeneric(rounds)
}

func prefetch(p []byte) {
	if n := len(p) / 64; n > 0 && active != Generic {
		asm.PrefetchNEON(&p[0], n)
	}
}
