package kernel

import "godwit/engine/cpu/kernel/asm"

func stream(p []byte) uint64 {
	switch {
	case len(p) == 0:
		return 0
	case active == AVX512:
		return asm.ReadAVX512(p)
	case active == AVX2:
		return asm.ReadAVX2(p)
	}
	return streamGeneric(p)
}

func products(rounds int) int64 {
	switch {
	case rounds <= 0:
		return 0
	case active == AVX512:
		asm.PeakAVX512(rounds)
		return int64(rounds) * 12 * 64
	case active == AVX2:
		asm.PeakAVX2(rounds)
		return int64(rounds) * 12 * 32
	}
	return productsGeneric(rounds)
}

func prefetch(p []byte) {
	n := len(p) / 64
	switch {
	case n == 0:
	case active == AVX512:
		asm.PrefetchAVX512(&p[0], n)
	case active == AVX2:
		asm.PrefetchAVX2(&p[0], n)
	}
}
