package kernel

func stream(p []byte) uint64 {
	switch {
	case len(p) == 0:
		return 0
	case active == Generic:
		return streamGeneric(p)
	}
	return readNEON(&p[0], len(p))
}

func products(rounds int) int64 {
	switch {
	case rounds <= 0:
		return 0
	case active == DotProd:
		peakDot(rounds)
		return int64(rounds) * 16 * 32
	case active == NEON:
		peakNEON(rounds)
		return int64(rounds) * 16 * 16
	}
	return productsGeneric(rounds)
}

func prefetch(p []byte) {
	if n := len(p) / 64; n > 0 && active != Generic {
		prefetchNEON(&p[0], n)
	}
}
