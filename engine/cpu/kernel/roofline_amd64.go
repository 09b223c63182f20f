package kernel

func stream(p []byte) uint64 {
	switch {
	case len(p) == 0:
		return 0
	case active == AVX512:
		return readAVX512(p)
	case active == AVX2:
		return readAVX2(p)
	}
	return streamGeneric(p)
}

func products(rounds int) int64 {
	switch {
	case rounds <= 0:
		return 0
	case active == AVX512:
		peakAVX512(rounds)
		return int64(rounds) * 12 * 64
	case active == AVX2:
		peakAVX2(rounds)
		return int64(rounds) * 12 * 32
	}
	return productsGeneric(rounds)
}

func prefetch(p []byte) {
	n := len(p) / 64
	switch {
	case n == 0:
	case active == AVX512:
		prefetchAVX512(&p[0], n)
	case active == AVX2:
		prefetchAVX2(&p[0], n)
	}
}
