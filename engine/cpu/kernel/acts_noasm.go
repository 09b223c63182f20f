//go:build !amd64

package kernel

// actCodes holds 32 codes in two planes, for instructions that multiply bytes. A
// code is q = 256·hi + lo.
type actCodes struct{ hi, lo [32]int8 }

func (c *actCodes) set(i int, q int32) {
	c.hi[i] = int8((q + 128) >> 8)
	c.lo[i] = int8(q)
}

func (c *actCodes) at(i int) int32 { return int32(c.hi[i])<<8 + int32(c.lo[i]) }
