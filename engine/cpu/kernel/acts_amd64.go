package kernel

// actCodes are 32 codes as VPMADDWD and VPDPWSSD take them against the even
// and the odd bytes of four weights: of every four codes the middle two change places.
type actCodes [32]int16

func actPlace(i int) int { return i&^3 | i&1<<1 | i>>1&1 }

func (c *actCodes) set(i int, q int32) { c[actPlace(i)] = int16(q) }
func (c *actCodes) at(i int) int32     { return int32(c[actPlace(i)]) }
