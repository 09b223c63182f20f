package kernel

import "runtime"

// Stream reads p, rounded down to a multiple of 256 bytes, as fast as the tier
// can. It is for measuring memory bandwidth. The result depends on every byte.
func Stream(p []byte) uint64 { return stream(p[:len(p)&^255]) }

// Products does a number of rounds of independent 16-bit multiply-adds on
// registers and returns the number of operations, two for each. This is the
// peak against which [MatMul] is measured.
func Products(rounds int) (ops int64) { return products(rounds) }

// Prefetch prefetches p into the second-level cache. It is for a waiting thread
// that knows which weights it will read next. It returns at once and has no
// other effect.
func Prefetch(p []byte) { prefetch(p) }

func streamGeneric(p []byte) (mix uint64) {
	for i := 0; i < len(p); i += 8 {
		mix ^= uint64(u32(p[i:])) | uint64(u32(p[i+4:]))<<32
	}
	return mix
}

func productsGeneric(rounds int) int64 {
	var s [4]int32
	for i := range rounds {
		a := int32(int8(i))
		for j := range s {
			s[j] += a * int32(j+3)
		}
	}
	runtime.KeepAlive(s)
	return int64(rounds) * 2 * int64(len(s))
}
