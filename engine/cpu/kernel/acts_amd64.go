package kernel

// actCodes holds 32 codes in the order in which VPMADDWD and VPDPWSSD multiply them
// by the even and the odd bytes of four weights. The middle two of every four codes
// are therefore swapped.
type actCodes [32]int16

func actPlace(i int) int { return i&^3 | i&1<<1 | i>>1&1 }

func (c *actCodes) set(i int, q int32) { c[actPlace(i)] = int16(q) }
func (c *actCodes) at(i int) int32     { return int32(c[actPlace(i)]) }
